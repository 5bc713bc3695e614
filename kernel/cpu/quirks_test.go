package cpu

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/record"
	"github.com/kprobefs/kprobefs/kernel/cpu/record/native"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// A quirk is something that processors do differently and that their manuals leave open, or
// settle each in its own way. The guest's processor is one of Intel's, as its cpuid says, and
// does what Intel's do. A processor that does it otherwise cannot be compared with the guest
// where the quirk matters.
type quirk struct {
	name string
	why  string
	// The case that shows it: an instruction, and what is set beside the registers that
	// begin has.
	code []byte
	set  func(*record.State)
	// see tells the one thing that differs. intel is what it gives for the guest and for a Xeon
	// (family 6, model 207); other is what another processor has been seen to do or what AMD's
	// manual says.
	see          func(sight) string
	intel, other string
	// concerns says whether an instruction, which the guest has executed, may depend on the
	// quirk.
	concerns func(executed) bool
}

// sight is the state after a quirk's case.
type sight struct {
	vector uint8
	cr2    uint64
	record.State
}

// executed is an instruction and what it ended with.
type executed struct {
	*decode.Inst
	bytes []byte
	exit  Exit
	sp    uint64
}

func (e executed) faulted() bool { return e.exit.Reason == Trap }

func (e executed) repeated() bool { return e.Flags&(decode.RepE|decode.RepNE) != 0 && isString(e.Code) }

const (
	highHalf = 0x3333333300000000
	nowhere  = 0x11555000 // and the page after it
)

var quirks = []quirk{
	{
		name: "REP with 32-bit addresses",
		why:  "Neither manual says whether rcx loses its upper half where no element is done. Intel's clear it before the first element, AMD's with it.",
		code: []byte{0xf2, 0x67, 0xa7},
		set:  func(s *record.State) { s.R[1], s.R[6], s.R[7] = highHalf|2, nowhere, nowhere+0x1000 },
		see:  func(s sight) string { return fmt.Sprintf("rcx %#x", s.R[1]) }, intel: "rcx 0x2", other: "rcx 0x3333333300000002",
		concerns: func(e executed) bool { return e.repeated() && e.Flags&decode.Addr32 != 0 },
	},
	{
		name: "F3 before 90 with REX.B",
		why:  "Intel's take it for PAUSE, AMD's for XCHG r8,rAX, as both do without F3.",
		code: []byte{0xf3, 0x41, 0x90},
		set:  func(s *record.State) { s.R[0], s.R[8] = 1, 2 },
		see:  func(s sight) string { return fmt.Sprintf("rax %#x", s.R[0]) }, intel: "rax 0x1", other: "rax 0x2",
		concerns: func(e executed) bool {
			b := afterLegacyPrefixes(e.bytes)
			return e.Code == decode.PAUSE && b[0]&0xf1 == 0x41
		},
	},
	{
		name: "F2 and F3 before LOOPE and LOOPNE",
		why:  "Both manuals give the prefixes no meaning there. AMD's take the condition from the prefix: REP LOOPNE is LOOPE.",
		code: []byte{0xf3, 0xe0, 0x10},
		set:  func(s *record.State) { s.R[1] = 5 },
		see:  func(s sight) string { return fmt.Sprintf("rip +%d", s.RIP-record.CodeAddr) }, intel: "rip +19", other: "rip +3",
		concerns: func(e executed) bool {
			return e.Code == decode.LOOP && (hasPrefix(e.bytes, 0xf2) || hasPrefix(e.bytes, 0xf3))
		},
	},
	{
		name: "66 before a near branch",
		why:  "Intel's ignore it in 64-bit mode, AMD's have a 16-bit RIP and displacement then, as each manual says.",
		code: []byte{0x66, 0xeb, 0x02},
		see:  func(s sight) string { return fmt.Sprintf("rip %#x", s.RIP) }, intel: "rip 0x20000105", other: "rip 0x105",
		concerns: func(e executed) bool {
			switch e.Code {
			case decode.JMP, decode.JCC, decode.CALL, decode.RET, decode.LOOP:
				return hasPrefix(e.bytes, 0x66)
			}
			return false
		},
	},
	{
		name: "MOVSXD to 16 bits",
		why:  "Intel's read 16 bits of memory, as their manual says, AMD's 32.",
		code: []byte{0x66, 0x63, 0x06},
		set:  func(s *record.State) { s.R[6] = record.PageAddr + record.PageSize - 2 },
		see:  func(s sight) string { return fmt.Sprintf("vector %d", s.vector) }, intel: "vector 255", other: "vector 14",
		concerns: func(e executed) bool { return e.Code == decode.MOVSX && e.W == 2 && afterPrefixes(e.bytes)[0] == 0x63 },
	},
	{
		name: "66 and F3 before 0F 38 F6",
		why:  "One makes it ADCX and one ADOX. With both Intel's execute ADOX, AMD's ADCX.",
		code: []byte{0x66, 0xf3, 0x0f, 0x38, 0xf6, 0xc1},
		set:  func(s *record.State) { s.R[0], s.R[1] = 0xffffffff, 1 },
		see:  func(s sight) string { return fmt.Sprintf("flags %#x", s.Flags) }, intel: "flags 0xa02", other: "flags 0x203",
		concerns: func(e executed) bool {
			return (e.Code == decode.ADCX || e.Code == decode.ADOX) && hasPrefix(e.bytes, 0x66) && hasPrefix(e.bytes, 0xf3)
		},
	},
	{
		name: "flags of a repeated comparison that faults",
		why:  "Intel's restore the flags from before the instruction, AMD's leave the last comparison's. Intel's manual says so (SDM volume 2, REP).",
		code: []byte{0xf3, 0xa7},
		set: func(s *record.State) {
			s.R[1], s.R[6], s.R[7] = 3, record.PageAddr+record.PageSize-4, record.WindowMid
			binary.LittleEndian.PutUint32(s.Mem[:], record.Filler*0x01010101)
		},
		see: func(s sight) string { return fmt.Sprintf("flags %#x", s.Flags) }, intel: "flags 0x202", other: "flags 0x246",
		concerns: func(e executed) bool {
			return e.faulted() && e.repeated() && (e.Code == decode.CMPS || e.Code == decode.SCAS)
		},
	},
	{
		name: "CALL to an address that is not canonical",
		why:  "It is refused with #GP. Intel's have written the return address by then, which their manual does not say.",
		code: []byte{0xff, 0xd0},
		set:  func(s *record.State) { s.R[0], s.R[4] = 1<<62, record.WindowMid+8 },
		see:  func(s sight) string { return fmt.Sprintf("stack %#x", binary.LittleEndian.Uint64(s.Mem[:])) }, intel: "stack 0x20000102", other: "stack 0x0",
		concerns: func(e executed) bool { return e.Code == decode.CALL && e.faulted() && e.exit.Vector == abi.VecGP },
	},
	{
		name: "CMPS with two operands that fault",
		why:  "Which of them is read first is each processor's own.",
		code: []byte{0xa7},
		set:  func(s *record.State) { s.R[6], s.R[7] = nowhere, nowhere+0x1000 },
		see:  func(s sight) string { return fmt.Sprintf("cr2 %#x", s.cr2) }, intel: "cr2 0x11556000", other: "cr2 0x11555000",
		concerns: func(e executed) bool { return e.faulted() && e.Code == decode.CMPS },
	},
	{
		name: "MOVS with two operands that fault",
		why:  "Which of them is accessed first is each processor's own.",
		code: []byte{0xa5},
		set:  func(s *record.State) { s.R[6], s.R[7] = nowhere, nowhere+0x1000 },
		see:  func(s sight) string { return fmt.Sprintf("cr2 %#x", s.cr2) }, intel: "cr2 0x11555000", other: "cr2 0x11556000",
		concerns: func(e executed) bool { return e.faulted() && e.Code == decode.MOVS },
	},
	{
		name: "a stack pointer that is not canonical",
		why:  "Some refuse to return to user mode with one, with #GP and before the first instruction.",
		code: []byte{0x90},
		set:  func(s *record.State) { s.R[4] = 1 << 62 },
		see:  func(s sight) string { return fmt.Sprintf("vector %d", s.vector) }, intel: "vector 255", other: "vector 13",
		concerns: func(e executed) bool { return !mem.Canonical(e.sp) },
	},
}

