package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/integration"
	"github.com/kprobefs/kprobefs/kernel/module"
)

// largeFunctions is how many functions the module large has. Its object is some 250 KB.
const largeFunctions = 430

// largeSource returns a module with many functions that call each other and print.
func largeSource() string {
	var s strings.Builder
	s.WriteString("#include <linux/module.h>\n#include <linux/kernel.h>\nlong large_0(long x);\nlong large_0(long x) { return x; }\n")
	for i := 1; i <= largeFunctions; i++ {
		fmt.Fprintf(&s, "long large_%d(long x);\nnoinline long large_%d(long x)\n{\n\tif (x == %d)\n\t\tpr_info(\"large %d: %%ld\\n\", x);\n\treturn large_%d(x + 1) * 3;\n}\nEXPORT_SYMBOL(large_%d);\n", i, i, -i, i, i-1, i)
	}
	s.WriteString("static int __init large_init(void) { return large_1(1) == 0; }\nstatic void __exit large_exit(void) { }\nmodule_init(large_init);\nmodule_exit(large_exit);\nMODULE_LICENSE(\"Dual MIT/GPL\");\n")
	return s.String()
}

// counterSource is a module with a probe, a return probe, or both, whose handlers increment
// a counter.
const counterSource = `#include <linux/module.h>
#include <linux/kprobes.h>
unsigned long counter_hits;
static unsigned int offset;
module_param(offset, uint, 0);
static bool kprobe = true, kretprobe;
module_param(kprobe, bool, 0);
module_param(kretprobe, bool, 0);
static int back(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	counter_hits++;
	return 0;
}
static struct kretprobe rp = { .kp.symbol_name = "` + hitFunction + `", .handler = back };
static int pre(struct kprobe *p, struct pt_regs *regs)
{
	counter_hits++;
	return 0;
}
static struct kprobe kp = { .symbol_name = "` + hitFunction + `", .pre_handler = pre };
static int __init counter_init(void)
{
	int err = 0;
	kp.offset = offset;
	if (kretprobe)
		err = register_kretprobe(&rp);
	if (!err && kprobe) {
		err = register_kprobe(&kp);
		if (err && kretprobe)
			unregister_kretprobe(&rp);
	}
	return err;
}
static void __exit counter_exit(void)
{
	if (kprobe)
		unregister_kprobe(&kp);
	if (kretprobe)
		unregister_kretprobe(&rp);
}
module_init(counter_init);
module_exit(counter_exit);
MODULE_LICENSE("Dual MIT/GPL");
`

// modules measures how long a module takes to load, and what its handlers cost. It needs
// gcc and make.
func modules(b *bench) error {
	if !b.buildsModules() {
		return nil
	}
	objects, err := b.buildModules(map[string]string{"large": largeSource(), "counter": counterSource})
	if err != nil {
		return err
	}
	h, err := newHitBench(false)
	if err != nil {
		return err
	}
	defer h.sys.Close()
	if err := b.insmod(h.sys, objects["large.ko"]); err != nil {
		return err
	}
	return b.guestHandlers(h, objects["counter.ko"])
}

// buildsModules reports whether there is what modules are built with, and says so if not.
func (b *bench) buildsModules() bool {
	for _, program := range []string{"gcc", "make"} {
		if _, err := exec.LookPath(program); err != nil {
			b.note("without %s no modules are built", program)
			return false
		}
	}
	return true
}

// buildModules builds modules with the program's own headers.
func (b *bench) buildModules(sources map[string]string) (map[string][]byte, error) {
	r, err := kprobefs.ParseRelease("")
	if err != nil {
		return nil, err
	}
	headers, dir := filepath.Join(b.dir, "headers"), filepath.Join(b.dir, "modules")
	err = errors.Join(r.WriteHeaders(headers), os.MkdirAll(dir, 0o755))
	for name, text := range sources {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name+".c"), []byte(text), 0o644))
	}
	if err != nil {
		return nil, err
	}
	return integration.BuildModulesWith(headers, dir)
}

// insmod measures the time from an object to the end of its init function.
func (b *bench) insmod(s *kprobefs.Kernel, object []byte) error {
	ctx := context.Background()
	got, err := b.medians([]timed{{"insmod", func() (float64, error) {
		var name string
		took, err := ms(func() (err error) {
			name, err = s.Modules.Insert(ctx, object, module.Options{})
			return err
		})
		if err != nil {
			return 0, err
		}
		return took, s.Modules.Delete(ctx, name)
	}}})
	if err != nil {
		return err
	}
	b.add(Row{Section: "modules", Name: fmt.Sprintf("insmod of %d KB", len(object)/1000), Unit: "ms", Value: got["insmod"]})
	return nil
}

// guestHandlers measures, by kind of hit, a handler of a module that increments a counter
// and one in Go that does nothing.
func (b *bench) guestHandlers(h *hitBench, counter []byte) error {
	kinds := []struct {
		name, kind string
		jumps      bool
	}{{"k", "step", false}, {"k emulated", "emulated", false}, {"k optimized", "optimized", true}, {"k at fentry", "", true}}
	var ts []timed
	for _, k := range kinds {
		off, ok := h.at[k.kind]
		if !ok && k.kind != "" {
			return fmt.Errorf("%s has no instruction for %s: %w", hitFunction, k.name, syscall.ENOENT)
		}
		bare := hitCase{k.name + ", bare", func(h *hitBench) (func(), error) { return h.probes(1, off, false, k.jumps) }}
		counted := hitCase{k.name + ", counter", func(h *hitBench) (func(), error) {
			return h.counter(counter, fmt.Sprintf("offset=%d", off), 1, k.jumps)
		}}
		for _, c := range []hitCase{bare, counted} {
			ts = append(ts, timed{c.name, func() (float64, error) { return h.perCall(c) }})
		}
	}
	got, err := b.medians(ts)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		b.add(Row{
			Section: "modules", Name: k.name + ", a counter in a module, above the bare hit", Unit: "ns",
			Value: got[k.name+", counter"] - got[k.name+", bare"], Note: fmt.Sprintf("a call with the bare hit is %.0f", got[k.name+", bare"]),
		})
	}
	return nil
}

// counter loads the module counter with arguments. What it returns unloads the module, which
// must have counted want hits in a call.
func (h *hitBench) counter(object []byte, args string, want uint64, jumps bool) (func(), error) {
	ctx := context.Background()
	h.allowJumps(jumps)
	name, err := h.sys.Modules.Insert(ctx, object, module.Options{Args: args})
	if err != nil {
		return nil, err
	}
	h.settle()
	var hits uint64
	if _, err = h.sys.Machine.CallOn(ctx, 0, h.addr, 1, 0); err == nil {
		hits, err = h.sys.Machine.Mem().ReadU64(h.sys.Machine.Symbols().LookupName("counter_hits")[0].Addr)
	}
	undo := func() { _ = h.sys.Modules.Delete(ctx, name); h.settle() } // the next load fails if it stays
	if err == nil && hits != want {
		err = fmt.Errorf("the module counts %d hits of %d: %w", hits, want, syscall.EIO)
	}
	if err != nil {
		undo()
		return nil, err
	}
	return undo, nil
}
