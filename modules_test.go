package kprobefs_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/integration"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/module"
	"github.com/kprobefs/kprobefs/kprobes"
)

// ko reads one of the guest's modules.
func ko(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("kernel/guest/modules", name+".ko"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func load(t testing.TB, s *kprobefs.Kernel, name string) {
	t.Helper()
	if got, err := s.Modules.Load(context.Background(), ko(t, name)); err != nil || got != filepath.Base(name) {
		t.Fatalf("Load(%s) = %q, %v", name, got, err)
	}
}

// list returns kprobes/list with addresses.
func list(s *kprobefs.Kernel) string {
	var b []byte
	for i := range kprobes.Buckets {
		b = s.Kprobes.AppendList(b, i, false)
	}
	return string(b)
}

// TestModules loads modules that use each other, and some that are refused.
func TestModules(t *testing.T) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	fails := func(what string, got, want error) {
		t.Helper()
		if !errors.Is(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	try := func(name string) error { _, err := s.Modules.Load(ctx, ko(t, name)); return err }

	fails("a user before what it uses", try("kprobe_user"), syscall.ENOENT)
	load(t, s, "kprobe_target")
	fails("loaded twice", try("kprobe_target"), syscall.EEXIST)
	fails("init fails", try("kprobe_fails"), syscall.ENODEV)
	load(t, s, "kprobe_user")
	other := bytes.Replace(ko(t, "kprobe_fails"), []byte("vermagic=6.1"), []byte("vermagic=6.2"), 1)
	_, err = s.Modules.Load(ctx, other)
	fails("another vermagic", err, syscall.ENOEXEC)
	_, err = s.Modules.Load(ctx, []byte("#!/bin/sh\n"))
	fails("no ELF", err, syscall.ENOEXEC)

	if got, err := s.Machine.Call(ctx, "kprobe_user_twice", 10); err != nil || got != 110 {
		t.Errorf("kprobe_user_twice(10) = %d, %v", got, err)
	}
	if got, err := s.Machine.Call(ctx, "kprobe_target_fact", 10); err != nil || got != 3628800 {
		t.Errorf("kprobe_target_fact(10) = %d, %v", got, err)
	}
	mods := s.Modules.List()
	if len(mods) != 2 || mods[0].Name != "kprobe_user" || mods[1].Refs != 1 || !slices.Equal(mods[1].Users, []string{"kprobe_user"}) || mods[1].Taints != "OE" {
		t.Errorf("List() = %+v", mods)
	}
	fails("removing what is used", s.Modules.Delete(ctx, "kprobe_target"), syscall.EWOULDBLOCK)
	fails("removing what is not there", s.Modules.Delete(ctx, "kprobe_fails"), syscall.ENOENT)
	for _, name := range []string{"kprobe_user", "kprobe_target"} {
		if err := s.Modules.Delete(ctx, name); err != nil {
			t.Errorf("Delete(%s): %v", name, err)
		}
	}
	if syms := s.Machine.Symbols().LookupName("kprobe_target_sum"); len(syms) > 0 {
		t.Errorf("symbols of an unloaded module: %+v", syms)
	}
	if b := make([]byte, 1); s.Machine.Read(0xffffffffc0000000, b) == nil {
		t.Error("text of an unloaded module is mapped")
	}
}

// TestModuleProbes: probes in a module, refused ones and some in init text, when the
// module is unloaded and loaded again.
func TestModuleProbes(t *testing.T) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	slots := s.Machine.SlotsInUse()
	define := func(line string) {
		t.Helper()
		if _, err := s.Tracer.Definitions().WriteKprobeEvents([]byte(line + "\n")); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	define("p:once kprobe_target:kprobe_target_once") // armed when the module is loaded
	define("p:sum kprobe_target:kprobe_target_sum")
	if err := s.Tracer.Global().EnableAll([]byte("1")); err != nil {
		t.Fatal(err)
	}
	load(t, s, "kprobe_target")
	if got := list(s); !strings.Contains(got, "kprobe_target_sum+0x0  kprobe_target [FTRACE]") || !strings.Contains(got, "[GONE]") {
		t.Errorf("after init:\n%s", got)
	}
	hits := map[string]string{}
	for i := 0; ; i++ {
		line, ok := s.Tracer.Definitions().KprobeProfile(i)
		if !ok {
			break
		}
		f := strings.Fields(line)
		hits[f[0]] = f[1]
	}
	if hits["once"] != "1" || hits["sum"] != "1" {
		t.Errorf("init made hits %v, want one each", hits)
	}

	step := &kprobes.Kprobe{SymbolName: "kprobe_target_sum", Offset: 5}
	ret := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "kprobe_target_fact"}, Handler: func(*kprobes.Instance, *kprobes.Hit) int { return 0 }}
	if err := s.Kprobes.Register(step); err != nil {
		t.Fatal(err)
	}
	if err := s.Kprobes.RegisterRetprobe(ret); err != nil {
		t.Fatal(err)
	}
	if err := s.Kprobes.Register(&kprobes.Kprobe{SymbolName: "kprobe_target_blacklisted"}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a probe on a blacklisted function of a module: %v", err)
	}
	if got, err := s.Machine.Call(ctx, "kprobe_target_fact", 10); err != nil || got != 3628800 {
		t.Errorf("kprobe_target_fact(10) = %d, %v", got, err)
	}
	if got, err := s.Machine.Call(ctx, "kprobe_target_sum", 1, 100); err != nil || got != 5050 {
		t.Errorf("kprobe_target_sum(1, 100) = %d, %v", got, err)
	}
	if err := s.Modules.Delete(ctx, "kprobe_target"); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(list(s)) {
		if !strings.Contains(line, "[GONE]") {
			t.Errorf("after unloading: %s", line)
		}
	}
	if err := s.Kprobes.Enable(step); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("enabling a probe in an unloaded module: %v", err)
	}
	load(t, s, "kprobe_target") // only probes that name the module are armed again
	if got := list(s); strings.Count(got, "[GONE]") != 3 {
		t.Errorf("after loading again:\n%s", got)
	}
	s.Kprobes.Unregister(step)
	s.Kprobes.UnregisterRetprobe(ret)
	if err := s.Tracer.Global().EnableAll([]byte("0")); err != nil {
		t.Fatal(err)
	}
	if err := s.Tracer.Definitions().ReleaseAll(); err != nil {
		t.Fatal(err)
	}
	s.Kprobes.WaitOptimizer()
	if got := list(s); got != "" {
		t.Errorf("after all is unregistered:\n%s", got)
	}
	if n := s.Machine.SlotsInUse(); n != slots {
		t.Errorf("%d slots in use, %d at the start", n, slots)
	}
}

