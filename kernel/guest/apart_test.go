package guest_test

import (
	"bufio"
	"debug/elf"
	"os"
	"slices"
	"strings"
	"testing"
)

// joinedHere are functions of the guest that only have the name of one of Linux's.
var joinedHere = []string{
	"store",    // lib/kobject: sysfs's
	"new_page", // mm: page migration's
}

// readPairs reads a file with lines "CALLER: CALLEE...".
func readPairs(t *testing.T, file string) map[string][]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pairs := map[string][]string{}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if caller, callees, ok := strings.Cut(in.Text(), ": "); ok {
			pairs[caller] = strings.Fields(callees)
		}
	}
	if err := in.Err(); err != nil || len(pairs) == 0 {
		t.Fatalf("%s: %d callers, %v", file, len(pairs), err)
	}
	return pairs
}

// TestKeptApart: where a function of Linux calls another one, the guest's compiler has not
// joined the two, or a probe at the other one would miss that call. testdata/calls-RELEASE has
// Linux's calls between functions that the guest defines in one source file (the command
// inlined -calls), vmlinux-RELEASE.inlined what the compiler has joined.
func TestKeptApart(t *testing.T) {
	for image, release := range map[string]string{"2.6": "6.1", "4.15": "6.1", "5.10": "5.10", "6.1": "6.1", "6.12": "6.12"} {
		t.Run(image, func(t *testing.T) {
			calls := readPairs(t, "testdata/calls-"+release)
			for caller, callees := range readPairs(t, "vmlinux-"+image+".inlined") {
				for _, callee := range callees {
					if slices.Contains(calls[caller], callee) && !slices.Contains(joinedHere, callee) {
						t.Errorf("%s is a part of %s: Linux calls it; declare it noinline", callee, caller)
					}
				}
			}
			f, err := elf.Open("vmlinux-" + image)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			symbols, err := f.Symbols()
			if err != nil {
				t.Fatal(err)
			}
			have := map[string]bool{}
			for _, s := range symbols {
				name, _, _ := strings.Cut(s.Name, ".")
				have[name] = true
			}
			for _, callees := range calls {
				for _, callee := range callees {
					if !have[callee] && !slices.Contains(joinedHere, callee) && image == release {
						t.Errorf("%s is no function of the image: Linux calls it", callee)
					}
				}
			}
		})
	}
}
