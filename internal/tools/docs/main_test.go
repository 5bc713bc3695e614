package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kprobefs/kprobefs/integration"
)

const page = "# A page\n\n" +
	"```console\n$ echo one\none\n$ cat <<EOF\n> two\n> EOF\ntwo\n```\n\n" +
	"<!-- not played: a reason -->\n```sh\nrm -rf /\n```\n\n```yaml\na: $ b\n```\n"

// TestRender: parsing and rendering does not change a page.
func TestRender(t *testing.T) {
	parts, err := parse(page)
	if err != nil {
		t.Fatal(err)
	}
	for i := range parts {
		for j := range parts[i].commands {
			parts[i].commands[j].printed = parts[i].commands[j].output
		}
	}
	if d := cmp.Diff(page, render(parts)); d != "" {
		t.Error(d)
	}
}

func TestParseErrors(t *testing.T) {
	for name, text := range map[string]string{
		"no reason":       "```sh\nls\n```\n",
		"no end":          "```console\n$ ls\n",
		"output at first": "```console\nls\n```\n",
	} {
		if _, err := parse(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestCheckAndUpdate: wrong output on a page is reported, and corrected by update.
func TestCheckAndUpdate(t *testing.T) {
	masks, err := integration.Masks()
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/page.md"
	text := "```console\n$ echo right\nwrong\n$ printf 'no end of line'\nno end of line\n$ cat /nowhere\n```\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	diff, err := onePage(context.Background(), file, t.TempDir(), masks, false)
	if err != nil || !strings.Contains(diff, "wrong") {
		t.Errorf("the difference is %q, %v", diff, err)
	}
	if _, err := onePage(context.Background(), file, t.TempDir(), masks, true); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	want := "```console\n$ echo right\nright\n$ printf 'no end of line'\nno end of line\n$ cat /nowhere\ncat: /nowhere: No such file or directory\n```\n"
	if d := cmp.Diff(want, string(got)); err != nil || d != "" {
		t.Error(err, d)
	}
	if diff, err := onePage(context.Background(), file, t.TempDir(), masks, false); err != nil || diff != "" {
		t.Errorf("after that: %q, %v", diff, err)
	}
}

// TestNoShell: a "# " line without a shell below kprobefs exec is an error.
func TestNoShell(t *testing.T) {
	file := t.TempDir() + "/page.md"
	if err := os.WriteFile(file, []byte("```console\n# ls\n```\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := onePage(context.Background(), file, t.TempDir(), nil, false); err == nil {
		t.Error("no error")
	}
}