// TestInterruptedLoad: a load or unload that is interrupted does not wait for the
// init or exit function, and the module's memory is freed only after that function
// has returned.
func TestInterruptedLoad(t *testing.T) {
	t.Parallel()
	runs, end := make(chan string), make(chan uint64)
	l := module.New(module.Config{
		Machine: &nowhere{}, Memory: noMemory{}, Symbols: nothing{}, Tables: nothing{}, Sites: nothing{},
		Export: func(string) (uint64, bool) { return 0xffffffff81000000, true },
		Func:   func(string) uint64 { return 0xffffffff81000000 },
		Call: func(_ context.Context, comm string, _ uint64, _ ...uint64) (uint64, error) {
			runs <- comm
			return <-end, nil
		},
		Own: []string{"6.1.0-kprobefs-amd64 SMP preempt mod_unload modversions"},
	})
	state := func() string {
		for _, m := range l.List() {
			return fmt.Sprint(m.State, m.Refs)
		}
		return "gone"
	}
	for _, c := range []struct{ comm, during, after string }{
		{"insmod", "Loading1", "Live0"},
		{"rmmod", "Unloading-1", "gone"},
	} {
		ctx, interrupt := context.WithCancel(context.Background())
		go func() {
			if comm := <-runs; comm != c.comm {
				t.Errorf("%s: its function runs in %s", c.comm, comm)
			}
			interrupt()
		}()
		var err error
		if c.comm == "insmod" {
			_, err = l.Load(ctx, ko(t, "kprobe_target"))
		} else {
			err = l.Delete(ctx, "kprobe_target")
		}
		if !errors.Is(err, module.ErrStays) || !errors.Is(err, syscall.EINTR) || state() != c.during {
			t.Errorf("%s, interrupted: %v, the module is %s", c.comm, err, state())
		}
		end <- 0
		for i := 0; state() != c.after && i < 1000; i++ {
			time.Sleep(time.Millisecond)
		}
		if state() != c.after {
			t.Errorf("%s, at the end: the module is %s", c.comm, state())
		}
	}
}

