package kernel

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/insnslot"
)

// TestPokeRefusals: if a patch is not entirely in text, Poke returns EFAULT and
// writes no patch of the batch.
func TestPokeRefusals(t *testing.T) {
	m := boot(t, 1)
	good := m.slotCode(bytes.Repeat([]byte{0x90}, 16)...)
	text := m.img.Text.Start
	pageEnd := good&^(abi.PageSize-1) + abi.PageSize
	type row struct {
		name string
		addr uint64
		n    int
	}
	rows := []row{
		{"data", m.symbol("init_task"), 1},
		{"the direct map", m.page(), 1},
		{"text by the direct map", abi.DirectMap + text - abi.KernelBase, 1},
		{"it ends behind a slot's page", pageEnd - 1, 2},
		{"it begins before text", text - 1, 2},
		{"it wraps", ^uint64(0), 2},
	}
	for _, a := range unmapped {
		rows = append(rows, row{"unmapped", a, 1})
	}
	patch := abi.Patch{Addr: good, Bytes: []byte{0xcc, 0xcc}}
	for _, r := range rows {
		bad := abi.Patch{Addr: r.addr, Bytes: make([]byte, r.n)}
		for _, batch := range [][]abi.Patch{{bad}, {patch, bad}, {bad, patch}, append(slices.Repeat([]abi.Patch{patch}, maxStop), bad)} {
			if err := m.Poke(batch...); !errors.Is(err, syscall.EFAULT) {
				t.Errorf("%s, %#x and %d bytes, among %d: %v", r.name, r.addr, r.n, len(batch), err)
			}
		}
	}
	var now [2]byte
	if err := m.Read(good, now[:]); err != nil || now != [2]byte{0x90, 0x90} {
		t.Errorf("% x, %v: a patch of a refused batch was written", now, err)
	}
	if err := m.Poke(); err != nil {
		t.Errorf("no patches: %v", err)
	}
	if err := m.Poke(abi.Patch{}, patch); err != nil {
		t.Errorf("an empty patch and a good one: %v", err)
	}
	if err := m.Read(good, now[:]); err != nil || now != [2]byte{0xcc, 0xcc} {
		t.Errorf("% x, %v", now, err)
	}
}

// TestPokeOrder: patches of the same bytes are written in order, even if they take
// several stops of the machine.
func TestPokeOrder(t *testing.T) {
	m := boot(t, 1)
	at := m.slotCode(make([]byte, 8)...)
	for _, n := range []int{1, 2, maxStop - 1, maxStop, maxStop + 1, 3*maxStop + 5} {
		var batch []abi.Patch
		for i := range n {
			batch = append(batch, abi.Patch{Addr: at + uint64(i%8), Bytes: bytes.Repeat([]byte{byte(i % 251)}, 8-i%8)})
		}
		want := make([]byte, 8)
		if err := m.Read(at, want); err != nil {
			t.Fatal(err)
		}
		for i, p := range batch {
			copy(want[i%8:], p.Bytes)
		}
		if err := m.Poke(batch...); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 8)
		if err := m.Read(at, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("after %d patches: % x, %v; want % x", n, got, err, want)
		}
	}
}

// TestPokeIsExecuted: a vCPU in a loop executes patched instructions of the loop.
func TestPokeIsExecuted(t *testing.T) {
	m := boot(t, 2)
	page := m.page()
	code := m.coreCode(
		0x48, 0xc7, 0x07, 1, 0, 0, 0, // 1: movq $1,(%rdi)
		0x48, 0x83, 0x3e, 0x00, // cmpq $0,(%rsi)
		0x74, 0xf3, // je 1b
		0xc3,
	)
	ends := []<-chan error{m.begin(0, code, page, page+2048), m.begin(1, code, page+64, page+2048)}
	ram := m.mem.Phys(page-abi.DirectMap, abi.PageSize)
	read := func(off int) (b byte) {
		m.StopMachine(func() { b = ram[off] })
		return b
	}
	for i := byte(2); i < 20; i++ {
		if err := m.Poke(abi.Patch{Addr: code + 3, Bytes: []byte{i}}); err != nil {
			t.Fatal(err)
		}
		for _, off := range []int{0, 64} {
			soon(t, "the new instruction's value", func() bool { return read(off) == i })
		}
	}
	m.StopMachine(func() { ram[2048] = 1 })
	for _, e := range ends {
		if err := within(t, "the end of the loop", e); err != nil {
			t.Error(err)
		}
	}
}

