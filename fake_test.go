package kprobefs_test

import (
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/image"
)

// nowhere is a fake of module memory that stores nothing.
type nowhere struct{ next uint64 }

func (n *nowhere) AllocModule(pages ...uint64) (uint64, error) {
	at := abi.ModulesBase + n.next
	for _, p := range pages {
		n.next += p * abi.PageSize
	}
	n.next += abi.PageSize
	return at, nil
}
func (*nowhere) MapModule(uint64, []byte, image.Perm) error { return nil }
func (*nowhere) FreeModule(uint64)                          {}
func (*nowhere) SynchronizeRCU()                            {}
func (*nowhere) SynchronizeRCUTasks()                       {}
func (*nowhere) AddSites(*image.Sites) error                { return nil }
func (*nowhere) Printk(int, string, ...any)                 {}
func (*nowhere) Taint(byte)                                 {}

// nothing is a fake that ignores all calls.
type nothing struct{}

func (nothing) Keep(string, []uint64)                       {}
func (nothing) Used() bool                                  { return false }
func (nothing) SetModule(string, []abi.Range, []abi.Symbol) {}
func (nothing) RemoveModule(string)                         {}
func (nothing) AddModule(*image.Sites) error                { return nil }
func (nothing) InitDone(string)                             {}
func (nothing) Add([]uint64)                                {}
func (nothing) Remove(abi.Range)                            {}

// noMemory is memory that holds zeros and keeps nothing.
type noMemory struct{}

func (noMemory) ReadAt(_ uint64, p []byte) error      { clear(p); return nil }
func (noMemory) WriteAt(uint64, []byte) error         { return nil }
func (noMemory) ReadU64(uint64) (uint64, error)       { return 0, nil }
func (noMemory) WriteU64(uint64, uint64) error        { return nil }
func (noMemory) Add32(uint64, uint32) (uint32, error) { return 0, nil }
