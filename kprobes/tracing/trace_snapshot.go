package tracing

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/cmdlines"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

// Snapshot starts to read the file snapshot of one vCPU, or of all if cpu is -1.
func (a *Array) Snapshot(cpu int) *TraceReader {
	r := a.Trace(cpu)
	r.ofSnapshot = true
	return r
}

// snapshotText is print_snapshot_help: the text of snapshot while there is none.
func (t *Tracer) snapshotText(allocated bool, cpu int) string {
	state := "freed"
	if allocated {
		state = "allocated"
	}
	text := "#\n# * Snapshot is " + state + " *\n#\n# Snapshot commands:\n"
	if cpu >= 0 {
		one := "# echo 1 > snapshot : Not supported with this kernel.\n" +
			"#                     Must use main snapshot file to allocate.\n"
		if !t.conf.has[release.NoCPUSnapshots] {
			one = "# echo 1 > snapshot : Allocates snapshot buffer, if not already allocated.\n" +
				"#                      Takes a snapshot of the main buffer for this cpu.\n"
		}
		return text + "# echo 0 > snapshot : Invalid for per_cpu snapshot file.\n" + one +
			"# echo 2 > snapshot : Clears this cpu's snapshot buffer (but does not allocate)\n" +
			"#                      (Doesn't have to be '2' works with any number that\n" +
			"#                       is not a '0' or '1')\n"
	}
	return text + "# echo 0 > snapshot : Clears and frees snapshot buffer\n" +
		"# echo 1 > snapshot : Allocates snapshot buffer, if not already allocated.\n" +
		"#                      Takes a snapshot of the main buffer.\n" +
		"# echo 2 > snapshot : Clears snapshot buffer (but does not allocate or free)\n" +
		"#                      (Doesn't have to be '2' works with any number that\n" +
		"#                       is not a '0' or '1')\n"
}

// WriteSnapshot handles a write to snapshot: 1 swaps the buffer with the snapshot,
// which is allocated if necessary, 0 frees it, any other number empties it. It fails
// with EINVAL if data is not a number, or if it is 0 (or 1, with release.NoCPUSnapshots) for a
// single vCPU, with EBUSY if snapshot is being read or a histogram's action uses it,
// and with ENOMEM.
func (a *Array) WriteSnapshot(cpu int, data []byte) error {
	v, err := kstrtox.FromUser(data)
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	if err := a.expandFor(v != 0); err != nil {
		return err
	}
	if a.condSnapshot {
		return fmt.Errorf("a histogram takes snapshots: %w", syscall.EBUSY)
	}
	if v < 2 && cpu >= 0 && (v == 0 || a.tracer.conf.has[release.NoCPUSnapshots]) {
		return fmt.Errorf("snapshot of one vCPU: %w", syscall.EINVAL)
	}
	switch v {
	case 0:
		a.freeSnapshot()
	case 1:
		if err := a.allocSnapshot(); err != nil {
			return err
		}
		a.swapSnapshot(cpu)
	default:
		if s := a.snapshot.Load(); s != nil {
			s.Reset(cpu)
		}
	}
	return nil
}

// allocSnapshot is tracing_arm_snapshot: it allocates the snapshot with the same sizes
// as the main buffer, unless it exists. The caller holds mu.
func (a *Array) allocSnapshot() error {
	s := a.snapshot.Load()
	if err := a.tracer.checkRoom(a.buffer.Bytes() - s.Bytes()); err != nil {
		return err
	}
	if a.snapshotReaders > 0 && (s == nil || s.TotalPages() != a.buffer.TotalPages()) {
		return fmt.Errorf("the snapshot is being read: %w", syscall.EBUSY)
	}
	if s == nil {
		s = ring.New(a.buffer.CPUs(), initialPages, a.buffer.PageBytes())
	}
	for cpu := range a.buffer.CPUs() {
		s.SetCPU(cpu, a.cpumask[cpu])
		s.Resize(cpu, a.buffer.Pages(cpu))
	}
	a.snapshot.Store(s)
	return nil
}

