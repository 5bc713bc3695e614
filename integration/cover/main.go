// Command cover prints the coverage of each package in a coverage profile, lowest
// first.
//
//	go test -coverpkg=./... -coverprofile=FILE ./... && go run ./integration/cover FILE
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: cover PROFILE")
		os.Exit(2)
	}
	f, err := os.Open(os.Args[1])
	if err == nil {
		err = report(f, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cover:", err)
		os.Exit(1)
	}
}

// block is a sequence of statements. A profile has it once for each test binary.
type block struct {
	statements int
	executed   bool
}

type count struct{ executed, all int }

func (c count) percent() float64 { return 100 * float64(c.executed) / float64(c.all) }

// report reads the mode's line and then lines "FILE:BLOCK STATEMENTS COUNT".
func report(profile io.Reader, out io.Writer) error {
	blocks := map[string]block{}
	lines := bufio.NewScanner(profile)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) != 3 {
			continue // the mode
		}
		n, err := strconv.Atoi(f[1])
		if err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		blocks[f[0]] = block{n, blocks[f[0]].executed || f[2] != "0"}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	packages := map[string]count{}
	for name, b := range blocks {
		file, _, _ := strings.Cut(name, ":")
		c := packages[path.Dir(file)]
		c.all += b.statements
		if b.executed {
			c.executed += b.statements
		}
		packages[path.Dir(file)] = c
	}
	names := slices.SortedFunc(maps.Keys(packages), func(a, b string) int {
		return cmp.Or(cmp.Compare(packages[a].percent(), packages[b].percent()), strings.Compare(a, b))
	})
	for _, name := range names {
		fmt.Fprintf(out, "%5.1f %%  %s\n", packages[name].percent(), name)
	}
	return nil
}
