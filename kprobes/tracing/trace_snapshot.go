package tracing

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
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
	if err := a.snapshots.mayUse(); err != nil {
		return err
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
		a.snapshots.swap(cpu)
	default:
		if s := a.snapshots.buffer.Load(); s != nil {
			s.Reset(cpu)
		}
	}
	return nil
}

// snapshots is max_buffer: the buffer that an array's own is swapped with.
//
// Handlers swap, and ask which of the two has an entry, without a lock. All else is guarded by
// Tracer.mu: the buffer is replaced, and the other fields are used, only with it.
type snapshots struct {
	main    *ring.Buffer                // the array's own
	buffer  atomic.Pointer[ring.Buffer] // nil until it is allocated
	readers int                         // how many have snapshot open for reading
	held    bool                        // a histogram's action takes snapshots, which excludes other users
}

// alloc is tracing_arm_snapshot: it allocates the snapshot with the same sizes
// as the main buffer, unless it exists. cpus are the vCPUs that record; room is asked for the
// memory. The caller holds Tracer.mu.
func (s *snapshots) alloc(cpus []bool, room func(bytes int) error) error {
	b := s.buffer.Load()
	if err := room(s.main.Bytes() - b.Bytes()); err != nil {
		return err
	}
	if s.readers > 0 && (b == nil || b.TotalPages() != s.main.TotalPages()) {
		return fmt.Errorf("the snapshot is being read: %w", syscall.EBUSY)
	}
	if b == nil {
		b = ring.New(s.main.CPUs(), initialPages, s.main.PageBytes())
	}
	for cpu := range s.main.CPUs() {
		b.SetCPU(cpu, cpus[cpu])
		b.Resize(cpu, s.main.Pages(cpu))
	}
	s.buffer.Store(b)
	return nil
}

// swap is update_max_tr: it swaps the buffer and the snapshot, or only the
// pages of one vCPU unless cpu is -1. It runs in handler context. It returns false if
// there is no snapshot.
func (s *snapshots) swap(cpu int) bool {
	b := s.buffer.Load()
	if b == nil || s.main.Paused() {
		return false
	}
	if cpu >= 0 {
		s.main.SwapCPU(b, cpu)
	} else {
		s.main.Swap(b)
	}
	return true
}

// reservedIn returns the buffer in which an entry was reserved when the buffer had been
// swapped that many times: if a trigger of the same hit has swapped it since, the entry
// is in the snapshot. It runs in handler context.
func (s *snapshots) reservedIn(swaps uint32) *ring.Buffer {
	if b := s.buffer.Load(); b != nil && (s.main.Swaps()-swaps)&1 == 1 {
		return b
	}
	return s.main
}

// mayUse fails with EBUSY if a histogram's action takes snapshots. The caller holds Tracer.mu.
func (s *snapshots) mayUse() error {
	if s.held {
		return fmt.Errorf("a histogram takes snapshots: %w", syscall.EBUSY)
	}
	return nil
}

// allocSnapshot makes room for snapshots. The caller holds mu.
func (a *Array) allocSnapshot() error {
	return a.snapshots.alloc(a.cpumask, a.tracer.checkRoom)
}

// freeSnapshot is free_snapshot. The caller holds mu.
func (a *Array) freeSnapshot() {
	a.snapshots.buffer.Store(nil)
	a.tracer.conf.Limit.Freed()
}

// holdSnapshot is tracing_snapshot_cond_enable: from now on only a histogram's
// action takes snapshots. It fails with EBUSY if another one does. The caller holds mu.
func (a *Array) holdSnapshot() error {
	if err := a.snapshots.mayUse(); err != nil {
		return err
	}
	if err := a.allocSnapshot(); err != nil {
		return err
	}
	a.snapshots.held = true
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
	case a.snapshots.buffer.Load() == nil:
		to.putString(h, "*** SNAPSHOT NOT ALLOCATED ***\n")
		to.putString(h, "*** stopping trace here!   ***\n")
		to.buffer.SetOn(false)
	case cond || !a.snapshots.held:
		a.snapshots.swap(-1)
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