// fuzzedModules are the modules whose edited copies are loaded.
var fuzzedModules = []string{"kprobe_target", "kprobe_user", "kprobe_fails", "kprobe_example"}

// areas is a fake machine that counts modules' memory.
type areas struct {
	nowhere
	held map[uint64]bool
}

func (a *areas) AllocModule(pages ...uint64) (uint64, error) {
	first, err := a.nowhere.AllocModule(pages...)
	at := first
	for _, p := range pages {
		a.held[at] = true
		at += p * abi.PageSize
	}
	return first, err
}

func (a *areas) FreeModule(at uint64) { delete(a.held, at) }

// loadEdited loads an object. Either it is refused, or it is loaded, listed under its
// name, and can be unloaded. Nothing is left in both cases.
func loadEdited(t *testing.T, b []byte) (loaded bool) {
	t.Helper()
	m := &areas{held: map[uint64]bool{}}
	l := module.New(module.Config{
		Machine: m, Memory: noMemory{}, Symbols: nothing{}, Tables: nothing{}, Sites: nothing{},
		Export: func(string) (uint64, bool) { return 0xffffffff81000000, true },
		Func:   func(string) uint64 { return 0xffffffff81000000 },
		Struct: module.Struct{Size: 896, Refs: 0x358},
		ABI:    module.Debian61,
		Call:   func(context.Context, string, uint64, ...uint64) (uint64, error) { return 0, nil },
		Own:    []string{"6.1.0-kprobefs-amd64 SMP preempt mod_unload modversions"},
	})
	ctx := context.Background()
	name, err := l.Load(ctx, b)
	switch {
	case err != nil && len(l.List()) != 0:
		t.Fatalf("refused (%v), and listed: %+v", err, l.List())
	case err == nil && (len(l.List()) != 1 || l.List()[0].Name != name):
		t.Fatalf("%q is loaded, listed is %+v", name, l.List())
	}
	var errno syscall.Errno
	if err != nil && !errors.As(err, &errno) {
		t.Fatalf("an error without errno: %v", err)
	}
	if err == nil {
		if uerr := l.Delete(ctx, name); errors.Is(uerr, syscall.EBUSY) {
			return true // it has no exit function
		} else if uerr != nil || len(l.List()) != 0 {
			t.Fatalf("unloading %q: %v, listed is %+v", name, uerr, l.List())
		}
	}
	if len(m.held) != 0 {
		t.Fatalf("load: %v; %d areas are in use", err, len(m.held))
	}
	return err == nil
}

// FuzzModule loads modules whose tables, symbols, relocations and bytes have been
// changed (mutate), and arbitrary bytes.
func FuzzModule(f *testing.F) {
	var seeds [][]byte
	for i, name := range fuzzedModules {
		seeds = append(seeds, ko(f, name))
		for kind := range byte(8) {
			f.Add(uint8(i), []byte{kind, 7, 1, kind, 1, 2, 0, 0})
		}
	}
	f.Add(uint8(255), ko(f, "kprobe_target")[:512])
	f.Fuzz(func(t *testing.T, which uint8, edits []byte) {
		b := edits
		if which != 255 {
			b = mutate(t, seeds[int(which)%len(seeds)], edits)
		}
		loadEdited(t, b)
	})
}

// TestEditedModules: at least a fifth of the edited modules is loaded, since
// otherwise FuzzModule would test the parser only, and at least a fifth is refused.
func TestEditedModules(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const tries = 1000
	loaded := 0
	for i := range tries {
		edits := make([]byte, editSize*(1+random.IntN(maxEdits)))
		for j := range edits {
			edits[j] = byte(random.Uint32())
		}
		if loadEdited(t, mutate(t, ko(t, fuzzedModules[i%len(fuzzedModules)]), edits)) {
			loaded++
		}
	}
	t.Logf("%d of %d are loaded", loaded, tries)
	if loaded < tries/5 || loaded > tries*4/5 {
		t.Errorf("%d of %d are loaded", loaded, tries)
	}
}

