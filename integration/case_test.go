package integration

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// TestRelease: a recording of another release is a line of the file same if it is the
// same as 6.1's, and a separate file otherwise.
func TestRelease(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		put(t, dir, name+".txtar", "shows\nrecorded from linux-image-6.1 1, exit status 0\n-- script --\ntrue\n-- want --\n"+name+"\n")
	}
	load := func() []*Case {
		t.Helper()
		cases, err := LoadRelease(dir, "5.10")
		if err != nil || len(cases) != 2 {
			t.Fatalf("%d cases, %v", len(cases), err)
		}
		return cases
	}
	save := func(c *Case, want string, status int) {
		t.Helper()
		c.Want, c.Status, c.Kernel = want, status, "linux-image-5.10 2"
		if err := c.Save(); err != nil {
			t.Fatal(err)
		}
	}
	if c := load()[0]; c.Kernel != "" {
		t.Fatalf("recorded from %s before it was recorded", c.Kernel)
	}
	for _, tt := range []struct {
		name   string
		want   string
		status int
		stored bool // in a separate file
	}{
		{"same", "a\n", 0, false},
		{"other text", "A\n", 0, true},
		{"other status", "a\n", 1, true},
		{"same again", "a\n", 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cases := load()
			save(cases[0], tt.want, tt.status)
			save(cases[1], "b\n", 0)
			for _, c := range load() {
				if c.Kernel != "linux-image-5.10 2" {
					t.Errorf("%s is from %q", c.Name, c.Kernel)
				}
			}
			if c := load()[0]; c.Want != tt.want || c.Status != tt.status || c.Script != "true\n" {
				t.Errorf("got %q, status %d, script %q", c.Want, c.Status, c.Script)
			}
			if _, err := os.Stat(filepath.Join(dir, "5.10", "a.txtar")); (err == nil) != tt.stored {
				t.Errorf("its own file: %v", err)
			}
		})
	}
}

// TestOwnCase: a file with a script in a release's directory is a case of that
// release only, and is saved with its script.
func TestOwnCase(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.txtar", "shows\n-- script --\ntrue\n")
	if err := os.Mkdir(filepath.Join(dir, "6.12"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "6.12/own.txtar", "new there\n-- script --\necho x\n")
	load := func(release string) []*Case {
		t.Helper()
		cases, err := LoadRelease(dir, release)
		if err != nil {
			t.Fatal(err)
		}
		return cases
	}
	if n := len(load("5.10")); n != 1 {
		t.Errorf("5.10 has %d cases", n)
	}
	all := load("6.12")
	if len(all) != 2 || all[1].Name != "own" || all[1].Release != "6.12" || all[1].Default != nil || all[1].Script != "echo x\n" {
		t.Fatalf("%d cases, the last %+v", len(all), all[len(all)-1])
	}
	all[1].Want, all[1].Kernel = "x\n", "linux-image-6.12 2"
	if err := all[1].Save(); err != nil {
		t.Fatal(err)
	}
	if c := load("6.12")[1]; c.Want != "x\n" || c.Kernel != "linux-image-6.12 2" || c.Script != "echo x\n" || c.Comment != "new there\n" {
		t.Errorf("saved as %+v", c)
	}
}

// TestModuleInScript: a module's source may be a part of the script that loads it, where a recording leaves it, or a
// file beside it.
func TestModuleInScript(t *testing.T) {
	dir := t.TempDir()
	const text = "shows\nrecorded from linux-image-6.1 1, exit status 0\n-- script --\nload one\n-- one.c --\nint one;\n-- want --\n1\n"
	put(t, dir, "a.txtar", text)
	put(t, dir, "two.c", "int two;\n")
	sources, err := SourcesIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range sources {
		got[s.Object()] = string(s.Text)
	}
	if want := map[string]string{"one.ko": "int one;\n", "two.ko": "int two;\n"}; !maps.Equal(got, want) {
		t.Errorf("sources %q, want %q", got, want)
	}
	cases, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := cases[0].Save(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "a.txtar")); err != nil || string(b) != text {
		t.Errorf("saved as %q, %v", b, err)
	}
	put(t, dir, "b.txtar", "shows\n-- script --\ntrue\n-- notes --\nx\n")
	if _, err := Load(dir); err == nil {
		t.Error("a part that is no source was taken")
	}
}
