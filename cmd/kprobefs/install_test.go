package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestInstall: make install puts the program, its manual pages and completions below PREFIX in
// DESTDIR and nowhere else, and make uninstall removes them.
func TestInstall(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dest := filepath.Join(t.TempDir(), "with blank")
	run := func(target string) {
		t.Helper()
		cmd := exec.Command("make", "-s", "-C", "../..", target, "PREFIX=/opt/k", "DESTDIR="+dest, "BIN="+exe)
		cmd.Env = append(os.Environ(), roleVar+"="+roleProgram, "MAKEFLAGS=", "MAKELEVEL=") // not of the make that runs the tests
		if out, err := cmd.CombinedOutput(); err != nil || len(out) != 0 {
			t.Fatalf("make %s: %v\n%s", target, err, out)
		}
	}
	run("install")
	want := []string{
		"bin/kprobefs", "share/bash-completion/completions/kprobefs",
		"share/fish/vendor_completions.d/kprobefs.fish", "share/zsh/site-functions/_kprobefs",
	}
	pages, _ := filepath.Glob(manDir + "/*.1")
	for _, p := range pages {
		want = append(want, "share/man/man1/"+filepath.Base(p))
	}
	slices.Sort(want)
	if got := filesBelow(t, filepath.Join(dest, "opt/k")); !slices.Equal(got, want) {
		t.Errorf("installed %q, want %q", got, want)
	}
	if got := filesBelow(t, dest); len(got) != len(want) {
		t.Errorf("in all %q", got)
	}
	bin := filepath.Join(dest, "opt/k/bin/kprobefs")
	if st, err := os.Stat(bin); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", st, err)
	}
	b, err := os.ReadFile(filepath.Join(dest, "opt/k/share/bash-completion/completions/kprobefs"))
	if err != nil || !strings.Contains(string(b), "complete -o default -F __start_kprobefs kprobefs") {
		t.Errorf("bash's completion: %d bytes, %v", len(b), err)
	}
	run("uninstall")
	if got := filesBelow(t, dest); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

// filesBelow lists the files below a directory, by their names relative to it, sorted.
func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
