package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// needTools skips the test where modules cannot be built. CI has what it takes.
func needTools(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"make", "gcc", "ld", "nm"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skipf("modules cannot be built here: %v", err)
		}
	}
}

// unpackHeaders returns a directory that `kprobefs headers` has written.
func unpackHeaders(t *testing.T, release string) string {
	t.Helper()
	needTools(t)
	dir := filepath.Join(publicDir(t), "build")
	if out, err := exec.Command(filepath.Join(built, "kprobefs"), "headers", "--release", release, dir).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("headers: %v\n%s", err, out)
	}
	return dir
}

// ownAtLeast is how many of the modules of testdata/modules/debian build with our own
// headers. The others use what these do not declare.
const ownAtLeast = 20

// TestOwnHeaders builds the modules of testdata/modules/debian, which were recorded with
// modules built with Debian's headers, with our own, and plays the recordings.
func TestOwnHeaders(t *testing.T) {
	needTime(t)
	const ownScripts = 3 // one of so many is played, others for each commit
	needFUSE(t)
	needBusybox(t)
	masks, err := Masks()
	if err != nil {
		t.Fatal(err)
	}
	objects := buildWithOwn(t)
	if len(objects) < ownAtLeast {
		t.Errorf("%d modules build, not %d", len(objects), ownAtLeast)
	}
	cases, err := LoadModuleCases(".", DebianModules, objects)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("KPROBEFS_SOAK") == "" { // TestDebianModules plays all, with Debian's headers
		cases = oneOf(ownScripts, 0, cases, builds)
	}
	for _, c := range cases {
		if !builds(c) {
			continue
		}
		// A module that claims another of Debian's kernels has the CRCs of its symbols;
		// our headers make no CRCs, and the module is refused by its vermagic.
		if strings.Contains(c.Script, "s/vermagic=") {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			playOne(t, c, nil, masks)
		})
	}
}

// loads matches the commands of a script that load modules.
var loads = regexp.MustCompile(`(?m)^\s*load (\w+)`)

// builds reports whether all modules that a script loads have been built.
func builds(c *Case) bool {
	for _, m := range loads.FindAllStringSubmatch(c.Script, -1) {
		if c.Files[m[1]+".ko"] == nil {
			return false
		}
	}
	return true
}

