package integration

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var updateHeaderNames = flag.Bool("update-header-names", false, "write docs/reference/headers.md anew")

// headerNamesPage lists the macros and inline functions of Debian's headers that ours lack.
const headerNamesPage = "../docs/reference/headers.md"

// leftOut says why names of a header are left out. The others are what no module that was
// tried has asked for.
var leftOut = map[string]string{
	"bio.h": "block drivers", "blk-mq.h": "block drivers", "blk_types.h": "block drivers", "blkdev.h": "block drivers",
	"init_task.h": "how the first task is made", "mmzone.h": "zones of memory, of which the guest has one",
	"socket.h": "control messages, and protocols that the guest does not have", "tcp.h": "options and timers of TCP, which the host's kernel has",
	"bitmap.h": "", "clk.h": "clocks of hardware",
	"crypto.h": "ciphers, of which the guest has digests only", "device.h": "drivers of hardware", "fwnode.h": "firmware",
	"ioport.h": "memory and ports of hardware", "irq.h": "interrupt controllers", "rtc.h": "clocks of hardware",
	"ftrace.h":     "direct calls, the graph of functions, and what the tracer asks of the architecture",
	"jump_label.h": "what the kernel's own start and its compiler ask for", "kprobes.h": "what the architecture's part of kprobes asks for",
	"mm.h": "page tables, huge pages, swap: the guest's memory has none of these", "mm_types.h": "the same",
	"netdevice.h": "network drivers", "skbuff.h": "packets, which the guest does not make", "security.h": "hooks that no security module here has",
	"sched.h":      "scheduling classes, NUMA and what only the core scheduler asks for",
	"irqflags.h":   "lock debugging, which Debian's kernel does not have either",
	"linkage.h":    "assembly",
	"syscalls.h":   "definitions of system calls, which modules cannot make",
	"tracepoint.h": "trace events of modules are made by trace/define_trace.h",
	"netfilter.h":  "packets, none of which comes to a hook",
	"writeback.h":  "file systems", "fs.h": "file systems", "swab.h": "names for user space",
}

// linemarker matches the lines by which the preprocessor tells which file follows.
var linemarker = regexp.MustCompile(`^# \d+ "([^"]*)"`)

var (
	defines = regexp.MustCompile(`^#define ([A-Za-z_]\w*)`)
	inlines = regexp.MustCompile(`(?:\binline\b|\b__inline__\b|__always_inline__)[^;{}=]*?\b([A-Za-z_]\w*)\s*\(`)
)

// namesIn preprocesses source and returns the names of the macros and inline functions that
// each header below include/linux defines.
func namesIn(t *testing.T, source string, args ...string) map[string]map[string]bool {
	t.Helper()
	cmd := exec.Command("gcc", append(args, "-E", "-dD", "-x", "c", "-")...)
	cmd.Stdin = strings.NewReader(source)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, said.Bytes())
	}
	text, names, header := map[string]*strings.Builder{}, map[string]map[string]bool{}, ""
	for line := range strings.Lines(string(out)) {
		if m := linemarker.FindStringSubmatch(line); m != nil {
			_, header, _ = strings.Cut(m[1], "include/linux/")
			continue
		}
		if header == "" {
			continue
		}
		if names[header] == nil {
			names[header], text[header] = map[string]bool{}, &strings.Builder{}
		}
		if m := defines.FindStringSubmatch(line); m != nil {
			names[header][m[1]] = true
		} else if !strings.HasPrefix(line, "#") {
			text[header].WriteString(line)
		}
	}
	for header, b := range text {
		for _, m := range inlines.FindAllStringSubmatch(b.String(), -1) {
			names[header][m[1]] = true
		}
	}
	return names
}

// TestHeaderNames compares the macros and inline functions of our headers with
// Debian's, where both have a header. What ours lack is on a page, with the reason.
func TestHeaderNames(t *testing.T) {
	needTools(t)
	debian, err := Headers()
	if err != nil {
		t.Skip(err)
	}
	common := strings.TrimSuffix(debian, "-amd64") + "-common"
	own := unpackHeaders(t, "6.1")
	files, err := filepath.Glob(own + "/include/linux/*.h")
	if err != nil {
		t.Fatal(err)
	}
	source := "#include <linux/module.h>\n"
	for _, f := range files {
		name := filepath.Base(f)
		if _, err := os.Stat(filepath.Join(common, "include/linux", name)); err == nil && name != "vermagic.h" {
			source += "#include <linux/" + name + ">\n"
		}
	}
	flags := []string{"-D__KERNEL__", "-DMODULE", `-DKBUILD_MODNAME="x"`, `-DKBUILD_BASENAME="x"`, "-nostdinc", "-O2", "-pg", "-mfentry", "-DCC_USING_FENTRY"}
	with := func(list ...string) []string {
		all := slices.Clone(flags)
		for _, dir := range list {
			all = append(all, "-I"+dir)
		}
		return all
	}
	theirs := namesIn(t, source, append(with(common+"/arch/x86/include", debian+"/arch/x86/include/generated", common+"/include", debian+"/include",
		common+"/arch/x86/include/uapi", debian+"/arch/x86/include/generated/uapi", common+"/include/uapi", debian+"/include/generated/uapi"),
		"-include", common+"/include/linux/compiler-version.h", "-include", common+"/include/linux/kconfig.h", "-include", common+"/include/linux/compiler_types.h")...)
	ours := map[string]bool{}
	for _, names := range namesIn(t, source, append(with(own+"/include"), "-include", own+"/include/linux/kconfig.h")...) {
		maps.Copy(ours, names)
	}
	for _, name := range []string{"in_nmi", "in_task", "in_hardirq", "in_serving_softirq", "within_module", "list_for_each_entry_safe_reverse"} {
		if !ours[name] {
			t.Errorf("our headers have no %s", name)
		}
	}
	declared := declaredIn(t, own+"/include")
	var page strings.Builder
	page.WriteString("# Names of Linux's headers that ours lack\n\nModules can be built with Debian's headers, which have everything, or with those of `kprobefs headers`. " +
		"Of the headers that both have, the latter lack these macros and inline functions of 6.1's. Names that begin with an underscore are not listed. " +
		"Where no reason is given, no module that was tried has asked for them.\n\n" +
		"`go test ./integration -run TestHeaderNames -update-header-names` writes this page.\n\n")
	for _, f := range files {
		header := filepath.Base(f)
		var missing []string
		for name := range theirs[header] {
			if !strings.HasPrefix(name, "_") && !ours[name] && !declared[name] && !strings.HasPrefix(name, "LINUX_") {
				missing = append(missing, name)
			}
		}
		if len(missing) == 0 {
			continue
		}
		slices.Sort(missing)
		fmt.Fprintf(&page, "## linux/%s\n\n", header)
		if why := leftOut[header]; why != "" {
			fmt.Fprintf(&page, "For %s.\n\n", why)
		}
		fmt.Fprintf(&page, "`%s`\n\n", strings.Join(missing, "`, `"))
	}
	text := strings.TrimSuffix(page.String(), "\n")
	if *updateHeaderNames {
		if err := os.WriteFile(headerNamesPage, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(headerNamesPage); err != nil || string(got) != text {
		t.Errorf("%s is not what the headers lack: %v\n%s", headerNamesPage, err, diff(string(got), text))
	}
}

// declaredIn returns all names that the headers in dir mention: functions that are inline on
// Linux may be declared only.
func declaredIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	words, names := regexp.MustCompile(`[A-Za-z_]\w*`), map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		for _, w := range words.FindAllString(string(b), -1) {
			names[w] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
