package main

import (
	"fmt"
	"slices"
	"strings"
)

// pageHead is the head of the page; it takes the weights that are here and in all, and the
// percentage.
const pageHead = `# What tools and lessons ask for

Written by ` + "`make demand`" + ` from [the table](../../internal/tools/demand/demand.txt): the functions, events and fields that published tools and lessons of tracing name, as far as Linux 6.1 has them, and which of them release 6.1 of kprobefs has. A name weighs as much as there are tools and pages that name it, each once. What a trace prints does not count, nor do patterns (` + "`vfs_*`" + `), nor what a user's program defines.

Of a weight of %d, **%d is here: %.1f %%**.

`

// Page is docs/reference/demand.md.
func Page(rows []Row, reasons []Reason) string {
	var b strings.Builder
	here, all := Coverage(rows)
	fmt.Fprintf(&b, pageHead, all, here, 100*float64(here)/float64(all))
	sourcesTable(&b, rows)
	kindsTable(&b, rows)
	hereTable(&b, rows)
	absentTable(&b, rows, reasons)
	return b.String()
}

func sourcesTable(b *strings.Builder, rows []Row) {
	fmt.Fprint(b, "| who names it | | weight | here |\n|---|---|---|---|\n")
	for _, s := range sources {
		here, all := 0, 0
		for _, r := range rows {
			if r.Counts() {
				all += r.By[s.name]
				if r.Here {
					here += r.By[s.name]
				}
			}
		}
		fmt.Fprintf(b, "| %s | %s | %d | %d |\n", s.name, s.about, all, here)
	}
}

func kindsTable(b *strings.Builder, rows []Row) {
	fmt.Fprint(b, "\n| what | names | here | weight | here |\n|---|---|---|---|---|\n")
	for _, kind := range []Kind{Function, Event, Field} {
		var of, there []Row
		for _, r := range rows {
			if r.Kind == kind && r.Counts() {
				of = append(of, r)
				if r.Here {
					there = append(there, r)
				}
			}
		}
		here, all := Coverage(of)
		fmt.Fprintf(b, "| %ss | %d | %d | %d | %d |\n", kind, len(of), len(there), all, here)
	}
}

// hereTable lists what is here. Fields are left to the table.
func hereTable(b *strings.Builder, rows []Row) {
	fmt.Fprint(b, "\n## Here\n\n")
	for _, kind := range []Kind{Function, Event} {
		var names []string
		for _, r := range rows {
			if r.Kind == kind && r.Here {
				names = append(names, fmt.Sprintf("`%s` %d", r.Text, r.Weight()))
			}
		}
		fmt.Fprintf(b, "%ss, with their weight: %s\n\n", strings.ToUpper(string(kind[:1]))+string(kind[1:]), strings.Join(names, ", "))
	}
}

// absentTable lists what is not here, by reason, the heaviest first.
func absentTable(b *strings.Builder, rows []Row, reasons []Reason) {
	fmt.Fprint(b, "## Not here\n\n| weight | names | why |\n|---|---|---|\n")
	type group struct {
		why    string
		weight int
		names  []string
	}
	var groups []group
	for _, reason := range reasons {
		groups = append(groups, group{why: reason.Why})
	}
	var gone []string
	for _, r := range rows {
		if r.Here {
			continue
		}
		if !r.Counts() {
			gone = append(gone, "`"+r.Text+"`")
			continue
		}
		if i := slices.IndexFunc(reasons, func(re Reason) bool { return re.matches(r.Name) }); i >= 0 {
			groups[i].weight += r.Weight()
			groups[i].names = append(groups[i].names, "`"+r.Text+"`")
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int { return b.weight - a.weight })
	for _, g := range groups {
		fmt.Fprintf(b, "| %d | %s | %s |\n", g.weight, strings.Join(g.names, " "), g.why)
	}
	fmt.Fprintf(b, "\nNot counted, because Linux 6.1 does not have them either, neither in the kernel nor in a module of Debian's: %s.\n", strings.Join(gone, " "))
}
