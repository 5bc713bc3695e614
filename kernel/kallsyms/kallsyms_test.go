package kallsyms

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

const base = 0xffffffff81000000

func core() *Table {
	return New([]abi.Symbol{
		{Addr: base + 0x1000, Type: 'T', Name: "_end"},
		{Addr: base, Type: 'T', Name: "_text"},
		{Addr: base, Type: 'T', Name: "startup_64"},
		{Addr: base, Type: 'T', Name: "_stext"},
		{Addr: base + 0x40, Type: 't', Name: "name_show"},
		{Addr: base + 0x60, Type: 'T', Name: "__x64_sys_getpid"},
		{Addr: base + 0x60, Type: 'W', Name: "a_weak"},
		{Addr: base + 0x60, Type: 't', Name: "__do_sys_getpid"},
		{Addr: base + 0x60, Type: 'D', Name: "__start_things"},
		{Addr: base + 0x80, Type: 't', Name: "name_show"},
		{Addr: 0, Type: 'A', Name: "__per_cpu_start"},
		{Addr: 0x28, Type: 'A', Name: "canary"},
	})
}

func TestAll(t *testing.T) {
	var got []string
	for _, s := range core().All() {
		got = append(got, s.Name)
	}
	want := []string{
		"__per_cpu_start", "canary", "startup_64", "_stext", "_text", "name_show",
		"__do_sys_getpid", "__x64_sys_getpid", "__start_things", "a_weak", "name_show", "_end",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestLookup(t *testing.T) {
	tab := core()
	for _, c := range []struct {
		addr uint64
		name string
		off  uint64
		size uint64
	}{
		{base, "startup_64", 0, 0x40},
		{base + 0x3f, "startup_64", 0x3f, 0x40},
		{base + 0x40, "name_show", 0, 0x20},
		{base + 0x65, "__do_sys_getpid", 5, 0x20},
		{base + 0xfff, "name_show", 0xf7f, 0xf80},
		{base + 0x1000, "", 0, 0}, // _end has size 0
		{base - 1, "", 0, 0},
		{0x28, "", 0, 0}, // per-CPU symbols contain no addresses
		{0x7f0000000000, "", 0, 0},
		{^uint64(0), "", 0, 0},
	} {
		sym, off, ok := tab.Lookup(c.addr)
		if sym.Name != c.name || off != c.off || sym.Size != c.size || ok != (c.name != "") {
			t.Errorf("%#x: %v+%#x %v, want %s+%#x/%#x", c.addr, sym, off, ok, c.name, c.off, c.size)
		}
	}
}

func TestModules(t *testing.T) {
	tab := core()
	const mod = 0xffffffffc0000000
	add := func(name string, at uint64) error {
		return tab.AddModule(name, []abi.Range{{Start: at, End: at + 0x100}}, []abi.Symbol{
			{Addr: at + 0x20, Type: 't', Name: "name_show"},
			{Addr: at, Type: 't', Name: name + "_init"},
		})
	}
	if err := errors.Join(add("one", mod), add("two", mod+0x1000)); err != nil {
		t.Fatal(err)
	}
	if err := add("one", mod); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("a second time: %v", err)
	}
	names := func(name string) (got []string) {
		for _, s := range tab.LookupName(name) {
			got = append(got, s.Module+":"+s.Name)
		}
		return got
	}
	for name, want := range map[string][]string{
		"name_show":     {":name_show", ":name_show", "two:name_show", "one:name_show"},
		"one:name_show": {"one:name_show"},
		"two_init":      {"two:two_init"},
		"one:two_init":  nil,
		"gone:x":        nil,
		":name_show":    nil,
	} {
		if got := names(name); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	sym, off, ok := tab.Lookup(mod + 0xff)
	if !ok || sym.Name != "name_show" || sym.Module != "one" || sym.Size != 0xe0 || off != 0xdf {
		t.Errorf("end of the module: %v+%#x %v", sym, off, ok)
	}
	if sym, _, ok := tab.Lookup(mod + 0x100); ok {
		t.Errorf("after the module: %v", sym)
	}
	if all := tab.All(); all[len(all)-1].Module != "one" {
		t.Errorf("the older module is not listed last: %v", all[len(all)-1])
	}
	tab.Keep("one", []uint64{mod + 0xff, 1})
	tab.SetModule("one", nil, nil)
	if sym, _, ok := tab.Lookup(mod + 0xff); !ok || sym.Name != "name_show" || names("one:name_show") != nil {
		t.Errorf("of freed text: %v %v, by name %v", sym, ok, names("one:name_show"))
	}
	tab.RemoveModule("one")
	tab.RemoveModule("one")
	if got := names("one:name_show"); got != nil {
		t.Errorf("after removal: %v", got)
	}
	if _, _, ok := tab.Lookup(mod); ok {
		t.Error("a removed module's address is found")
	}
	if got := names("name_show"); len(got) != 3 {
		t.Errorf("after removal: %v", got)
	}
}

// TestConcurrent runs look-ups and changes at the same time, for the race detector.
func TestConcurrent(t *testing.T) {
	tab := core()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 2000 {
				if len(tab.LookupName("startup_64")) != 1 {
					t.Error("startup_64 is gone")
				}
				tab.Lookup(base + 0x61)
				tab.LookupName("m:f")
			}
		})
	}
	for range 200 {
		if err := tab.AddModule("m", nil, []abi.Symbol{{Addr: 1 << 40, Name: "f"}}); err != nil {
			t.Error(err)
		}
		tab.RemoveModule("m")
	}
	wg.Wait()
}

func TestLookupAllocatesNothing(t *testing.T) {
	tab := core()
	if n := testing.AllocsPerRun(100, func() {
		tab.Lookup(base + 0x61)
		tab.LookupName("name_show")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestModuleOrder: a module's symbols are listed in the order of its symbol table,
// and an address is shown by the first of its aliases there (as seen on 6.1 with a
// module whose init function has the alias init_module).
func TestModuleOrder(t *testing.T) {
	tab := New(nil)
	syms := []abi.Symbol{
		{Addr: 0x2000, Type: 't', Name: "tmod_init"},
		{Addr: 0x1010, Type: 't', Name: "zz"},
		{Addr: 0x2000, Type: 't', Name: "init_module"},
		{Addr: 0x1000, Type: 't', Name: "aa"},
	}
	if err := tab.AddModule("tmod", []abi.Range{{Start: 0x1000, End: 0x1020}, {Start: 0x2000, End: 0x2008}}, syms); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range tab.All() {
		names = append(names, s.Name)
	}
	if want := []string{"tmod_init", "zz", "init_module", "aa"}; !slices.Equal(names, want) {
		t.Errorf("listed are %q, want %q", names, want)
	}
	for addr, want := range map[uint64]string{0x2004: "tmod_init", 0x100f: "aa", 0x101f: "zz"} {
		if s, _, ok := tab.Lookup(addr); !ok || s.Name != want || s.Module != "tmod" {
			t.Errorf("%#x is in %+v, want %s", addr, s, want)
		}
	}
	if _, _, ok := tab.Lookup(0x2008); ok {
		t.Error("a symbol was found after the module's text")
	}
}