// TestEditedDebianModules is TestEditedModules with modules built with Debian's headers.
func TestEditedDebianModules(t *testing.T) {
	objects := needDebianModules(t)
	random := rand.New(rand.NewPCG(3, 4))
	loaded := 0
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		for range editedModules / len(objects) {
			edits := make([]byte, editSize*(1+random.IntN(maxEdits)))
			for j := range edits {
				edits[j] = byte(random.Uint32())
			}
			if loadEdited(t, mutate(t, objects[name], edits)) {
				loaded++
			}
		}
	}
	t.Logf("%d of %d are loaded", loaded, editedModules)
	if loaded < editedModules/10 || loaded > editedModules*9/10 {
		t.Errorf("%d of %d are loaded", loaded, editedModules)
	}
}

// TestModuleFunctions: lines for a module in set_ftrace_filter become the module's
// functions when it is loaded, and are removed when it is unloaded.
func TestModuleFunctions(t *testing.T) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a := s.Tracer.Global()
	filter := func(notrace bool) string { return strings.Join(a.Ftrace().FunctionFilter(notrace), "") }
	edit := func(notrace bool, lines ...string) {
		t.Helper()
		e := a.Ftrace().EditFunctions(notrace, true)
		for _, l := range lines {
			if _, err := e.Write([]byte(l + "\n")); err != nil {
				t.Fatal(err)
			}
		}
		e.Close()
	}
	edit(false, "*_fact:mod:kprobe_target", ":mod:kprobe_target2", "kprobe_target_sum:mod:kprobe_target")
	edit(true, ":mod:kprobe_target")
	if err := a.SetCurrentTracer([]byte("function")); err != nil {
		t.Fatal(err)
	}
	if got, want := filter(false), "kprobe_target_sum:mod:kprobe_target\n:mod:kprobe_target2\n*_fact:mod:kprobe_target\n"; got != want {
		t.Errorf("before: %q, want %q", got, want)
	}
	load(t, s, "kprobe_target")
	got := filter(false)
	for _, want := range []string{"kprobe_target_fact [kprobe_target]\n", "kprobe_target_sum [kprobe_target]\n", ":mod:kprobe_target2\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Count(got, "\n") != 3 {
		t.Errorf("the filter is\n%s", got)
	}
	if not := filter(true); strings.Count(not, " [kprobe_target]\n") < 5 || strings.Contains(not, ":mod:") {
		t.Errorf("not traced are\n%s", not)
	}
	if on := s.Tracer.Ftrace().EnabledFunctions(); len(on) != 0 {
		t.Errorf("traced although they are in both files: %q", on)
	}
	edit(true)
	if on := s.Tracer.Ftrace().EnabledFunctions(); len(on) != 2 {
		t.Errorf("traced are %q", on)
	}
	if err := s.Modules.Delete(context.Background(), "kprobe_target"); err != nil {
		t.Fatal(err)
	}
	if got := filter(false); got != ":mod:kprobe_target2\n" {
		t.Errorf("after: %q", got)
	}
	if on := s.Tracer.Ftrace().EnabledFunctions(); len(on) != 0 {
		t.Errorf("traced are %q", on)
	}
	edit(false)
	load(t, s, "kprobe_target")
	if on := strings.Join(s.Tracer.Ftrace().EnabledFunctions(), ""); !strings.Contains(on, "kprobe_target_sum [kprobe_target] (1)") {
		t.Error("a tracer of all functions does not trace functions of a module loaded later")
	}
}

