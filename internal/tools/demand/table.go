package main

import (
	"bufio"
	"cmp"
	"embed"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// demand.txt is the table, written by "demand write". absent.txt says why what is not here
// is not. ltp.txt has what LTP names, and hooks.txt what modules that hook
// the kernel do: Debian has no packages of these.
//
//go:embed demand.txt absent.txt ltp.txt hooks.txt
var tables embed.FS

// A Row is a name, by whom and how often it is named, and where it is.
type Row struct {
	Name
	Linux string         // where Linux 6.1 has it: "kernel", "module NAME", or "no"
	By    map[string]int // how many tools or pages of each source name it
	Here  bool           // the guest of release 6.1 has it
}

// Weight is how many tools and pages name it.
func (r Row) Weight() int {
	sum := 0
	for _, n := range r.By {
		sum += n
	}
	return sum
}

// Counts reports whether the row counts for the coverage: nobody can set a probe on what
// Linux has no more.
func (r Row) Counts() bool { return r.Linux != "no" }

// String is the row's line of demand.txt.
func (r Row) String() string {
	here := "absent"
	if r.Here {
		here = "here"
	}
	var by []string
	for _, s := range sources {
		if n := r.By[s.name]; n > 0 {
			by = append(by, fmt.Sprintf("%s:%d", s.name, n))
		}
	}
	return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s", r.Weight(), here, r.Kind, r.Text, r.Linux, strings.Join(by, " "))
}

// parseRow is the inverse of String.
func parseRow(line string) (Row, error) {
	f := strings.Split(line, "\t")
	if len(f) != 6 {
		return Row{}, fmt.Errorf("%q does not have six columns", line)
	}
	r := Row{Name: Name{Kind(f[2]), f[3]}, Linux: f[4], Here: f[1] == "here", By: map[string]int{}}
	for _, by := range strings.Fields(f[5]) {
		who, count, _ := strings.Cut(by, ":")
		n, err := strconv.Atoi(count)
		if err != nil {
			return Row{}, fmt.Errorf("%q: %w", line, err)
		}
		r.By[who] = n
	}
	if r.String() != line {
		return Row{}, fmt.Errorf("%q would be written as %q", line, r)
	}
	return r, nil
}

// sorted sorts rows, the heaviest first.
func sorted(rows []Row) []Row {
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Weight(), a.Weight()), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text))
	})
	return rows
}

// readRows reads a table; lines that begin with # are comments.
func readRows(r io.Reader) (rows []Row, err error) {
	for s := bufio.NewScanner(r); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		row, err := parseRow(s.Text())
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Table is demand.txt.
func Table() ([]Row, error) {
	f, err := tables.Open("demand.txt")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readRows(f)
}

// A Reason says why the names that match are not here.
type Reason struct {
	Kind  string // of the names, or *
	Names *regexp.Regexp
	Why   string
}

func (r Reason) matches(n Name) bool {
	return (r.Kind == "*" || r.Kind == string(n.Kind)) && r.Names.MatchString(n.Text)
}

// Reasons is absent.txt: the first one that matches a name is its reason.
func Reasons() (reasons []Reason, err error) {
	b, err := tables.ReadFile("absent.txt")
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		f := strings.SplitN(line, "\t", 3)
		if len(f) != 3 {
			return nil, fmt.Errorf("absent.txt: %q does not have three columns", line)
		}
		re, err := regexp.Compile("^(?:" + f[1] + ")$")
		if err != nil {
			return nil, fmt.Errorf("absent.txt: %w", err)
		}
		reasons = append(reasons, Reason{f[0], re, f[2]})
	}
	return reasons, nil
}

// Coverage returns the weight of the rows that count, and of those that are here.
func Coverage(rows []Row) (here, all int) {
	for _, r := range rows {
		if r.Counts() {
			all += r.Weight()
			if r.Here {
				here += r.Weight()
			}
		}
	}
	return here, all
}
