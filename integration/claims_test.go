package integration

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/integration/grammar"
)

// claims are sentences of the documentation whose numbers (groups of the pattern) the
// tests can count. internal/tools/ftracetest checks the one about the kernel's test
// suite; the numbers of docs/performance.md are written by internal/tools/bench.
var claims = []struct {
	page, sentence string
	count          func(t *testing.T) []int
	is             func(said, counted int) bool
}{
	{"README.md", `more than ([\d,]+) shell scripts and more than ([\d,]+) random definitions, filters and writes`, played, moreThan},
	{"README.md", `about ([\d,]+) of its ([\d,]+) names`, probedNames, toTheHundred},
	{"docs/reference/differences.md", `has what ([\d,]+) different calls gave on Linux`, cells("testdata/knobs.txt", false), exactly},
	{"docs/reference/differences.md", `has (\d+) calls on a file of each kind`, cells("testdata/io.txt", true), exactly},
}

// moreThan checks "more than": the counted number is larger, but less than twice as
// large.
func moreThan(said, counted int) bool { return counted > said && counted < 2*said }

func exactly(said, counted int) bool { return said == counted }

func toTheHundred(said, counted int) bool {
	return said == int(math.Round(float64(counted)/100))*100
}

// TestClaims checks the numbers in claims.
func TestClaims(t *testing.T) {
	for _, c := range claims {
		t.Run(c.sentence, func(t *testing.T) {
			page, err := os.ReadFile(filepath.Join("..", c.page))
			if err != nil {
				t.Fatal(err)
			}
			m := regexp.MustCompile(c.sentence).FindStringSubmatch(string(page))
			if m == nil {
				t.Fatalf("%s does not have this sentence", c.page)
			}
			for i, counted := range c.count(t) {
				said, err := strconv.Atoi(strings.ReplaceAll(m[i+1], ",", ""))
				if err != nil {
					t.Fatal(err)
				}
				if !c.is(said, counted) {
					t.Errorf("%s says %q, there are %d", c.page, m[0], counted)
				}
			}
		})
	}
}

// played counts the scripts of all releases, and the cases of the random tables.
func played(t *testing.T) []int {
	scripts := map[string]bool{}
	for _, release := range releases {
		all, err := LoadRelease("testdata", release)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			scripts[c.Name] = true
		}
	}
	random := 0
	for _, name := range grammar.Names {
		f, err := os.Open(filepath.Join("testdata", name+".table"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		table, err := grammar.Parse(f)
		if err != nil {
			t.Fatal(err)
		}
		random += len(table.Cases)
	}
	return []int{len(scripts), random}
}

// probedNames has a shell define a probe at each function in kallsyms, and returns
// the numbers of those that were accepted and of all.
func probedNames(t *testing.T) []int {
	needFUSE(t)
	needBusybox(t)
	out, status := asUser(nil).kprobefs(t, publicDir(t), nil, 1, "busybox", "sh", "-c", `cd /sys/kernel/tracing
for n in $(grep ' [tTwW] ' /proc/kallsyms | cut -d' ' -f3 | sort -u); do
	echo "p:x $n" >kprobe_events && echo yes || echo no
done 2>/dev/null | sort | uniq -c`)
	f := strings.Fields(out)
	if status != 0 || len(f) != 4 || f[1] != "no" || f[3] != "yes" {
		t.Fatalf("exit status %d, %s", status, out)
	}
	no, err1 := strconv.Atoi(f[0])
	yes, err2 := strconv.Atoi(f[2])
	if err1 != nil || err2 != nil {
		t.Fatal(out)
	}
	return []int{yes, yes + no}
}

// cells returns the number of cells of a recorded table, or with ofEach the number
// for each file, which must all be equal.
func cells(name string, ofEach bool) func(t *testing.T) []int {
	return func(t *testing.T) []int {
		table := recordedTable(t, name)
		if !ofEach {
			return []int{len(table.Order)}
		}
		perFile := map[string]int{}
		for _, c := range table.Order {
			perFile[c.File]++
		}
		counts := slices.Compact(slices.Sorted(maps.Values(perFile)))
		if len(counts) != 1 {
			t.Fatalf("files have %v calls", counts)
		}
		return counts
	}
}
