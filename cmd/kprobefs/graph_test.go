package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/internal/cli"
)

// wantSVG fails unless a text is XML whose first element is svg.
func wantSVG(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	first := ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		if e, ok := token.(xml.StartElement); ok && first == "" {
			first = e.Name.Local
		}
	}
	if first != "svg" {
		t.Errorf("the first element is %q", first)
	}
}

// TestGraph: pictures of a mounted machine, by the name of an event and by a place, on standard
// output and in a file.
func TestGraph(t *testing.T) {
	dir := mountLooping(t).dir
	mid := secondInstruction(t, dir, "vfs_read")
	writeTree(t, filepath.Join(dir, "tracing/kprobe_events"), "p:mid vfs_read+"+mid+"\n")
	writeTree(t, filepath.Join(dir, "tracing/events/kprobes/mid/enable"), "1")
	life := ""
	jumps := ends(func() bool {
		out, err := runProgram("graph", "life", "--at", dir, "mid").Output()
		life = string(out)
		return err == nil && strings.Contains(life, "the jump is written")
	})
	if !jumps || !strings.Contains(life, "The life of the probe at vfs_read+0x") || !strings.Contains(life, "registered") {
		t.Errorf("%v:\n%s", jumps, life)
	}
	wantSVG(t, life)
	file := filepath.Join(t.TempDir(), "text.svg")
	if out, st := output(t, "graph", "text", "--at", dir, "vfs_read", "-o", file); st.ExitCode() != 0 || out != "" {
		t.Errorf("%v: %s", st, out)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "jumps to the detour") {
		t.Errorf("%v:\n%s", err, text)
	}
	wantSVG(t, string(text))
	for _, name := range []string{"vfs_read+" + mid, "kprobes/mid"} {
		if out, st := output(t, "graph", "life", "--at", dir, name); st.ExitCode() != 0 || out != life {
			t.Errorf("%s: %v:\n%s", name, st, out)
		}
	}
	for _, c := range []struct {
		args, says string
		status     int
	}{
		{"life --at " + dir + " nosuch", "kprobefs list shows", 1},
		{"text --at " + dir + " nosuch", "no function of the kernel", 1},
		{"text --at " + dir + " vfs_read -o " + filepath.Join(file, "x"), "not a directory", 1},
		{"", "kprobefs graph life PROBE", cli.UsageStatus},
	} {
		if out, st := output(t, append([]string{"graph"}, strings.Fields(c.args)...)...); st.ExitCode() != c.status || !strings.Contains(out, c.says) {
			t.Errorf("%s: %v: %s", c.args, st, out)
		}
	}
}
