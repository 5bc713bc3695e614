package main

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
)

//go:embed layers.txt
var layersText string

// layers is what layers.txt says.
type layers struct {
	names  []string            // of the layers, from below
	layer  map[string]int      // of each package
	place  map[string]int      // of each package: it imports only what has a lower one
	only   map[string][]string // what a package may import of the project; a package that may import all below it is missing
	below  map[int][]string    // the same of a layer, of others
	others map[string][]string // who may import a module of others
}

// nothing is what the packages import that know no other.
const nothing = "nothing"

// others is the heading of the modules of others, everybody who may import some of them.
const others, everybody = "others", "everybody"

// parseLayers parses layers.txt.
func parseLayers(text string) (*layers, error) {
	l := &layers{layer: map[string]int{}, place: map[string]int{}, only: map[string][]string{}, below: map[int][]string{}, others: map[string][]string{}}
	heading := ""
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		name, of, restricted := strings.Cut(strings.TrimSpace(line), ":")
		allowed := strings.Fields(of)
		if slices.Equal(allowed, []string{nothing}) {
			allowed = nil
		}
		_, twice := l.place[name]
		switch title, isHeading := strings.CutPrefix(name, "= "); {
		case name == "":
		case isHeading:
			if heading = title; title != others {
				if restricted {
					l.below[len(l.names)] = allowed
				}
				l.names = append(l.names, title)
			}
		case heading == others:
			l.others[name] = allowed
		case twice, heading == "":
			return nil, fmt.Errorf("%s stands twice, or below no heading", name)
		default:
			l.layer[name], l.place[name] = len(l.names)-1, len(l.place)
			if restricted {
				l.only[name] = allowed
			}
		}
	}
	return l, nil
}

// wrong returns how the imports of packages differ from the layers.
func (l *layers) wrong(own, foreign graph) (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, from := range slices.Sorted(maps.Keys(own)) {
		if _, known := l.place[from]; !known {
			if !tool(from) {
				say("%s is missing", from)
			}
			continue
		}
		for _, to := range own[from] {
			allowed, restricted := l.only[from]
			if below, of := l.below[l.layer[from]]; of && !restricted && l.layer[to] != l.layer[from] {
				allowed, restricted = below, true
			}
			switch {
			case tool(to) || l.place[to] >= l.place[from]:
				say("%s stands below %s, which imports it", to, from)
			case restricted && !slices.Contains(allowed, to):
				say("%s may not import %s", from, to)
			}
		}
		for _, to := range foreign[from] {
			if !l.mayImport(from, to) {
				say("%s may not import %s", from, to)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.place)) {
		if _, exists := own[name]; !exists {
			say("there is no %s", name)
		}
	}
	return all
}

// mayImport reports whether a package may import one of another module.
func (l *layers) mayImport(from, to string) bool {
	for module, who := range l.others {
		if to == module || strings.HasPrefix(to, module+"/") {
			return slices.Contains(who, from) || slices.Contains(who, everybody)
		}
	}
	return false
}

// tool reports whether a package may import everything, and may be imported by none of the layers.
func tool(name string) bool {
	for _, dir := range []string{"integration", "internal/tools", "internal/testns"} {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}
