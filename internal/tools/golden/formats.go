package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kprobefs/kprobefs/internal/tools/linux"
)

// formatsHead is the head of a file of formats.
const formatsHead = `# The files format of %s, as far as its events can be passed in
# our kernel: events/SYSTEM/NAME/format, with the id, the fields after the common
# ones and the print fmt, in the order in which Linux registers them (the other
# way round than available_events lists them). Written by "golden -release %s formats";
# integration/testdata/static_formats compares them with Linux.
`

// formats rewrites kprobes/tracing/formats-RELEASE.txt: the format files of the
// release's Linux for the static events in any of these files, and for those in names
// ("GROUP:NAME").
func (g *golden) formats(ctx context.Context, names []string) error {
	if err := linux.Check(); err != nil {
		return err
	}
	dir := filepath.Join("kprobes", "tracing")
	files, err := filepath.Glob(filepath.Join(dir, "formats-*.txt"))
	if err != nil {
		return err
	}
	for _, file := range files {
		more, err := formatNames(file)
		if err != nil {
			return err
		}
		names = append(names, more...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	k, err := linux.Newest(ctx, g.release)
	if err != nil {
		return err
	}
	// Group ftrace is not in Linux's list. Its events come last.
	script := "cd /sys/kernel/tracing; echo LIST; ls events/ftrace | sed s/^/ftrace:/; cat available_events; cd events\n"
	for _, name := range names {
		script += "cat " + strings.Replace(name, ":", "/", 1) + "/format 2>/dev/null\n"
	}
	results, err := k.Run(ctx, "", []linux.Script{{Name: "formats", Text: script}})
	if err != nil {
		return err
	}
	text, err := formatsOf(results[0].Output, names)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "formats-"+g.release+".txt")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(formatsHead, k, g.release)+text), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(g.out, "%s: %d events of %s\n", file, strings.Count(text, "\n")-strings.Count(text, "\n\t"), k)
	return nil
}

// formatNames returns the events in a file of formats.
func formatNames(file string) (names []string, _ error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if name, _, ok := strings.Cut(line, " "); ok && line[0] != '#' && line[0] != '\t' {
			names = append(names, name)
		}
	}
	return names, nil
}

// formatsOf converts Linux's list of all events and the format files of some of them
// to the text that package tracing reads.
func formatsOf(output string, names []string) (string, error) {
	var listed []string           // of the names the ones that exist, in Linux's order
	byName := map[string]string{} // without the group: names are unique
	name, id, body := "", "", ""
	keep := func() {
		if name != "" {
			byName[name] = id + "\n" + body
		}
		body = ""
	}
	for lines := bufio.NewScanner(strings.NewReader(output)); lines.Scan(); {
		line := lines.Text()
		switch word, rest, _ := strings.Cut(line, ": "); {
		case slices.Contains(names, line):
			listed = append(listed, line)
		case word == "name":
			keep()
			name = rest
		case word == "ID":
			id = rest
		case strings.HasPrefix(line, "\tfield:") && !strings.Contains(line, " common_"):
			body += line + "\n"
		case word == "print fmt":
			body += "\t" + rest + "\n"
		}
	}
	keep()
	if len(listed) == 0 {
		return "", errors.New("none of the events is in Linux's list")
	}
	slices.Reverse(listed)
	var text strings.Builder
	for _, full := range listed {
		_, name, _ := strings.Cut(full, ":")
		if byName[name] == "" {
			return "", fmt.Errorf("%s: Linux lists it, but it has no format", full)
		}
		fmt.Fprintf(&text, "%s %s", full, byName[name])
	}
	return text.String(), nil
}