func (q *quirk) job() *native.Job {
	j := &native.Job{Code: q.code, Window: record.WindowMid}
	j.Before.R[4], j.Before.RIP, j.Before.Flags = record.WindowMid+64, record.CodeAddr, 0x202
	if q.set != nil {
		q.set(&j.Before)
	}
	return j
}

// onProcessor gives what the processor that the test runs on does.
func (q *quirk) onProcessor(t testing.TB, r *native.Runner) string {
	t.Helper()
	res, err := r.Run(q.job())
	if err != nil {
		t.Fatalf("%s: %v", q.name, err)
	}
	return q.see(sight{res.Vector, res.CR2, res.After})
}

// TestQuirks tries each quirk on the guest, which must do as Intel's do, and on this processor.
func TestQuirks(t *testing.T) {
	s := newStage(t)
	for i := range quirks {
		q := &quirks[i]
		j := q.job()
		s.begin(t, j)
		exit, n := s.cpu.Run(1)
		now := s.now()
		got := sight{vector: record.NoVector, State: record.State{R: now.R, RIP: now.RIP, Flags: now.Flags}}
		copy(got.Mem[:], now.Page[record.WindowMid-record.PageAddr:])
		if exit.Reason == Trap && n == 0 {
			got.vector, got.cr2 = exit.Vector, exit.Addr
		}
		if g := q.see(got); g != q.intel {
			t.Errorf("%s: the guest has %s, Intel's have %s. %s", q.name, g, q.intel, q.why)
		}
	}
	p := newPair(t)
	for i := range quirks {
		q := &quirks[i]
		switch got := q.onProcessor(t, p.r); got {
		case q.intel:
		case q.other:
			t.Logf("%s: this processor has %s, not %s; what depends on it is not compared", q.name, got, q.intel)
		default:
			t.Logf("%s: this processor has %s, neither %s nor %s; what depends on it is not compared", q.name, got, q.intel, q.other)
		}
		// On a processor that does it otherwise, the case is not compared.
		p.differing = []*quirk{q}
		if w, ok := p.walk(t, q.job()); ok && len(w.steps) > 0 {
			t.Errorf("%s: % x would be compared on a processor that has %s", q.name, q.code, q.other)
		}
	}
}

// concerned says whether an instruction depends on something that this processor does
// otherwise than the guest.
func (p *pair) concerned(e executed) bool {
	for _, q := range p.differing {
		if q.concerns(e) {
			return true
		}
	}
	return false
}

// afterLegacyPrefixes skips the prefixes of an instruction, but for REX.
func afterLegacyPrefixes(b []byte) []byte {
	for decode.IsPrefix(b[0]) && b[0]&0xf0 != 0x40 {
		b = b[1:]
	}
	return b
}