// buildWithOwn builds the modules that build, and returns the objects.
func buildWithOwn(t *testing.T) map[string][]byte {
	t.Helper()
	headers, dir := unpackHeaders(t, "6.1"), t.TempDir()
	sources, err := SourcesIn(DebianModules)
	if err != nil {
		t.Fatal(err)
	}
	makefile := ""
	for _, s := range sources {
		put(t, dir, s.Name+".c", string(s.Text))
		makefile += "obj-m += " + s.Name + ".o\n"
	}
	put(t, dir, "Makefile", makefile)
	out, _ := exec.Command("make", "-k", "-j2", "-C", headers, "M="+dir, "modules").CombinedOutput()
	builds, err := filepath.Glob(filepath.Join(dir, "*.o"))
	if err != nil {
		t.Fatal(err)
	}
	makefile = "obj-m :="
	for _, file := range builds {
		if name := filepath.Base(file); !strings.HasSuffix(name, ".mod.o") {
			makefile += " " + name
		}
	}
	put(t, dir, "Makefile", makefile+"\n")
	more, err := exec.Command("make", "-j2", "-C", headers, "M="+dir, "modules").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, more)
	}
	t.Logf("%s", out)
	objects := map[string][]byte{}
	for _, file := range builds {
		name := strings.TrimSuffix(filepath.Base(file), ".o") + ".ko"
		if objects[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return objects
}

// guideModule returns what the first block of the guide about modules has: commands of the user's
// shell, the ones of the shell below exec, and what the latter print.
func guideModule(t *testing.T) (outer, inner, printed string) {
	t.Helper()
	b, err := os.ReadFile("../docs/guide/modules.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(b), "\n## Write one, build it, load it\n")
	_, text, block := strings.Cut(text, "\n```console\n")
	text, _, end := strings.Cut(text, "\n```\n")
	if !found || !block || !end {
		t.Fatal("the guide has no block about modules")
	}
	to := &outer
	for line := range strings.Lines(text + "\n") {
		switch prompt, rest := line[:1], strings.TrimPrefix(line[1:], " "); {
		case line == "$ kprobefs exec -- bash\n":
			to = &inner
		case prompt == "$", prompt == ">", prompt == "#":
			*to += rest
		default:
			printed += line
		}
	}
	return outer, inner, printed
}

// TestGuideModule does what the guide says about modules, in an empty folder, as root and as
// an ordinary user.
func TestGuideModule(t *testing.T) {
	needFUSE(t)
	needTools(t)
	masks, err := Masks()
	if err != nil {
		t.Fatal(err)
	}
	outer, inner, want := guideModule(t)
	for name, user := range map[string]func(*testing.T) asUser{
		"root": func(*testing.T) asUser { return nil }, "user": ordinary,
	} {
		t.Run(name, func(t *testing.T) {
			as, dir := user(t), publicDir(t)
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			first := append(slices.Clone(as), "bash", "-ec", outer)
			cmd := exec.Command(first[0], first[1:]...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("%v\n%s", err, out)
			}
			out, status := as.exec(t, dir, []string{"PATH=" + built + ":/usr/local/bin:/usr/bin:/bin"}, nil, "bash", "-c", inner) // an ordinary user's on Debian
			if got := Apply(masks, out); got != Apply(masks, want) || status != 0 {
				t.Errorf("status %d, the guide (-), printed (+):\n%s", status, diff(Apply(masks, want), got))
			}
		})
	}
}

// releaseModule has what differs between releases: the function that forks, a fault
// handler before 5.11, a jprobe in 2.6, and the instance of a return probe.
const releaseModule = `#include <linux/module.h>
#include <linux/kprobes.h>
#include <linux/version.h>

static int before, after, back;
static int count = 1;
module_param(count, int, 0444);

static int pre(struct kprobe *p, struct pt_regs *regs) { before = count; return 0; }
static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags) { after = count; }
static struct kprobe kp = { .pre_handler = pre, .post_handler = post };
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 11, 0)
static int fault(struct kprobe *p, struct pt_regs *regs, int trapnr) { return 0; }
#endif
static int ret(struct kretprobe_instance *ri, struct pt_regs *regs)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 11, 0)
	back = ri->rp != NULL && ri->task == current && ri->ret_addr != NULL;
#else
	back = get_kretprobe(ri) != NULL;
#endif
	return 0;
}
static struct kretprobe rp = { .handler = ret };
#if LINUX_VERSION_CODE <= KERNEL_VERSION(2, 6, 32)
#define FORK "do_fork"
static long flags;
static long forked(unsigned long clone_flags, unsigned long start) { flags = clone_flags & 0xff; jprobe_return(); return 0; }
static struct jprobe jp = { .kp.symbol_name = FORK, .entry = JPROBE_ENTRY(forked) };
#elif LINUX_VERSION_CODE < KERNEL_VERSION(5, 10, 0)
#define FORK "do_fork"
#else
#define FORK "kernel_clone"
#endif

static int __init begin(void)
{
	int err;

	kp.symbol_name = rp.kp.symbol_name = FORK;
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 11, 0)
	kp.fault_handler = fault;
#endif
	err = register_kprobe(&kp) ?: register_kretprobe(&rp);
#if LINUX_VERSION_CODE <= KERNEL_VERSION(2, 6, 32)
	err = err ?: register_jprobe(&jp);
#endif
	return err;
}

static void __exit end(void)
{
#if LINUX_VERSION_CODE <= KERNEL_VERSION(2, 6, 32)
	unregister_jprobe(&jp);
	pr_info("releases: jprobe %ld\n", flags);
#endif
	unregister_kretprobe(&rp);
	unregister_kprobe(&kp);
	pr_info("releases: %d %d %d %s\n", before, after, back, THIS_MODULE->name);
}
module_init(begin)
module_exit(end)
MODULE_LICENSE("GPL");
`

// TestHeadersOfEach builds a module with the headers of each release, loads it there, and
// not on another.
func TestHeadersOfEach(t *testing.T) {
	needTime(t)
	needFUSE(t)
	needBusybox(t)
	releases := []string{"2.6.25", "2.6.32", "4.15", "5.10", "6.1", "6.12"}
	for i, release := range releases {
		t.Run(release, func(t *testing.T) {
			dir := publicDir(t)
			put(t, dir, "releases.c", releaseModule)
			objects, err := BuildModulesWith(unpackHeaders(t, release), dir)
			if err != nil {
				t.Fatal(err)
			}
			put(t, dir, "releases.ko", string(objects["releases.ko"]))
			out, status := asUser(nil).exec(t, dir, nil, []string{"--cpus", "1", "--release", release}, "busybox", "sh", "-c", `
echo options releases count=7 > $KPROBEFS_MNT/machine/modprobe.conf
cp releases.ko $KPROBEFS_MNT/machine/modules/ && (true) && rm $KPROBEFS_MNT/machine/modules/releases.ko
/usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | sed -n 's/^[^;]*;\(releases: [j0-9]\)/\1/p'`)
			want := "releases: 7 7 1 releases\n"
			if i <= slices.Index(releases, "2.6.32") {
				want = "releases: jprobe 17\n" + want
			}
			if out != want || status != 0 {
				t.Errorf("status %d, got (+), want (-):\n%s", status, diff(want, out))
			}
			other := releases[(i+1)%len(releases)]
			out, status = asUser(nil).exec(t, dir, nil, []string{"--cpus", "1", "--release", other}, "busybox", "sh", "-c", "cp releases.ko $KPROBEFS_MNT/machine/modules/ 2>&1")
			if status == 0 || !strings.Contains(out, "Exec format error") {
				t.Errorf("on %s: status %d, %s", other, status, out)
			}
		})
	}
}

// moduleMakefile has most of what Makefiles of modules use.
const moduleMakefile = `obj-m += single.o
obj-m += both-parts.o sub/
both-parts-objs := first.o second.o
both-parts-y += asm/third.o
ccflags-y := -DFROM_MAKEFILE=1 -I$(src)/include
CFLAGS_second.o := -DONLY_SECOND
ifneq ($(KERNELRELEASE)$(CONFIG_X86),$(KERNELRELEASE)$(if $(KERNELRELEASE),y))
$(error CONFIG_X86 is not set)
endif
KDIR ?= /nowhere
all:
	$(MAKE) -C $(KDIR) M=$(PWD) modules
clean:
	$(MAKE) -C $(KDIR) M=$(PWD) clean
`

var moduleSources = map[string]string{
	"Makefile": moduleMakefile,
	"single.c": `#include <linux/module.h>
#include "given.h"
#ifdef ONLY_SECOND
#error a flag of another object
#endif
static int __init begin(void) { pr_info("single: %d %d\n", FROM_MAKEFILE, GIVEN); return 0; }
static void __exit end(void) { }
module_init(begin)
module_exit(end)
MODULE_LICENSE("GPL");
`,
	"first.c": `#include <linux/module.h>
int second(void);
int third(void);
int third_exported(void) { return third(); }
EXPORT_SYMBOL(third_exported);
static int __init begin(void) { pr_info("%s: %d %d\n", KBUILD_MODNAME, second(), third()); return 0; }
static void __exit end(void) { }
module_init(begin);
module_exit(end);
MODULE_LICENSE("GPL");
`,
	"second.c": `#ifndef ONLY_SECOND
#error no flag of its own
#endif
int second(void);
int second(void) { return 2; }
`,
	"asm/third.S": `#include <linux/linkage.h>
SYM_FUNC_START third
	mov $3, %eax
	ret
SYM_FUNC_END third
`,
	"include/given.h": "#define GIVEN 7\n",
	"sub/Kbuild":      "obj-m := below.o\n",
	"sub/Makefile":    "$(error Kbuild comes first)\n",
	"sub/below.c": `#include <linux/module.h>
extern int third_exported(void);
static int __init begin(void) { pr_info("below: %d\n", third_exported()); return 0; }
static void __exit end(void) { }
module_init(begin);
module_exit(end);
MODULE_LICENSE("GPL");
`,
}

// TestKbuild builds several modules with an ordinary Makefile and loads them.
func TestKbuild(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	headers, dir := unpackHeaders(t, "6.1"), publicDir(t)
	for name, text := range moduleSources {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, dir, name, text)
	}
	build := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("make", append([]string{"KDIR=" + headers}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("make %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	first := build()
	for _, want := range []string{"CC [M]  " + dir + "/single.o", "LD [M]  " + dir + "/both-parts.ko", "MODPOST " + dir + "/Module.symvers"} {
		if !strings.Contains(first, want) {
			t.Errorf("make does not say %q:\n%s", want, first)
		}
	}
	if again := build(); strings.Contains(again, "[M]") {
		t.Errorf("the second make built something again:\n%s", again)
	}
	put(t, dir, "include/given.h", "#define GIVEN 8\n")
	if again := build(); !strings.Contains(again, "single.o") || strings.Contains(again, "first.o") {
		t.Errorf("after a change of a header of single.c make says:\n%s", again)
	}
	out, status := asUser(nil).exec(t, dir, nil, nil, "busybox", "sh", "-c", `cd $KPROBEFS_MNT/machine/modules
cp `+dir+`/single.ko . && cp `+dir+`/both-parts.ko . && cp `+dir+`/sub/below.ko .
cut -d' ' -f1,3,4 ../../proc/modules
/usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | sed -n 's/^[^;]*;\(\(single\|both_parts\|below\): [0-9]\)/\1/p'`)
	want := "below 0 -\nboth_parts 1 below,\nsingle 0 -\nsingle: 1 8\nboth_parts: 2 3\nbelow: 3\n"
	if out != want || status != 0 {
		t.Errorf("status %d, got (+), want (-):\n%s", status, diff(want, out))
	}
	build("clean")
	left, err := filepath.Glob(dir + "/*")
	if err != nil || len(left) != 7 {
		t.Errorf("after make clean: %v %q", err, left)
	}
}

// TestKbuildRefuses: what cannot be built is refused by make, with the reason.
func TestKbuildRefuses(t *testing.T) {
	headers := unpackHeaders(t, "6.1")
	const plain = "#include <linux/module.h>\nMODULE_LICENSE(\"GPL\");\n"
	for _, c := range []struct{ name, makefile, source, want string }{
		{"symbol", "obj-m := m.o\n", plain + "void nowhere(void);\nvoid m(void);\nvoid m(void) { nowhere(); }\n", `ERROR: modpost: "nowhere" [`},
		{"license", "obj-m := m.o\n", "#include <linux/module.h>\n", "ERROR: modpost: missing MODULE_LICENSE() in "},
		{"type of a parameter", "obj-m := m.o\n", plain + "static int n;\nmodule_param(n, charp, 0444);\n", "__param_check_charp"},
		{"permissions", "obj-m := m.o\n", plain + "static int n;\nmodule_param(n, int, 0666);\n", "others may write"},
		{"implicit declaration", "obj-m := m.o\n", plain + "void m(void);\nvoid m(void) { not_declared(); }\n", "implicit declaration"},
		{"no source", "obj-m := other.o\n", plain, "No rule to make target"},
		{"no compiler", "obj-m := m.o\nCC=nothing\n", plain, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := publicDir(t)
			put(t, dir, "Makefile", c.makefile)
			put(t, dir, "m.c", c.source)
			args := []string{"-C", headers, "M=" + dir, "modules"}
			if c.want == "" {
				args, c.want = append(args, "CC=nothing"), "apt-get install gcc"
			}
			out, err := exec.Command("make", args...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v, want %q in:\n%s", err, c.want, out)
			}
		})
	}
	if out, err := exec.Command("make", "-C", headers, "modules").CombinedOutput(); err == nil || !strings.Contains(string(out), "which module?") {
		t.Errorf("without M=: %v\n%s", err, out)
	}
}
