package dynevent

import (
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
)

// releaseError returns the error as the release reports it.
func (r *Registry) releaseError(e probe.Reason) probe.Reason {
	switch {
	case r.conf.Has[release.MaxActiveExit] && e == errMaxActNoKprobe:
		e.Text = "Maxactive is only for function exit"
	case r.conf.Has[release.SymbolEINVAL] && e == errNonUniqSymbol:
		e.Errno = syscall.EINVAL
	}
	return r.conf.Rules.ReleaseReason(e)
}

// The reasons for which the place or the name of a probe is refused; package probe has
// those about names and arguments.
var (
	errMaxActNoKprobe  = probe.Reason{Text: "Maxactive is not for kprobe", Errno: syscall.EINVAL}
	errBadMaxAct       = probe.Reason{Text: "Invalid maxactive number", Errno: syscall.EINVAL}
	errMaxActTooBig    = probe.Reason{Text: "Maxactive is too big", Errno: syscall.EINVAL}
	errBadProbeAddr    = probe.Reason{Text: "Invalid probed address or symbol", Errno: syscall.EINVAL}
	errNoProbeAddr     = probe.Reason{Text: "Invalid probed address or symbol", Errno: syscall.ENOENT}
	errBadAddrSuffix   = probe.Reason{Text: "Invalid probed address suffix", Errno: syscall.EINVAL}
	errBadRetprobe     = probe.Reason{Text: "Retprobe address must be an function entry", Errno: syscall.EINVAL}
	errNonUniqSymbol   = probe.Reason{Text: "The symbol is not unique", Errno: syscall.EADDRNOTAVAIL}
	errDiffProbeType   = probe.Reason{Text: "Probe type is different from existing probe", Errno: syscall.EEXIST}
	errSameProbe       = probe.Reason{Text: "There is already the exact same probe event", Errno: syscall.EEXIST}
	errEventExists     = probe.Reason{Text: "Given group/event name is already used by another event", Errno: syscall.EEXIST}
	errBadInsnBoundary = probe.Reason{Text: "Probe point is not an instruction boundary", Errno: syscall.EILSEQ}
	errFailRegProbe    = probe.Reason{Text: "Failed to register probe event", Errno: syscall.EINVAL}
	errDiffArgType     = probe.Reason{Text: "Argument type or name is different from existing probe", Errno: syscall.EEXIST}
	errFileNotFound    = probe.Reason{Text: "Failed to find the given file", Errno: syscall.ENOENT}
	errNoRegularFile   = probe.Reason{Text: "Not a regular file", Errno: syscall.EINVAL}
	errBadUprobeOffs   = probe.Reason{Text: "Invalid uprobe offset", Errno: syscall.EINVAL}
	errBadRefCnt       = probe.Reason{Text: "Invalid reference counter offset", Errno: syscall.EINVAL}
	errRefCntOpen      = probe.Reason{Text: "Reference counter brace is not closed", Errno: syscall.EINVAL}
	errBadRefCntSuffix = probe.Reason{Text: "Reference counter has wrong suffix", Errno: syscall.EINVAL}
	errNoEventInfo     = probe.Reason{Text: "This requires both group and event name to attach", Errno: syscall.EINVAL}
	errBadAttachEvent  = probe.Reason{Text: "Attached event does not exist", Errno: syscall.ENODEV}
	errNoEventFilter   = probe.Reason{Text: "No filter rule after 'if'", Errno: syscall.EINVAL}
	errBadTPName       = probe.Reason{Text: "Invalid character in tracepoint name", Errno: syscall.EINVAL}
)
