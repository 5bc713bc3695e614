package graph

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kprobefs/kprobefs/internal/look"
)

var update = flag.Bool("update", false, "write testdata/*.svg instead of comparing them")

func read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// functionOf reads a function as a mounted tree has shown it.
func functionOf(t testing.TB, name string) []look.Function {
	t.Helper()
	functions, ok := look.ParseFunctions(read(t, name+".text"), read(t, name+".copies"))
	if !ok || len(functions) != 1 {
		t.Fatalf("%s has %d functions", name, len(functions))
	}
	return functions
}

// texts returns what a picture says, and fails if it is no XML.
func texts(t testing.TB, svg string) (all []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, svg)
		}
		if text, ok := token.(xml.CharData); ok {
			all = append(all, string(text))
		}
	}
}

func wantPicture(t *testing.T, name string, draw func(io.Writer) error) string {
	t.Helper()
	var b, again strings.Builder
	if err := errors.Join(draw(&b), draw(&again)); err != nil {
		t.Fatal(err)
	}
	if b.String() != again.String() {
		t.Error("two pictures of the same differ")
	}
	texts(t, b.String())
	file := filepath.Join("testdata", name+".svg")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(read(t, name+".svg"), b.String()); d != "" {
		t.Errorf("%s (-update writes it):\n%s", file, d)
	}
	return b.String()
}

// TestText: the pictures of a function with a call, and with a breakpoint or a jump.
func TestText(t *testing.T) {
	for _, c := range []struct {
		name  string
		all   bool
		says  []string
		never string
	}{
		{"jump", false, []string{"jumps to the detour", "jumps back", "callq optimized_callback", "+0x0: call of ftrace's trampoline, armed, called by ftrace, carried out by ftrace"}, "a hit is stepped"},
		{"int3", false, []string{"a hit is stepped", "int3 again: goes on", "detour: save the registers, call the handlers, restore them, not used now"}, "jumps to the detour"},
		{"int3", true, []string{"a hit is stepped"}, "... "},
	} {
		name := c.name
		if c.all {
			name += "-all"
		}
		t.Run(name, func(t *testing.T) {
			functions := functionOf(t, c.name)
			draw := func(w io.Writer) error { return Text(w, functions, TextOptions{All: c.all}) }
			var svg string
			if c.all { // it is long
				var b strings.Builder
				if err := draw(&b); err != nil {
					t.Fatal(err)
				}
				svg = b.String()
			} else {
				svg = wantPicture(t, name, draw)
			}
			said := strings.Join(texts(t, svg), "\n")
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("%q is not said", want)
				}
			}
			if strings.Contains(said, c.never) {
				t.Errorf("%q is said", c.never)
			}
			for _, in := range functions[0].Instructions {
				if c.all && !strings.Contains(said, lineOf(in)) {
					t.Errorf("without %+v", in)
				}
			}
		})
	}
}

// TestTextHidden: without addresses, offsets remain; and a function without probes is drawn as a
// whole.
func TestTextHidden(t *testing.T) {
	functions := functionOf(t, "jump")
	hide(functions[0].Instructions)
	var b strings.Builder
	if err := Text(&b, functions, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(texts(t, b.String()), "\n"); strings.Contains(said, "0000000000000000") || !strings.Contains(said, "+0xc") {
		t.Error(said)
	}
	plain, _ := look.ParseFunctions("f: [mine]\n  ffffffffc0000000  +0x0    c3                             ret\n", "")
	b.Reset()
	if err := Text(&b, plain, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(texts(t, b.String()), "\n"); !strings.Contains(said, "f [mine]") || !strings.Contains(said, "No instruction is probed.") {
		t.Error(said)
	}
	if err := Text(&b, nil, TextOptions{}); !errors.Is(err, ErrNoText) {
		t.Error(err)
	}
}

func hide(all []look.Instruction) {
	for i := range all {
		all[i].Address = "0000000000000000"
		hide(all[i].Was)
		if p := all[i].Probe; p != nil {
			for _, c := range p.Copies {
				hide(c.Instructions)
			}
		}
	}
}

// TestLife: the picture of a history, and of one whose beginning is not kept.
func TestLife(t *testing.T) {
	probes := look.ParseProbes(read(t, "probed"))
	p, ok := look.FindProbe(probes, "vfs_read+0xc")
	if !ok {
		t.Fatalf("%+v", probes)
	}
	wantPicture(t, "life", func(w io.Writer) error { return Life(w, p) })
	if err := Life(io.Discard, look.Probe{}); !errors.Is(err, ErrNoHistory) {
		t.Error(err)
	}
}

// TestStates: what each change makes of the state, from the first that is known.
func TestStates(t *testing.T) {
	for _, c := range []struct {
		before int
		what   string
		want   []state
	}{
		{0, "registered, int3 is written, queued for its jump, the jump is written", []state{unarmed, int3, waiting, jump}},
		{0, "registered, int3 is written, queued for its jump, it is disarmed, int3 is removed", []state{unarmed, int3, waiting, int3, unarmed}},
		{0, "registered, ftrace calls it, another probe joins, ftrace no longer calls it", []state{unarmed, ftrace, ftrace, unarmed}},
		{9, "it is disarmed, queued to lose its jump, keeps its jump, the text is removed", []state{unarmed, leaving, jump, gone}},
		{9, "queued to lose its jump, the jump is replaced by int3, int3 is removed", []state{leaving, int3, unarmed}},
		{1, "queued for its jump, another probe joins, the jump is written", []state{waiting, waiting, jump}},
	} {
		p := look.Probe{Before: c.before}
		for what := range strings.SplitSeq(c.what, ", ") {
			p.History = append(p.History, look.Change{What: what})
		}
		if d := cmp.Diff(c.want, statesOf(p)); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
	}
}

// FuzzPictures: whatever the files have, a picture is well-formed.
func FuzzPictures(f *testing.F) {
	f.Add(read(f, "jump.text"), read(f, "jump.copies"), read(f, "probed"))
	f.Add("<&>: []\n* 0  +0x0    cc  int3\x01  # was: 90 \xffnop\n", "<&>: []\n+0x0 armed yes flags - carried step\n+0x0 slot\n", "address: 0\nprobe: k missed 0 -\nhistory: 1 </text>\n")
	f.Fuzz(func(t *testing.T, text, copies, probed string) {
		var b strings.Builder
		if functions, ok := look.ParseFunctions(text, copies); ok && len(functions) > 0 {
			if err := Text(&b, functions, TextOptions{}); err != nil {
				t.Fatal(err)
			}
			texts(t, b.String())
		}
		for _, p := range look.ParseProbes(probed) {
			b.Reset()
			if err := Life(&b, p); err != nil && !errors.Is(err, ErrNoHistory) {
				t.Fatal(err)
			} else if err == nil {
				texts(t, b.String())
			}
		}
	})
}