// TestModuleStack: stack traces contain functions of modules, and those in init text
// while it runs.
func TestModuleStack(t *testing.T) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var mu sync.Mutex
	var stacks [][]string
	seen := func() (of [][]string) {
		mu.Lock()
		defer mu.Unlock()
		of, stacks = stacks, nil
		return of
	}
	stack := func(h *kprobes.Hit) {
		var ips [16]uint64
		n := s.Machine.Unwind(h.Task, h.Regs.IP, 0, h.Regs.SP, ips[:], nil)
		var names []string
		for _, ip := range ips[:n] {
			sym, _, _ := s.Machine.Symbols().Lookup(ip)
			names = append(names, sym.Name)
		}
		mu.Lock()
		defer mu.Unlock()
		stacks = append(stacks, names)
	}
	begins := func(what string, got []string, want ...string) {
		t.Helper()
		if len(got) < len(want)+2 || !slices.Equal(got[:len(want)], want) || got[len(got)-1] != "ret_from_fork" {
			t.Errorf("%s: the stack is %q, want it to begin with %q", what, got, want)
		}
	}
	probe := &kprobes.Kprobe{SymbolName: "_printk", PreHandler: func(h *kprobes.Hit) int { stack(h); return 0 }}
	if err := s.Kprobes.Register(probe, nil); err != nil {
		t.Fatal(err)
	}
	load(t, s, "kprobe_target")
	of := seen()
	begins("init", of[len(of)-1], "_printk", "kprobe_target_init", "do_one_initcall")
	load(t, s, "kprobe_user")
	inner := &kprobes.Kprobe{SymbolName: "kprobe_target_fact", PreHandler: probe.PreHandler}
	if err := s.Kprobes.Register(inner, nil); err != nil {
		t.Fatal(err)
	}
	seen()
	if _, err := s.Machine.Call(context.Background(), "kprobe_target_fact", 3); err != nil {
		t.Fatal(err)
	}
	of = seen()
	if len(of) != 3 {
		t.Fatalf("kprobe_target_fact(3) gave the stacks %q", of)
	}
	begins("three deep", of[2], "kprobe_target_fact", "kprobe_target_fact", "kprobe_target_fact")
}

// debianModules builds the modules of integration/testdata/modules/debian once.
var debianModules = sync.OnceValues(func() (map[string][]byte, error) {
	return integration.BuildModules(filepath.Join("integration", integration.DebianModules))
})