// freeSnapshot is free_snapshot. The caller holds mu.
func (a *Array) freeSnapshot() {
	a.snapshot.Store(nil)
	a.tracer.conf.Limit.Freed()
}

// swapSnapshot is update_max_tr: it swaps the buffer and the snapshot, or only the
// pages of one vCPU unless cpu is -1. It runs in handler context. It returns false if
// there is no snapshot.
func (a *Array) swapSnapshot(cpu int) bool {
	s := a.snapshot.Load()
	if s == nil || a.buffer.Paused() {
		return false
	}
	if cpu >= 0 {
		a.buffer.SwapCPU(s, cpu)
	} else {
		a.buffer.Swap(s)
	}
	return true
}

// reservedIn returns the buffer in which an entry was reserved when the buffer had been
// swapped that many times: if a trigger of the same hit has swapped it since, the entry
// is in the snapshot.
func (a *Array) reservedIn(swaps uint32) *ring.Buffer {
	if s := a.snapshot.Load(); s != nil && (a.buffer.Swaps()-swaps)&1 == 1 {
		return s
	}
	return a.buffer
}

// condSnapshotEnable is tracing_snapshot_cond_enable: from now on only a histogram's
// action takes snapshots. It fails with EBUSY if another one does. The caller holds mu.
func (a *Array) condSnapshotEnable() error {
	if a.condSnapshot {
		return fmt.Errorf("a histogram takes snapshots: %w", syscall.EBUSY)
	}
	if err := a.allocSnapshot(); err != nil {
		return err
	}
	a.condSnapshot = true
	return nil
}

// snapshotHit is the hit at which a snapshot is taken.
type snapshotHit struct {
	trap *abi.Trap
	held bool // the entry of the hit is reserved, with preemption off
}

// takeSnapshot is tracing_snapshot_instance_cond: it takes a snapshot for a trigger or
// a command, or, with cond, for a histogram's action. It runs in handler context. If
// the snapshot buffer was freed, recording stops; an int3's handler cannot take a
// snapshot.
func (a *Array) takeSnapshot(h snapshotHit, cond bool) {
	to := a // the array that gets the messages
	if !a.tracer.conf.has[release.SnapshotSaysInArray] {
		to = a.tracer.global
	}
	switch {
	case h.trap.Preempt&abi.NMIMask != 0:
		to.putString(h, "*** SNAPSHOT CALLED FROM NMI CONTEXT ***\n")
		to.putString(h, "*** snapshot is being ignored        ***\n")
	case a.snapshot.Load() == nil:
		to.putString(h, "*** SNAPSHOT NOT ALLOCATED ***\n")
		to.putString(h, "*** stopping trace here!   ***\n")
		to.buffer.SetOn(false)
	case cond || !a.condSnapshot:
		a.swapSnapshot(-1)
	}
}

// putString is __trace_array_puts: it writes an entry print of the kernel's own. It
// runs in handler context.
func (a *Array) putString(h snapshotHit, text string) {
	t, trap := a.tracer, h.trap
	if !a.has(optPrintk) || !a.recording() {
		return
	}
	en := t.newEntry(trap, typePrint)
	if en == nil {
		return
	}
	defer t.discard(trap)
	en.Buf[2], en.Buf[3] = t.traceContextHere(trap)
	if h.held && t.conf.has[release.PreemptCount] {
		en.Buf[3]++
	}
	en.Word(snapshotIP)
	en.N += copy(en.Buf[en.N:], text)
	en.Buf[en.N] = 0
	en.N++
	pid := cmdlines.PID(trap)
	binary.LittleEndian.PutUint32(en.Buf[4:], uint32(pid))
	if a.buffer.Commit(trap.CPU, a.clock.Load().read(t, trap.Now()), en.Buf[:en.N]) && t.savesNames.Load() {
		a.saveName(trap)
	}
}
