package integration

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// treeDirs are the sections of docs/reference/tree.md whose tables list files, with the directory
// that has them below exec.
var treeDirs = map[string]string{
	"kprobes/": "/sys/kernel/debug/kprobes/",
	"sys/":     "/proc/sys/",
	"tracing/": "/sys/kernel/tracing/",
	"machine/": "$KPROBEFS_MNT/machine/",
}

// notHere are the files that tree.md promises under a condition that is not met below exec, or
// that have another place there.
var notHere = map[string]string{
	"machine/clock":               "with a virtual clock only, which a Go program chooses (kprobefs.TestClockFile)",
	"machine/call":                "with mount --kernel only (kprobefs.TestKernelFile)",
	"machine/proc-sys-kernel/":    "on a host without the stack tracer only",
	"sys/kernel/NAME/":            "of a module that makes a kobject: the script kobjects (TestDebianModules)",
	"sys/module/NAME/notes/":      "of a module with a build id: the script knobs lists it, and the next ones",
	"sys/module/NAME/parameters/": "of a module with parameters",
	"sys/module/NAME/version":     "of a module with MODULE_VERSION",
	"sys/module/NAME/srcversion":  "the same",
	"machine/snapshot":            "on a deterministic machine (TestRestore of cmd/kprobefs)",
}

// treePlaces are examples of what tree.md has names for.
var treePlaces = strings.NewReplacer("NAME", "kprobe_example", "GROUP", "kprobes", "EVENT", "mine", "cpuN", "cpu1",
	"FUNCTION", "vfs_read", "SYMBOL+OFFSET", "vfs_read+0x0")

var (
	treeName = regexp.MustCompile("`([^`]+)`")
	braces   = regexp.MustCompile(`\{([^}]*)\}`)
)

// spread returns the names that a name with {a,b} stands for.
func spread(name string) []string {
	at := braces.FindStringSubmatchIndex(name)
	if at == nil {
		return []string{name}
	}
	var all []string
	for word := range strings.SplitSeq(name[at[2]:at[3]], ",") {
		all = append(all, spread(name[:at[0]]+word+name[at[1]:])...)
	}
	return all
}

// treeNames returns the names of files that tree.md lists, below its top directories. In a row of
// a directory that ends in NAME/ or EVENT/ the second column names what is in it.
func treeNames(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/reference/tree.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for section := range strings.SplitSeq(string(page), "\n## ") {
		title, text, _ := strings.Cut(section, "\n")
		if title == "proc/ and dev/" {
			first, _, _ := strings.Cut(text, "`dev/kmsg`")
			for _, m := range treeName.FindAllStringSubmatch(first, -1) {
				names = append(names, "proc/"+m[1])
			}
			names = append(names, "dev/kmsg", "dev/vda")
		}
		if treeDirs[title] == "" {
			continue
		}
		for line := range strings.Lines(text) {
			cells := strings.Split(line, " | ")
			if !strings.HasPrefix(line, "| `") {
				continue
			}
			for _, m := range treeName.FindAllStringSubmatch(cells[0], -1) {
				for _, name := range spread(m[1]) {
					names = append(names, title+name)
					if strings.HasSuffix(name, "module/NAME/") || strings.HasSuffix(name, "EVENT/") {
						inside, _, _ := strings.Cut(cells[len(cells)-1], ", and what")
						for _, m := range treeName.FindAllStringSubmatch(inside, -1) {
							names = append(names, title+name+m[1])
						}
					}
				}
			}
		}
	}
	return names
}

// treeHead makes what the examples of names are.
const treeHead = `cd $KPROBEFS_MNT || exit
cp $1/kprobe_example.ko machine/modules
echo 'p:mine vfs_read' >tracing/kprobe_events
look() { [ -e "$1" ] || echo "no $1"; }
`

// TestTree: each name of docs/reference/tree.md is in the tree that is mounted, and where the page
// says that it is below exec.
func TestTree(t *testing.T) {
	names := treeNames(t)
	if len(names) < 80 {
		t.Fatalf("tree.md lists %d names", len(names))
	}
	for name := range notHere {
		if !slices.Contains(names, name) {
			t.Errorf("tree.md does not list %s", name)
		}
	}
	_, stackTracer := os.Stat("/proc/sys/kernel/stack_tracer_enabled")
	script := treeHead
	for _, name := range names {
		if notHere[name] != "" && (name != "machine/proc-sys-kernel/" || stackTracer == nil) {
			continue
		}
		example := treePlaces.Replace(name)
		script += "look '" + example + "'\n"
		top, rest, _ := strings.Cut(example, "/")
		if dir := treeDirs[top+"/"]; dir != "" && !strings.HasPrefix(rest, "bus/") && !strings.HasPrefix(rest, "module/") && !slices.Contains([]string{"class/", "dev/", "devices/"}, rest) {
			script += `look "` + dir + rest + "\"\n"
		}
	}
	playModules(t, script, "")
}
