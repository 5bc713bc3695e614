package perf

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Types of events.
const (
	TypeSoftware   = 1
	TypeTracepoint = 2

	SoftwareCPUClock        = 0  // PERF_COUNT_SW_CPU_CLOCK
	SoftwareTaskClock       = 1  // PERF_COUNT_SW_TASK_CLOCK
	SoftwareContextSwitches = 3  // PERF_COUNT_SW_CONTEXT_SWITCHES
	SoftwareDummy           = 9  // PERF_COUNT_SW_DUMMY
	SoftwareBPFOutput       = 10 // PERF_COUNT_SW_BPF_OUTPUT
	SoftwareMax             = 12 // PERF_COUNT_SW_MAX, since Linux 5.13
)

// Bits of Attr.SampleType.
const (
	sampleIP = 1 << iota
	sampleTID
	sampleTime
	sampleAddr
	sampleRead
	sampleCallchain
	sampleID
	sampleCPU
	samplePeriod
	sampleStreamID
	sampleRaw
	sampleBranchStack
	sampleRegsUser
	sampleStackUser
	sampleWeight
	sampleDataSrc
	sampleIdentifier
	sampleTransaction
	sampleRegsIntr
	samplePhysAddr
	sampleAux
	sampleCgroup
	sampleDataPageSize
	sampleCodePageSize
	sampleWeightStruct
	sampleMax
)

// Bits of Attr.ReadFormat.
const (
	formatEnabled = 1 << iota
	formatRunning
	formatID
	formatGroup
	formatLost
	formatMax
)

// Bits of Attr.Flags.
const (
	flagDisabled         = 1 << 0
	flagInherit          = 1 << 1
	flagPinned           = 1 << 2
	flagExclusive        = 1 << 3
	flagExcludeKernel    = 1 << 5
	flagComm             = 1 << 9
	flagFreq             = 1 << 10
	flagEnableOnExec     = 1 << 12
	flagTask             = 1 << 13
	flagWatermark        = 1 << 14
	flagSampleIDAll      = 1 << 18
	flagNoKernelChain    = 1 << 21
	flagNoUserChain      = 1 << 22
	flagUseClockID       = 1 << 25
	flagWriteBackward    = 1 << 27
	flagAuxOutput        = 1 << 31
	flagInheritThread    = 1 << 35
	flagRemoveOnExec     = 1 << 36
	flagSigtrap          = 1 << 37
	flagMax              = 1 << 38
	minAttr, ourAttr     = 64, 128 // PERF_ATTR_SIZE_VER0, PERF_ATTR_SIZE_VER7
	maxFrames            = 127     // kernel.perf_event_max_stack
	maxSampleRate        = 100000  // kernel.perf_event_max_sample_rate
	flagsThatNeedInherit = flagInheritThread
)

// Attr is struct perf_event_attr.
type Attr struct {
	Type       uint32
	Config     uint64
	Period     uint64 // or the frequency
	SampleType uint64
	ReadFormat uint64
	Flags      uint64
	Wakeup     uint32 // events or, with watermark, bytes
	ClockID    int32
	MaxStack   uint16
	Config1    uint64 // kprobe_func or uprobe_path: a pointer
	Config2    uint64 // kprobe_addr or probe_offset
	regsUser   uint64
	regsIntr   uint64
	stackUser  uint32
}

func (a *Attr) has(flag uint64) bool    { return a.Flags&flag != 0 }
func (a *Attr) samples(bit uint64) bool { return a.SampleType&bit != 0 }
func (a *Attr) sampling() bool          { return a.Period != 0 }
func (a *Attr) everyHit() bool          { return a.samples(samplePeriod) || a.Period == 1 || a.has(flagFreq) }
func (a *Attr) frames() int             { return int(a.MaxStack) }
func (a *Attr) wantsChain() bool        { return a.samples(sampleCallchain) && !a.has(flagNoKernelChain) }

func (a *Attr) wantsUserChain() bool       { return a.samples(sampleCallchain) && !a.has(flagNoUserChain) }
func (a *Attr) excludesKernel() bool       { return a.has(flagExcludeKernel) }
func (a *Attr) clock() (id int32, ok bool) { return a.ClockID, a.has(flagUseClockID) }