// needDebianModules returns them, or skips the test where the headers are missing.
func needDebianModules(t testing.TB) map[string][]byte {
	t.Helper()
	objects, err := debianModules()
	if errors.Is(err, integration.ErrNoHeaders) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestRefusedDebianModules: modules built for another kernel, or for symbols that
// are not there, are refused, and the log says why as on Linux.
func TestRefusedDebianModules(t *testing.T) {
	object := needDebianModules(t)["life.ko"]
	vermagic := regexp.MustCompile(`vermagic=6\.1\.0-\d+-amd64`).Find(object)
	crc := func(symbol string) []byte { // the entry of __versions
		name := append([]byte(symbol), 0)
		at := bytes.Index(object, append([]byte{0, 0, 0, 0}, name...))
		if at < 4 {
			t.Fatalf("no CRC of %s", symbol)
		}
		return object[at-4 : at+4+len(name)]
	}
	wrong := func(entry []byte) []byte {
		e := slices.Clone(entry)
		e[0]++
		return e
	}
	for _, tt := range []struct {
		name      string
		old, text []byte // what is replaced in the object by what
		rename    string // what else is put in the place of 6.1.0 in vermagic
		opts      module.Options
		want      error
		letters   string // its taints, if it is loaded; "" means OE
		log       []string
	}{
		{
			name: "other flags", old: []byte("SMP preempt mod_unload modversions "), text: []byte("SMP PREEMPT mod_unload modversions "), want: syscall.ENOEXEC,
			log: []string{"life: version magic '" + string(vermagic[len("vermagic="):]) + " SMP PREEMPT mod_unload modversions ' should be '6.1.0-56-amd64 SMP preempt mod_unload modversions '"},
		},
		{name: "another kernel's name, and this one's CRCs", old: vermagic, text: []byte("vermagic=6.2.0-99-amd64")},
		{
			name: "no CRCs, and another kernel's name", old: []byte("\x00__versions\x00"), text: []byte("\x00__verzions\x00"), rename: "6.2.0", want: syscall.ENOEXEC,
			log: []string{"life: module_layout: kernel tainted.", "Disabling lock debugging due to kernel taint"},
		},
		{
			name: "no vermagic", old: []byte("\x00vermagic="), text: []byte("\x00vermagix="), letters: "FOE",
			log: []string{"life: bad vermagic: kernel tainted.", "Disabling lock debugging due to kernel taint"},
		},
		{
			name: "other flags, forced", old: []byte("SMP preempt mod_unload modversions "), text: []byte("SMP PREEMPT mod_unload modversions "),
			opts: module.Options{IgnoreVermagic: true}, letters: "FOE", log: []string{"life: bad vermagic: kernel tainted."},
		},
		{
			name: "another version of a function, forced", old: crc("_printk"), text: wrong(crc("_printk")),
			opts: module.Options{IgnoreModversions: true}, letters: "FOE", log: []string{"life: module_layout: kernel tainted."},
		},
		{
			name: "another struct module", old: crc("module_layout"), text: wrong(crc("module_layout")), want: syscall.ENOEXEC,
			log: []string{"life: disagrees about version of symbol module_layout"},
		},
		{
			name: "another version of a function", old: crc("_printk"), text: wrong(crc("_printk")), want: syscall.EINVAL,
			log: []string{"life: disagrees about version of symbol _printk", "life: Unknown symbol _printk (err -22)"},
		},
		{
			name: "an unknown kernel's CRC", old: nil, want: nil,
		},
		{
			name: "unknown symbols", old: []byte("\x00_printk\x00"), text: []byte("\x00_prinTk\x00"), want: syscall.ENOENT,
			log: []string{"life: Unknown symbol _prinTk (err -2)"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			edited := bytes.ReplaceAll(object, tt.old, tt.text)
			if tt.old == nil {
				edited = bytes.ReplaceAll(bytes.ReplaceAll(object, vermagic, []byte("vermagic=6.1.0-99-amd64")), crc("_printk"), wrong(crc("_printk")))
			}
			if tt.rename != "" {
				edited = bytes.ReplaceAll(edited, []byte("vermagic=6.1.0"), []byte("vermagic="+tt.rename))
			}
			if _, err := s.Modules.Insert(context.Background(), edited, tt.opts); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
				t.Errorf("%v, want %v", err, tt.want)
			}
			for _, m := range s.Modules.List() {
				if want := cmp.Or(tt.letters, "OE"); m.Taints != want {
					t.Errorf("its taints are %s, want %s", m.Taints, want)
				}
			}
			log := logOf(s)
			for _, line := range tt.log {
				if !slices.Contains(log, line) {
					t.Errorf("the log lacks %q:\n%s", line, strings.Join(log, "\n"))
				}
			}
		})
	}
}

// logOf returns the texts of the records in the log.
func logOf(s *kprobefs.Kernel) (texts []string) {
	first, next := s.Machine.Log().Bounds()
	for i := first; i < next; i++ {
		if r, ok, _, _ := s.Machine.Log().Get(i); ok {
			texts = append(texts, r.Text)
		}
	}
	return texts
}

// TestListWhileLoading lists the modules, as /proc/modules and an oops do, while others load
// and unload. A module is listed when it has its memory, and each field is of one moment;
// `go test -race` sees a field that is read while the loader sets it.
func TestListWhileLoading(t *testing.T) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, stop := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				for _, m := range s.Modules.List() {
					if m.Addr == 0 && m.Name != "kprobe_fails" || m.Size == 0 || m.Core > m.Size { // all text of kprobe_fails is init's
						t.Errorf("%s is listed at %#x with %d bytes", m.Name, m.Addr, m.Size)
					}
				}
				s.Modules.Linked()
			}
		})
	}
	for range 25 {
		load(t, s, "kprobe_target")
		load(t, s, "kprobe_user")
		if _, err := s.Modules.Load(context.Background(), ko(t, "kprobe_fails")); !errors.Is(err, syscall.ENODEV) {
			t.Errorf("kprobe_fails: %v", err)
		}
		for _, name := range []string{"kprobe_user", "kprobe_target"} {
			if err := s.Modules.Delete(context.Background(), name); err != nil {
				t.Fatal(name, err)
			}
		}
	}
	stop()
	readers.Wait()
}
