package verdicts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kprobefs/kprobefs/optimizer/why"
)

// ProbedPage returns the page that says, for each function that published tools probe, what the
// kernels do with a probe at its entry, defined by kprobe_events or perf. tools are who names it.
func ProbedPage(functions map[string][]string, kernels []string, askers []*why.Asker) (string, error) {
	var b strings.Builder
	b.WriteString(probedHead)
	fmt.Fprintf(&b, "| function | named by | %s | instead |\n|---|---|%s---|\n", strings.Join(kernels, " | "), strings.Repeat("---|", len(kernels)))
	counts := make([]int, len(kernels))
	names := make([]string, 0, len(functions))
	for name := range functions {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		probe, err := why.ParseProbe("p:x " + name)
		if err != nil {
			return "", err
		}
		var cells, instead []string
		for i, a := range askers {
			v := a.Ask(probe)
			if v.Err == nil {
				counts[i]++
			}
			cells = append(cells, why.Cell(v))
			for _, s := range a.Explain(kernels[i], probe, v).Similar {
				if strings.HasPrefix(s, name+".") && !slices.Contains(instead, "`"+s+"`") {
					instead = append(instead, "`"+s+"`")
				}
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, strings.Join(functions[name], ", "), strings.Join(cells, " | "), strings.Join(instead, " "))
	}
	b.WriteString("\nOf ")
	fmt.Fprintf(&b, "%d functions, a probe is taken", len(names))
	for i, k := range kernels {
		fmt.Fprintf(&b, "%s at %d on %s", map[bool]string{true: ","}[i > 0], counts[i], k)
	}
	b.WriteString(".\n")
	return b.String(), nil
}

const probedHead = `# What tools probe, on Debian's kernels

Written by ` + "`go test ./integration/verdicts -run TestProbedPage -update-probed`" + ` from the functions that published tools and lessons of tracing name ([demand](demand.md)), by the rules of ` + "`kprobefs why`" + ` on the images of Debian's kernels. A test compares where the images are at hand.

**ftrace**: the probe is at an fentry site. **jump** and **breakpoint**: it is accepted, and can or cannot be optimized. Otherwise the errno: **ENOENT** (6.12: **EINVAL**), the kernel itself has no such function, though a module may; **EADDRNOTAVAIL**, it has several. What a compiler has left of a function under another name is in the last column.

`