// TestSlots: slots of all sizes do not overlap, are aligned to 16 bytes, are filled
// with int3 when allocated and when freed, and are reused.
func TestSlots(t *testing.T) {
	m := boot(t, 1)
	const largest = abi.PageSize - 2*insnslot.Align
	for _, n := range []int{-1, 0, largest + 1, abi.PageSize, 1 << 40} {
		if a, err := m.AllocSlot(n); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("a slot of %d bytes: %#x, %v", n, a, err)
		}
	}
	before := m.SlotsInUse()
	type slot struct{ addr, size uint64 }
	var all []slot
	for _, n := range []int{1, 15, 16, 17, 64, 100, 1000, 2000, largest, largest, 3, 500} {
		a, err := m.AllocSlot(n)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, n)
		if err := m.Read(a, b); err != nil || a%insnslot.Align != 0 || !bytes.Equal(b, bytes.Repeat([]byte{0xcc}, n)) {
			t.Errorf("%d bytes at %#x: %v, % .16x", n, a, err, b)
		}
		for _, o := range all {
			if a < o.addr+o.size && o.addr < a+uint64(n) {
				t.Errorf("%d bytes at %#x overlap %d at %#x", n, a, o.size, o.addr)
			}
		}
		all = append(all, slot{a, uint64(n)})
		if err := m.Poke(abi.Patch{Addr: a, Bytes: make([]byte, n)}); err != nil {
			t.Error(err)
		}
	}
	if got := m.SlotsInUse() - before; got != len(all) {
		t.Errorf("%d slots are in use, want %d", got, len(all))
	}
	m.FreeSlot(all[8].addr + insnslot.Align) // inside a slot: no effect
	m.FreeSlot(abi.SlotsBase - abi.PageSize)
	if got := m.SlotsInUse() - before; got != len(all) {
		t.Errorf("%d slots are in use, want %d", got, len(all))
	}
	for _, s := range all {
		m.FreeSlot(s.addr)
		m.FreeSlot(s.addr) // already freed: no effect
		if s.size > insnslot.Align {
			m.FreeSlot(s.addr + insnslot.Align) // the same
		}
		b := make([]byte, s.size)
		if err := m.Read(s.addr, b); err != nil || !bytes.Equal(b, bytes.Repeat([]byte{0xcc}, len(b))) {
			t.Errorf("%#x after it was freed: %v, % .16x", s.addr, err, b)
		}
	}
	if got := m.SlotsInUse(); got != before {
		t.Errorf("%d slots are in use, %d were before", got, before)
	}
	for _, s := range all {
		if a, err := m.AllocSlot(int(s.size)); err != nil || a != s.addr {
			t.Errorf("%d bytes are at %#x (%v), and were at %#x", s.size, a, err, s.addr)
		}
	}
}

// TestSlotsRunOut: ENOMEM when all memory for slots is in use. A slot that is then
// freed can be allocated again.
func TestSlotsRunOut(t *testing.T) {
	m := boot(t, 1)
	const size = abi.PageSize - 2*insnslot.Align
	var last uint64
	n := 0
	for {
		a, err := m.AllocSlot(size)
		if err != nil {
			if !errors.Is(err, syscall.ENOMEM) {
				t.Errorf("%v, want ENOMEM", err)
			}
			break
		}
		if n++; n > textRAM/size {
			t.Fatalf("%d slots of %d bytes in %d bytes", n, size, textRAM)
		}
		last = a
	}
	if n < textRAM/abi.PageSize-1 { // ftrace's trampolines are in one
		t.Errorf("%d slots only", n)
	}
	m.FreeSlot(last)
	if a, err := m.AllocSlot(size); err != nil || a != last {
		t.Errorf("the one that was freed: %#x, %v; want %#x", a, err, last)
	}
}

// TestSlotsAtOnce: many goroutines allocate, write and free slots. Each reads from
// its slots what it has written.
func TestSlotsAtOnce(t *testing.T) {
	m := boot(t, 2)
	before := m.SlotsInUse()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			mine := bytes.Repeat([]byte{byte(g + 1)}, 48)
			for range 50 {
				a, err := m.AllocSlot(len(mine))
				if err != nil {
					t.Error(err)
					return
				}
				b := make([]byte, len(mine))
				err = errors.Join(m.Poke(abi.Patch{Addr: a, Bytes: mine}), m.Read(a, b))
				if err != nil || !bytes.Equal(b, mine) {
					t.Errorf("%#x: %v, % x, want % x", a, err, b, mine)
				}
				m.FreeSlot(a)
			}
		})
	}
	wg.Wait()
	if got := m.SlotsInUse(); got != before {
		t.Errorf("%d slots are in use, %d were before", got, before)
	}
}
