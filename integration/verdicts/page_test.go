package verdicts

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const onlyPage = "../../docs/reference/guest-only.md"

// updatePage is what "make guest-only" sets.
var updatePage = flag.Bool("update-guest-only", false, "write "+onlyPage+" instead of comparing it")

// TestGuestOnlyPage compares the page of names that only the guest has with the recordings and
// guestonly.txt.
func TestGuestOnlyPage(t *testing.T) {
	want := guestOnly(t)
	if *updatePage {
		if err := os.WriteFile(onlyPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(onlyPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the recordings say: make guest-only", onlyPage)
	}
}

// guestOnly is the text of the page: under each reason the names of each release that Linux
// said it does not have.
func guestOnly(t *testing.T) string {
	only := reasons(t, "guestonly.txt")
	names := map[string]map[string][]string{} // reason → release → names
	var order []string
	counts := make([]string, len(Releases))
	for i, release := range Releases {
		table, err := Read(release)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, name := range table.Names() {
			if table.Functions[name] != nil {
				continue
			}
			at := slices.IndexFunc(only, func(r *reason) bool { return r.releases.MatchString(release) && r.names.MatchString(name) })
			if at < 0 {
				t.Errorf("%s: guestonly.txt has no reason for %s", release, name)
				continue
			}
			why := strings.Split(strings.TrimSpace(only[at].line), "\t")[2]
			if names[why] == nil {
				names[why] = map[string][]string{}
				order = append(order, why)
			}
			names[why][release] = append(names[why][release], name)
			n++
		}
		counts[i] = fmt.Sprintf("%d on %s", n, release)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Functions that only the emulated kernel has\n\n"+
		"A probe at one of these names is taken here, and refused by Debian's kernel of the same release, which has no such function: %s. Under each reason are the names of each release. `make guest-only` writes this page from what Linux answered (`make verdicts`); `TestGuest` fails for a name that is not here.\n",
		strings.Join(counts, ", "))
	for _, why := range order {
		fmt.Fprintf(&b, "\n## %s%s\n\n", strings.ToUpper(why[:1]), why[1:])
		for _, release := range Releases {
			if list := names[why][release]; len(list) > 0 {
				fmt.Fprintf(&b, "- %s: `%s`\n", release, strings.Join(list, "`, `"))
			}
		}
	}
	return b.String()
}
