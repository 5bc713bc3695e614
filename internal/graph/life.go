package graph

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kprobefs/kprobefs/internal/look"
)

// state is what the text at a probed address is.
type state int

const (
	jump state = iota
	leaving
	waiting
	int3
	ftrace
	unarmed
	gone
)

// lanes are the states from above, with their names and classes.
var lanes = []struct{ name, class string }{
	jump:    {"optimized: a jump", "jump"},
	leaving: {"a jump, queued to lose it", "jump"},
	waiting: {"armed, queued for a jump", "int3"},
	int3:    {"armed: int3", "int3"},
	ftrace:  {"armed: ftrace calls it", "ftrace"},
	unarmed: {"not armed", ""},
	gone:    {"the text is gone", ""},
}

// changes are the states after what a history says.
var changes = map[string]state{
	"registered":                   unarmed,
	"int3 is written":              int3,
	"int3 is removed":              unarmed,
	"ftrace calls it":              ftrace,
	"ftrace no longer calls it":    unarmed,
	"queued for its jump":          waiting,
	"the jump is written":          jump,
	"keeps its jump":               jump,
	"queued to lose its jump":      leaving,
	"the jump is replaced by int3": int3,
	"the text is removed":          gone,
}

// after returns the state after a change. Another text is a reason: with it, a probe that waits for
// its jump leaves the queue.
func after(s state, what string) state {
	if next, ok := changes[what]; ok {
		return next
	}
	if s == waiting && what != "another probe joins" {
		return int3
	}
	return s
}

// ErrNoHistory says that nothing is known of a probe's past.
var ErrNoHistory = errors.New("the probe has no history")

// changeWidth is the space between two changes.
const changeWidth = 64

// Life draws the states of a probe over time. The changes have equal distances, since most of them
// follow each other within a millisecond; a list below has their times.
func Life(w io.Writer, p look.Probe) error {
	if len(p.History) == 0 {
		return ErrNoHistory
	}
	states := statesOf(p)
	g := &picture{}
	title := "The life of the probe at " + p.Place
	g.text(margin, 32, "title", title)
	top := 60.0
	at := map[state]float64{} // where the lanes are
	left := margin + 28*charWidth
	right := left + changeWidth*(float64(len(states))+0.5)
	for s, lane := range lanes {
		if !slices.Contains(states, state(s)) {
			continue
		}
		y := top + 30*float64(len(at))
		at[state(s)] = y
		g.text(margin, y+4, lane.class, lane.name)
		g.path(fmt.Sprintf("M%s %sH%s", number(left), number(y), number(right)), "lane", false)
	}
	bottom := top + 30*float64(len(at)-1)
	g.reach(right, bottom)
	for i, s := range states {
		x, y := left+changeWidth*(float64(i)+0.5), at[s]
		end := x + changeWidth
		if i > 0 {
			g.path(fmt.Sprintf("M%s %sV%s", number(x), number(at[states[i-1]]), number(y)), "way", false)
		}
		g.path(fmt.Sprintf("M%s %sH%s", number(x), number(y), number(end)), strings.TrimSpace("way "+lanes[s].class), i == len(states)-1)
		fmt.Fprintf(&g.body, "<circle cx=%q cy=%q r=\"3.5\" class=\"dot\"/>\n", number(x), number(y))
		g.text(x-4, bottom+26, "faint", fmt.Sprint(i+1))
	}
	g.text(left+changeWidth*float64(len(states))+8, bottom+26, "faint", "now")
	listChanges(g, p, bottom+60)
	return g.writeTo(w, title, describeLife(p, states))
}

// statesOf returns the state after each change. What was before the changes that are kept is found
// out from the first of them where that is possible.
func statesOf(p look.Probe) (states []state) {
	s := unarmed
	if p.Before > 0 {
		switch p.History[0].What {
		case "queued to lose its jump", "the jump is replaced by int3", "keeps its jump":
			s = jump
		case "queued for its jump", "the jump is written", "int3 is removed":
			s = int3
		case "ftrace no longer calls it":
			s = ftrace
		}
	}
	for _, c := range p.History {
		s = after(s, c.What)
		states = append(states, s)
	}
	return states
}

// listChanges writes the changes with their numbers, times, and the times between them.
func listChanges(g *picture, p look.Probe, y float64) {
	if p.Before > 0 {
		g.text(margin, y, "faint", fmt.Sprintf("%d earlier changes are not kept.", p.Before))
		y += lineHeight
	}
	for i, c := range p.History {
		between := ""
		if i > 0 {
			between = "+" + short(c.At-p.History[i-1].At)
		}
		g.text(margin, y, "", fmt.Sprintf("%3d  %12.6f s  %10s  %s", i+1, c.At, between, c.What))
		y += lineHeight
	}
}

// short writes seconds with three digits or so.
func short(seconds float64) string {
	switch d := time.Duration(math.Round(seconds*1e6)) * time.Microsecond; {
	case d < time.Millisecond:
		return fmt.Sprintf("%d us", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	default:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
}

func describeLife(p look.Probe, states []state) string {
	var parts []string
	for i, c := range p.History {
		parts = append(parts, fmt.Sprintf("%.6f s: %s (%s)", c.At, c.What, lanes[states[i]].name))
	}
	return "From left to right, what the text at the probed address was after each change since the machine's boot. The distances are not to scale. " + strings.Join(parts, "; ") + "."
}
