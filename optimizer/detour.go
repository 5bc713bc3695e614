package optimizer

import (
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kernel/trampoline"
	"github.com/kprobefs/kprobefs/kprobes"
)

// detourSize is the length of a detour in bytes: the code's, rounded up to words, and
// what is behind it.
func detourSize(region int) int { return opOffset(region) + kprobes.OpSize }

func opOffset(region int) int {
	const word = 8
	return (trampoline.DetourSize() + region + jumpSize + word - 1) &^ (word - 1)
}

// build makes the detour of the region at addr, in a buffer at the address at. The
// callback's op argument leads to what is behind the code.
func build(addr uint64, region []byte, ins []insn.Insn, at, callback uint64) (*kprobes.Detour, error) {
	op := at + uint64(opOffset(len(region)))
	code, err := trampoline.Detour(at, op, callback)
	if err != nil {
		return nil, err
	}
	copied := at + uint64(len(code))
	if code, err = copyRegion(code, addr, region, ins, at); err != nil {
		return nil, err
	}
	back, err := trampoline.Jump(at+uint64(len(code)), addr+uint64(len(region)))
	if err != nil {
		return nil, err
	}
	jump, err := trampoline.Jump(addr, at)
	if err != nil {
		return nil, err
	}
	return &kprobes.Detour{Region: region, Jump: jump, Addr: at, Code: append(code, back...), Copied: copied, Op: op}, nil
}

// copyRegion appends the instructions of the region, relocated from addr to their
// place in the detour at the address at.
func copyRegion(code []byte, addr uint64, orig []byte, ins []insn.Insn, at uint64) ([]byte, error) {
	pos := 0
	for _, in := range ins {
		var err error
		code, err = kprobes.Relocate(code, orig[pos:pos+in.Len], in, addr+uint64(pos), at+uint64(len(code)))
		if err != nil {
			return nil, err
		}
		pos += in.Len
	}
	return code, nil
}
