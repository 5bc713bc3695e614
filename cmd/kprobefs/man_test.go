package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// updateMan is set by "make man".
var updateMan = flag.Bool("update-man", false, "write docs/man instead of comparing it")

const manDir = "../../docs/man"

// TestManPages: the manual pages in docs/man are those made from the commands' help.
func TestManPages(t *testing.T) {
	pages := manPages(t)
	if *updateMan {
		writePages(t, pages)
		return
	}
	checked, err := filepath.Glob(manDir + "/*.1")
	if err != nil || len(checked) != len(pages) {
		t.Errorf("%d pages in docs/man, %d commands (%v): make man", len(checked), len(pages), err)
	}
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(manDir, name))
		if err != nil {
			t.Errorf("%v: make man", err)
			continue
		}
		if d := cmp.Diff(want, string(got)); d != "" {
			t.Errorf("docs/man/%s is not what the command says: make man\n%s", name, d)
		}
	}
}

// commandsPage has the help of all commands on one page.
const commandsPage = "../../docs/reference/commands.md"

// TestCommandsPage: docs/reference/commands.md is what "kprobefs COMMAND --help"
// prints.
func TestCommandsPage(t *testing.T) {
	want := helpPage(t)
	if *updateMan {
		if err := os.WriteFile(commandsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("docs/reference/commands.md is not what the commands say: make man\n%s", d)
	}
}

// helpPage returns the page: a heading and the help text of each visible command.
func helpPage(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Commands\n\nWhat `kprobefs COMMAND --help` prints, written by `make man`. The manual pages are in [docs/man](../man).\n")
	names := []string{"exec", "mount", "umount", "mounted", "list", "top", "text", "trace", "graph", "graph life", "graph text", "tour", "check", "version"}
	for _, name := range append([]string{""}, names...) {
		root := (&program{log: newLog()}).command()
		args := []string{"--help"}
		title := "kprobefs"
		if name != "" {
			args, title = append(strings.Fields(name), "--help"), title+" "+name
		}
		var out bytes.Buffer
		root.SetArgs(args)
		root.SetOut(&out)
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s```\n", title, out.String())
	}
	return b.String()
}

func writePages(t *testing.T, pages map[string]string) {
	t.Helper()
	if err := os.RemoveAll(manDir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(manDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(manDir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// manPages returns the manual pages of all visible commands, by file name.
func manPages(t *testing.T) map[string]string {
	t.Helper()
	root := (&program{log: newLog()}).command()
	root.InitDefaultCompletionCmd("bash")
	pages := map[string]string{}
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" || c.Parent() != nil && c.Parent().Name() == "completion" {
			return
		}
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		pages[name+".1"] = manPage(t, c, name)
		for _, sub := range c.Commands() {
			add(sub)
		}
	}
	add(root)
	return pages
}

func manPage(t *testing.T, c *cobra.Command, name string) string {
	t.Helper()
	c.DisableAutoGenTag = true
	if c.Long == "" {
		c.Long = c.Short + "."
	}
	c.Long = markdown(c.Long)
	date := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC) // fixed, so that pages do not depend on the day
	var b bytes.Buffer
	err := doc.GenMan(c, &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Date: &date, Source: "kprobefs", Manual: "kprobefs"}, &b)
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// markdown converts help text to the Markdown that package doc expects: paragraphs
// that begin with blanks become preformatted, in others special characters are
// escaped.
func markdown(help string) string {
	plain := strings.NewReplacer("_", `\_`, "*", `\*`)
	paragraphs := strings.Split(help, "\n\n")
	for i, p := range paragraphs {
		if strings.HasPrefix(p, "  ") {
			paragraphs[i] = "    " + strings.ReplaceAll(p, "\n", "\n    ")
		} else {
			paragraphs[i] = plain.Replace(p)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}
