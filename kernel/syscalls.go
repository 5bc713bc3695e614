package kernel

import "strings"

// syscallCount is NR_syscalls of x86-64.
const syscallCount = 451

// Syscalls gives the names of the system calls that the guest has by their
// numbers ("read", "write", ...), "" for the others: sys_call_table's functions
// without their prefix.
func (m *Machine) Syscalls() []string {
	const prefix = "__x64_sys_"
	table := m.symbol("sys_call_table")
	names := make([]string, syscallCount)
	for nr := range names {
		addr, err := m.mem.ReadU64(table + 8*uint64(nr))
		if err != nil || table == 0 {
			return nil
		}
		if s, off, ok := m.own.Lookup(addr); ok && off == 0 && s.Name != prefix+"ni_syscall" {
			names[nr], _ = strings.CutPrefix(s.Name, prefix)
		}
	}
	return names
}