// AttrSize returns how many bytes an attr has whose first ones are head: perf_copy_attr. It
// fails with E2BIG if that is no possible size; the caller is then told ourAttr.
func AttrSize(head []byte) (int, error) {
	size := int(binary.LittleEndian.Uint32(head[4:]))
	if size == 0 {
		size = minAttr
	}
	if size < minAttr || size > abi.PageSize {
		return ourAttr, fmt.Errorf("an attr of %d bytes: %w", size, syscall.E2BIG)
	}
	return size, nil
}

// KnownAttr is the size of an attr whose bytes are all known.
const KnownAttr = ourAttr

// ParseAttr reads an attr. It fails with E2BIG if a field is set that is not known, and
// with EINVAL for values that no event can have.
func ParseAttr(b []byte) (a Attr, err error) {
	if len(b) < minAttr {
		return a, fmt.Errorf("an attr of %d bytes: %w", len(b), syscall.EINVAL)
	}
	for _, c := range b[min(len(b), ourAttr):] {
		if c != 0 {
			return a, fmt.Errorf("a field after attr's: %w", syscall.E2BIG)
		}
	}
	var all [ourAttr]byte
	copy(all[:], b)
	le := binary.LittleEndian
	a = Attr{
		Type: le.Uint32(all[0:]), Config: le.Uint64(all[8:]), Period: le.Uint64(all[16:]), SampleType: le.Uint64(all[24:]),
		ReadFormat: le.Uint64(all[32:]), Flags: le.Uint64(all[40:]), Wakeup: le.Uint32(all[48:]),
		regsUser: le.Uint64(all[80:]), stackUser: le.Uint32(all[88:]), regsIntr: le.Uint64(all[96:]), ClockID: int32(le.Uint32(all[92:])), MaxStack: le.Uint16(all[108:]),
		Config1: le.Uint64(all[56:]), Config2: le.Uint64(all[64:]),
	}
	bad := func(what string) (Attr, error) { return a, fmt.Errorf("attr: %s: %w", what, syscall.EINVAL) }
	switch {
	case a.Flags >= flagMax || le.Uint16(all[110:]) != 0 || le.Uint32(all[116:]) != 0:
		return bad("a reserved bit")
	case a.SampleType >= sampleMax || a.ReadFormat >= formatMax:
		return bad("an unknown sample type or read format")
	case a.has(flagsThatNeedInherit) && !a.has(flagInherit), a.has(flagRemoveOnExec) && a.has(flagEnableOnExec):
		return bad("flags that exclude each other")
	case a.has(flagSigtrap):
		return bad("a signal, which nobody here sends")
	case a.samples(sampleBranchStack) && le.Uint64(all[72:])&^7 == 0: // no kind of branches but user, kernel, hypervisor
		return bad("no branches")
	case a.has(flagAuxOutput):
		return a, fmt.Errorf("attr: aux output: %w", syscall.EOPNOTSUPP)
	case a.samples(sampleBranchStack | sampleAux):
		return a, fmt.Errorf("attr: a sample of a processor's own: %w", syscall.EOPNOTSUPP)
	case a.has(flagInherit) && a.samples(sampleRead):
		return bad("an inherited event has no read values")
	case a.has(flagFreq) && a.Period > maxSampleRate, a.Period>>63 != 0:
		return bad("period")
	case a.samples(sampleCallchain) && a.MaxStack > maxFrames:
		return a, fmt.Errorf("attr: a stack of %d: %w", a.MaxStack, syscall.EOVERFLOW)
	case a.samples(sampleRegsUser) && !regsKnown(a.regsUser), a.samples(sampleRegsIntr) && !regsKnown(a.regsIntr):
		return bad("registers")
	case a.samples(sampleStackUser) && (a.stackUser%8 != 0 || a.stackUser >= 1<<16-1):
		return bad("user stack")
	case a.samples(sampleWeight) && a.samples(sampleWeightStruct):
		return bad("two weights")
	case a.has(flagUseClockID) && !clockKnown(a.ClockID):
		return bad("clock")
	}
	if a.MaxStack == 0 {
		a.MaxStack = maxFrames
	}
	return a, nil
}

// regsKnown is perf_reg_validate of x86-64: there are some, and not ds, es, fs and gs.
func regsKnown(mask uint64) bool {
	const segments, none = 0xf << 12, 0xff << 24
	return mask != 0 && mask&(segments|none) == 0
}

// clockKnown reports whether samples may have the time of a clock: the monotonic ones, real
// time, boot time and TAI.
func clockKnown(id int32) bool {
	const monotonic, raw, realtime, boottime, tai = 1, 4, 0, 7, 11
	return id == monotonic || id == raw || id == realtime || id == boottime || id == tai
}
