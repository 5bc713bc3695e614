package bpf

import (
	"errors"
	"syscall"

	"github.com/cilium/ebpf/btf"
)

// kernelFunction is add_kfunc_call: it checks what the call of a function of the kernel refers to. No function of the emulated kernel
// is one that programs may call, so that a path that comes to the call is refused.
func (v *verifier) kernelFunction(i insn) error {
	const failed = "failed to find BTF for kernel function"
	spec := v.prog.sys.types.parsed()
	switch {
	case spec == nil:
		return v.refuse(errNotSupported, "calling kernel function is not supported without CONFIG_DEBUG_INFO_BTF")
	case !v.prog.gpl:
		return v.refuse(syscall.EINVAL, "cannot call kernel function from non-GPL compatible program")
	case i.imm == 0 && i.off == 0:
		return nil
	case i.off < 0:
		return errors.Join(v.refuse(syscall.EINVAL, "negative offset disallowed for kernel module function call"), v.refuse(syscall.EINVAL, failed))
	case i.off > 0 && !v.fdArray:
		return errors.Join(v.refuse(syscall.EPROTO, "kfunc offset > 0 without fd_array is invalid"), v.refuse(syscall.EPROTO, failed))
	case i.off > 0: // no module has types
		return errors.Join(v.refuse(syscall.EBADF, "invalid module BTF fd specified"), v.refuse(syscall.EBADF, failed))
	}
	if v.kernelFunctionName(i) == "" {
		return v.refuse(syscall.EINVAL, "kernel btf_id %d is not a function", uint32(i.imm))
	}
	return nil
}

// kernelFunctionName returns the name of the function of the kernel that is called, or "".
func (v *verifier) kernelFunctionName(i insn) string {
	spec := v.prog.sys.types.parsed()
	if spec == nil || i.imm == 0 {
		return ""
	}
	t, err := spec.TypeByID(btf.TypeID(i.imm))
	if err != nil {
		return ""
	}
	f, ok := t.(*btf.Func)
	if !ok {
		return ""
	}
	return f.Name
}
