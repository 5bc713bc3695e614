package core

import (
	"fmt"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/mem"
)

const (
	pageBits = 8
	// PageMask is how many entries Pages has, less one.
	PageMask = 1<<pageBits - 1
	// SecondPlace is what the two places of a page differ by.
	SecondPlace = 1 << (pageBits - 1)

	slotBits = 9
	// SlotMask is how many slots there are of a kind, less one.
	SlotMask = 1<<slotBits - 1
	// SlotLimit is the limit of a slot for accesses of up to 8 bytes.
	SlotLimit = mem.PageSize - 7
)

// Page is an entry of a TLB: the tag is the page's address (1: none), off what to add to
// an address in it to get the host's address.
type Page struct{ Tag, Off uint64 }

// Pages is one of a vCPU's two TLBs. A page has two places in it, so that two pages whose
// addresses end alike, as the ends of a task's stack and of its task_struct may, do not drive
// each other out.
type Pages [1 << pageBits]Page

// Slot is the entry of Pages that an access in translated code used last. Limit is how
// far after Tag the access may begin, so that it does not leave the page. It is 0 while the slot is
// empty.
type Slot struct{ Tag, Off, Limit, _ uint64 }

// TLB is the two TLBs, for reads and for writes, and what translated code remembers of
// them. The pages lie together between guards, since the guest's addresses are what they
// are indexed with.
type TLB struct {
	Read, Write           *Pages
	ReadSlots, WriteSlots [1 << slotBits]Slot
}

// Open makes an empty TLB in memory of m. It fails if the host has none.
func (t *TLB) Open(m *mem.Memory) error {
	b, err := m.Guarded(int(unsafe.Sizeof([2]Pages{})))
	if err != nil {
		return fmt.Errorf("TLBs of a vCPU: %w", err)
	}
	p := (*[2]Pages)(unsafe.Pointer(unsafe.SliceData(b)))
	t.Read, t.Write = &p[0], &p[1]
	t.Flush()
	return nil
}

// Flush forgets all translations.
func (t *TLB) Flush() {
	for i := range t.Read {
		t.Read[i].Tag, t.Write[i].Tag = 1, 1
	}
	t.flushSlots()
}

// FlushPage forgets the translation of the page of va.
func (t *TLB) FlushPage(va uint64) {
	for _, p := range []*Pages{t.Read, t.Write} {
		if e := p.Find(va, va&^mem.PageMask); e != nil {
			e.Tag = 1
		}
	}
	t.flushSlots()
}

func (t *TLB) flushSlots() {
	for i := range t.ReadSlots {
		t.ReadSlots[i].Limit, t.WriteSlots[i].Limit = 0, 0
	}
}

// Find is the entry for the page of va, or nil; page is the address of the page that the
// access ends in. If that is another page than va's, there is none.
func (p *Pages) Find(va, page uint64) *Page {
	i := va >> 12 & PageMask
	if e := &p[i]; e.Tag == page {
		return e
	}
	if e := &p[i^SecondPlace]; e.Tag == page {
		return e
	}
	return nil
}

// Put makes an entry for the page of va, which has none. Off is the entry's. What was in
// its first place moves to the second.
func (p *Pages) Put(va, off uint64) {
	i := va >> 12 & PageMask
	p[i^SecondPlace] = p[i]
	p[i] = Page{Tag: va &^ mem.PageMask, Off: off}
}
