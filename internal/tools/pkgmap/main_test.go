package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var small = graph{
	".":             {"kprobes", "kernel", "fs"},
	"fs":            {"kprobes", "kernel/abi"},
	"kprobes":       {"kernel/abi"},
	"kernel":        {"kernel/abi"},
	"kernel/abi":    nil,
	"cmd/kprobefs":  {".", "fs"},
	"unknown/thing": nil,
}

const smallLayers = `
= machine
kernel/abi
kernel: kernel/abi # a comment
= probes: kernel/abi
kprobes
= files
fs
.
cmd/kprobefs
= others
example.org/fuse: fs
example.org/sys: everybody
`

// TestLayers: a package imports only what stands above it, and of that only what it may.
func TestLayers(t *testing.T) {
	l, err := parseLayers(smallLayers)
	if err != nil {
		t.Fatal(err)
	}
	known := graph{}
	for name, imports := range small {
		if name != "unknown/thing" {
			known[name] = imports
		}
	}
	with := func(name string, imports ...string) graph {
		g := maps.Clone(known)
		g[name] = imports
		return g
	}
	for _, tt := range []struct {
		name         string
		own, foreign graph
		want         []string
	}{
		{"right", known, graph{"fs": {"example.org/fuse/v2", "example.org/sys/unix"}, "kernel": {"example.org/sys"}}, nil},
		{"upwards", with("kernel", "fs"), nil, []string{"fs stands below kernel, which imports it"}},
		{"itself in a circle", with("kernel/abi", "kernel/abi"), nil, []string{"kernel/abi stands below kernel/abi, which imports it"}},
		{"another layer", with("kprobes", "kernel"), nil, []string{"kprobes may not import kernel"}},
		{"new", with("fs/new"), nil, []string{"fs/new is missing"}},
		{"tool", with("internal/tools/x", "cmd/kprobefs"), nil, nil},
		{"of a tool", with("fs", "internal/tools/x"), nil, []string{"internal/tools/x stands below fs, which imports it"}},
		{"foreign", known, graph{"kernel": {"example.org/fuse"}}, []string{"kernel may not import example.org/fuse"}},
		{"unknown module", known, graph{"fs": {"example.org/fused"}}, []string{"fs may not import example.org/fused"}},
	} {
		if got := l.wrong(tt.own, tt.foreign); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
	gone := maps.Clone(known)
	delete(gone, "fs")
	gone["."], gone["cmd/kprobefs"] = []string{"kernel"}, nil
	if got := l.wrong(gone, nil); !slices.Equal(got, []string{"there is no fs"}) {
		t.Errorf("%q", got)
	}
	if _, err := parseLayers("= a\nb\nb\n"); err == nil {
		t.Error("a package that stands twice")
	}
}

// TestImports: the project's packages import what layers.txt says.
func TestImports(t *testing.T) {
	own, foreign, err := load()
	if err != nil {
		t.Skip("no go command: ", err)
	}
	l, err := parseLayers(layersText)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range l.wrong(own, foreign) {
		t.Error(wrong)
	}
}

// TestDirect: an import that follows from others is not drawn.
func TestDirect(t *testing.T) {
	if got := small.direct("."); !slices.Equal(got, []string{"kernel", "fs"}) {
		t.Errorf("%q", got)
	}
}

// TestDraw: the drawing does not depend on the map's order, and has each package
// once.
func TestDraw(t *testing.T) {
	first := draw(small)
	for range 20 {
		if string(draw(small)) != string(first) {
			t.Fatal("two drawings differ")
		}
	}
	for name := range small {
		if n := strings.Count(string(first), ">"+label(name)+"</text>"); n != 1 {
			t.Errorf("%s is drawn %d times", name, n)
		}
	}
}

// TestRooms: no room of exec has become a house, and the command has only commands.
func TestRooms(t *testing.T) {
	const lines, files = 3000, 12
	rooms, _ := filepath.Glob("../../exec/*")
	if len(rooms) < 8 {
		t.Fatalf("%d rooms", len(rooms))
	}
	for _, room := range append(rooms, "../../../cmd/kprobefs") {
		sources, _ := filepath.Glob(filepath.Join(room, "*.go"))
		sources = slices.DeleteFunc(sources, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
		n := 0
		for _, name := range sources {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			n += strings.Count(string(text), "\n")
		}
		if n >= lines || len(sources) >= files {
			t.Errorf("%s has %d lines in %d files", filepath.Base(room), n, len(sources))
		}
	}
}
