package mirror

import (
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/host"
)

// A program of bpf(2) can decide in place of one of the kernel's functions (BPF_MODIFY_RETURN): what it refuses fails in the guest before
// the guest has come to the host's part. The host's kernel then must not make the call.

// returned notes the result of the call in the guest.
func (w *Call) returned(ret int64) { w.ret.Store(ret) }

// noteRefusal notes that a program has left out a function of the guest.
func (w *Call) noteRefusal() { w.refused.Store(true) }

// refusal returns the error with which a program has refused the call, or 0. It is known once the call has returned in the guest.
func (w *Call) refusal() syscall.Errno {
	if !w.refused.Load() {
		return 0
	}
	return host.RefusedWith(w.ret.Load())
}

// refuse has a thread at the beginning of a call go on without it, if a program has refused the call. It returns false for others.
func (m *Mirror) refuse(t *tracee) bool {
	if t.call == nil || !t.call.ended.Load() || t.call.refusal() == 0 || setCall(t.tid, noCall) != nil {
		return false
	}
	t.skipped = true
	m.resume(t, 0)
	return true
}

// refusedCall handles the end of a call that refuse has left out.
func (m *Mirror) refusedCall(t *tracee) {
	t.skipped, t.tells = false, false
	if t.call != nil {
		_ = setResult(t.tid, t.call.ret.Load())
	}
	m.forgetCall(t)
	m.goOn(t)
}

// correct has a thread at the end of a call get the error with which a program has refused it after the host's kernel has made it.
func (t *tracee) correct() {
	if t.call != nil && !t.tells && t.call.ended.Load() && t.call.refusal() != 0 {
		_ = setResult(t.tid, t.call.ret.Load())
	}
}
