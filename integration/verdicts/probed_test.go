package verdicts_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kprobefs/kprobefs/integration/verdicts"
	"github.com/kprobefs/kprobefs/optimizer/why"
)

var updateProbed = flag.Bool("update-probed", false, "write docs/reference/probed.md")

const probedPage = "../../docs/reference/probed.md"

// TestProbedPage: the page says of each function that tools name what the kernels' images say.
func TestProbedPage(t *testing.T) {
	page, err := os.ReadFile(probedPage)
	if err != nil && !*updateProbed {
		t.Fatal(err)
	}
	functions := named(t)
	for name := range functions {
		if !strings.Contains(string(page), "| `"+name+"` |") && !*updateProbed {
			t.Errorf("%s is not on the page: go test -run TestProbedPage ./integration/verdicts -update-probed", name)
		}
	}
	var kernels []string
	var askers []*why.Asker
	for _, release := range verdicts.Releases {
		p, err := verdicts.ReadPlaces(release)
		if err != nil {
			t.Fatal(err)
		}
		a, file, err := verdicts.Asker(cached(t, p.Kernel))
		if err != nil {
			t.Fatal(err)
		}
		kernels, askers = append(kernels, file.Release), append(askers, a)
	}
	want, err := verdicts.ProbedPage(functions, kernels, askers)
	if err != nil {
		t.Fatal(err)
	}
	if *updateProbed {
		if err := os.WriteFile(probedPage, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(page)); diff != "" {
		t.Errorf("-images +page:\n%s", diff)
	}
}

// named returns the functions that published tools and lessons name, and who names each.
func named(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile("../../internal/tools/demand/demand.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 6 || f[2] != "function" {
			continue
		}
		all[f[3]] = []string{}
		for by := range strings.FieldsSeq(f[5]) {
			who, _, _ := strings.Cut(by, ":")
			all[f[3]] = append(all[f[3]], who)
		}
	}
	if len(all) < 150 {
		t.Fatalf("%d functions", len(all))
	}
	return all
}
