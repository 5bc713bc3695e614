package integration

import (
	"os"
	"strings"
	"testing"
)

// apiWant is what the module api printed on Debian's kernel 6.1.
const apiWant = `api: both -22, neither -22
api: disabled 0, hits 0, enable 0, hits 1 1, disable 0, hits 1
api: unregistered: addr kept, disabled 1, enable -22, disable -22
api: twice: addr cleared
api: batch -22, hits 0, again 0, hits 1, hits 1, bad addr cleared, good addr kept
api: none of them -22
api: two at one address 0, pre 3, post 1
api: return probe 0, entries 3, returns 2, data 2, missed 0
api: maxactive 10
api: inside -22
api: notifier_call_chain -22
api: register_kprobe 0
api: unregister_kprobe 0
api: register_kretprobe 0
api: __switch_to 0
`

// apiOf has what other releases do otherwise, line by line, as their documents say or
// Debian's kernels do (docs/reference/releases.md).
var apiOf = map[string]*strings.Replacer{
	"2.6.25": apiOld, "2.6.32": apiOld,
	"4.15": strings.NewReplacer("maxactive 10", "maxactive 2", "__switch_to 0", "__switch_to -22"),
	"5.10": strings.NewReplacer("maxactive 10", "maxactive 2"),
	"6.1":  strings.NewReplacer(), "6.12": strings.NewReplacer(),
}

// apiOld is for 2.6: a probe that was unregistered is not disabled by that, the functions
// that register probes take none, and maxactive is the number of CPUs.
var apiOld = strings.NewReplacer("again 0, hits 1, hits 1", "again 0, hits 2, hits 2", "maxactive 10", "maxactive 2", "__switch_to 0", "__switch_to -22",
	"api: register_kprobe 0", "api: register_kprobe -22", "unregister_kprobe 0", "unregister_kprobe -22", "register_kretprobe 0", "register_kretprobe -22")

// TestAPIOfEach builds one module for each release with the headers of the program, below
// exec, loads it there and compares what it prints.
func TestAPIOfEach(t *testing.T) {
	needTime(t)
	needFUSE(t)
	needTools(t)
	needTool(t, "kmod", "kmod")
	source, err := os.ReadFile("testdata/modules/releases/api.c")
	if err != nil {
		t.Fatal(err)
	}
	for release, differs := range apiOf {
		t.Run(release, func(t *testing.T) {
			dir := publicDir(t)
			put(t, dir, "api.c", string(source))
			put(t, dir, "Makefile", "obj-m := api.o\n")
			out, status := asUser(nil).exec(t, dir, nil, []string{"--cpus", "2", "--release", release}, "sh", "-c",
				`make -s -C /lib/modules/$(uname -r)/build M=$PWD && insmod ./api.ko && dmesg | sed -n 's/^[^]]*\] \(api: [^lm]\|api: maxactive\)/\1/p'`)
			if want := differs.Replace(apiWant); out != want || status != 0 {
				t.Errorf("status %d, wanted (-) and got (+):\n%s", status, diff(want, out))
			}
		})
	}
}
