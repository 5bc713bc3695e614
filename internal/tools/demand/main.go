// Command demand makes the list of the functions, events and fields that published tools
// and lessons of tracing name: bcc, libbpf-tools, bpftrace, perf-tools, trace-cmd, Linux's
// documentation and its tests, LTP. A test says how much of it the guest has.
//
//	demand write   get the tools, count, ask Linux 6.1 what it has, and write demand.txt and docs/reference/demand.md
//	demand page    write docs/reference/demand.md again, of demand.txt, for what the guest has now
//
// A name weighs as much as there are tools and pages that name it, once each: a tool that
// sets a probe on it, a lesson that shows how. What a trace prints names nothing, nor does a
// pattern (vfs_*).
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demand:", err)
		os.Exit(1)
	}
}

// Where the table and the page are, seen from the project's folder.
const (
	tableFile = "internal/tools/demand/demand.txt"
	pageFile  = "docs/reference/demand.md"
)

func command(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: demand write|page")
	}
	var head string
	var rows []Row
	var err error
	switch args[0] {
	case "write":
		head, rows, err = count(ctx)
	case "page":
		head, rows, err = written()
	default:
		err = fmt.Errorf("unknown command %q", args[0])
	}
	if err != nil {
		return err
	}
	if err := lookHere(rows); err != nil {
		return err
	}
	if err := os.WriteFile(tableFile, []byte(head+lines(rows)), 0o644); err != nil {
		return err
	}
	reasons, err := Reasons()
	if err != nil {
		return err
	}
	return os.WriteFile(pageFile, []byte(Page(rows, reasons)), 0o644)
}

// written reads demand.txt as it is in the folder, not as it was built in.
func written() (head string, rows []Row, err error) {
	b, err := os.ReadFile(tableFile)
	if err != nil {
		return "", nil, err
	}
	for _, line := range strings.SplitAfter(string(b), "\n") {
		if strings.HasPrefix(line, "#") {
			head += line
		}
	}
	rows, err = readRows(bytes.NewReader(b))
	return head, rows, err
}

// tableHead is the head of demand.txt.
const tableHead = `# What tools and lessons of tracing name, written by "demand write": the weight (how many
# name it), whether our guest of release 6.1 has it, the kind, the name, where
# %s has it, and how many of whose tools and pages name it.
# Counted in: %s.
`

// count makes the table.
func count(ctx context.Context) (head string, rows []Row, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", nil, err
	}
	dir := filepath.Join(cache, "kprobefs", "demand")
	l, from, kernel, err := getLinux(ctx, dir)
	if err != nil {
		return "", nil, err
	}
	by := map[Name]map[string]int{}
	add := func(n Name, source string) {
		if by[n] == nil {
			by[n] = map[string]int{}
		}
		by[n][source]++
	}
	var versions []string
	for _, s := range sources {
		root, version, err := s.get(ctx, dir)
		if err != nil {
			return "", nil, err
		}
		versions = append(versions, strings.TrimSpace(s.name+" "+version))
		if s.files == nil {
			continue
		}
		if err := s.texts(root, func(text string) {
			for n := range NamesIn(text, l) {
				add(n, s.name)
			}
		}); err != nil {
			return "", nil, err
		}
	}
	for _, source := range []string{"ltp", "hooks"} {
		names, err := listed(source)
		if err != nil {
			return "", nil, err
		}
		for _, n := range names {
			add(n, source)
		}
	}
	for n, who := range by {
		where := "kernel"
		if n.Kind == Function {
			where = from[n.Text]
		}
		if where == "" {
			where = "no"
		}
		rows = append(rows, Row{Name: n, By: who, Linux: where})
	}
	return fmt.Sprintf(tableHead, kernel, strings.Join(versions, ", ")), sorted(rows), nil
}

// listed returns the names that the list of a source without a package has, one for each
// tool that names it.
func listed(source string) (names []Name, err error) {
	b, err := tables.ReadFile(source + ".txt")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 3 {
			return nil, fmt.Errorf("%s.txt: %q is not a tool, a kind and a name", source, line)
		}
		names = append(names, Name{Kind(f[1]), f[2]})
	}
	return names, nil
}

// get returns where the files of a source are, and the version of its package.
func (s source) get(ctx context.Context, dir string) (root, version string, err error) {
	if s.pkg != "" {
		return unpack(ctx, dir, s.pkg)
	}
	if s.files == nil {
		return "", "", nil
	}
	root, err = suiteDir()
	if err == nil {
		_, err = os.Stat(root)
	}
	if err != nil {
		err = fmt.Errorf(`%w (make it by "go run ./internal/tools/ftracetest fetch")`, err)
	}
	return root, "", err
}

func lines(rows []Row) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintln(&b, r)
	}
	return b.String()
}

func gunzip64(s string) (string, error) {
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(s)))
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(z)
	return string(b), err
}
