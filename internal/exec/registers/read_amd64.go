package registers

import (
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// read reads the registers of a thread that has stopped, of which the caller is the tracer.
func read(tid int, r *abi.Regs) error {
	var all syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(tid, &all); err != nil {
		return err
	}
	*r = abi.Regs{
		R15: all.R15, R14: all.R14, R13: all.R13, R12: all.R12, BP: all.Rbp, BX: all.Rbx, R11: all.R11, R10: all.R10, R9: all.R9, R8: all.R8,
		AX: all.Rax, CX: all.Rcx, DX: all.Rdx, SI: all.Rsi, DI: all.Rdi, OrigAX: all.Orig_rax, IP: all.Rip, CS: all.Cs, Flags: all.Eflags, SP: all.Rsp, SS: all.Ss,
	}
	return nil
}
