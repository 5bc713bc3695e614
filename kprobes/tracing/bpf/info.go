package bpf

import (
	"encoding/binary"
	"syscall"
)

// described is check_btf_info: whether the records of functions and of lines of the source fit this program.
func (v *verifier) described() error {
	p := v.prog
	if p.funcs.size > 0 {
		if err := v.functionsDescribed(); err != nil {
			return err
		}
	}
	if p.lines.size > 0 {
		return v.linesDescribed()
	}
	return nil
}

func (v *verifier) functionsDescribed() error {
	funcs, types := v.prog.funcs, v.prog.btf.types
	if funcs.count() != len(v.starts) {
		return v.refuse(syscall.EINVAL, "number of funcs in func_info doesn't match number of subprogs")
	}
	last := uint32(0)
	for n, start := range v.starts {
		at := funcs.word(n, 0)
		switch f, _ := types.find(funcs.word(n, 4)); {
		case n == 0 && at != 0:
			return v.refuse(syscall.EINVAL, "nonzero insn_off %d for the first func info record", at)
		case n > 0 && at <= last:
			return v.refuse(syscall.EINVAL, "same or smaller insn offset (%d) than previous func info record (%d)", at, last)
		case int(at) != start:
			return v.refuse(syscall.EINVAL, "func_info BTF section doesn't match subprog layout in BPF program")
		case f == nil || f.kind != btfFunc:
			return v.refuse(syscall.EINVAL, "invalid type id %d in func info", funcs.word(n, 4))
		}
		last = at
	}
	return nil
}

func (v *verifier) linesDescribed() error {
	lines, types := v.prog.lines, v.prog.btf.types
	insns := v.prog.insns
	last, function := uint32(0), 0
	for n := range lines.count() {
		at := lines.word(n, 0)
		switch {
		case at <= last && last > 0 || int(at) >= len(insns):
			return v.refuse(syscall.EINVAL, "Invalid line_info[%d].insn_off:%d (prev_offset:%d prog->len:%d)", n, at, last, len(insns))
		case insns[at].code == 0:
			return v.refuse(syscall.EINVAL, "Invalid insn code at line_info[%d].insn_off", n)
		case !types.hasName(lines.word(n, 8)) || !types.hasName(lines.word(n, 4)):
			return v.refuse(syscall.EINVAL, "Invalid line_info[%d].line_off or .file_name_off", n)
		}
		if function < len(v.starts) {
			switch start := v.starts[function]; {
			case int(at) == start:
				function++
			case int(at) > start:
				return v.refuse(syscall.EINVAL, "missing bpf_line_info for func#%d", function)
			}
		}
		last = at
	}
	if function < len(v.starts) {
		return v.refuse(syscall.EINVAL, "missing bpf_line_info for %d funcs starting from func#%d", len(v.starts)-function, function)
	}
	return nil
}

// count returns how many records there are.
func (t infoTable) count() int { return len(t.records) / t.size }

// word returns 4 bytes of a record.
func (t infoTable) word(n, at int) uint32 {
	return binary.LittleEndian.Uint32(t.records[n*t.size+at:])
}

// hasName reports whether there is a string at an offset.
func (c *btfCheck) hasName(at uint32) bool { return int(at) < len(c.strings) }
