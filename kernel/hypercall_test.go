package kernel

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// vmcallCode is a guest function that makes a hypercall: its five arguments are the
// number, the hypercall's arguments, and r10.
var vmcallCode = []byte{
	0x48, 0x89, 0xf8, // mov %rdi,%rax
	0x48, 0x89, 0xf7, // mov %rsi,%rdi
	0x48, 0x89, 0xd6, // mov %rdx,%rsi
	0x48, 0x89, 0xca, // mov %rcx,%rdx
	0x4d, 0x89, 0xc2, // mov %r8,%r10
	0x0f, 0x01, 0xc1, // vmcall
	0xc3,
}

// unmapped are addresses where the guest has nothing mapped: in the lower half, below
// the direct map, above it, in a guard page of the slots, and not canonical.
var unmapped = []uint64{0, 0x1000, 1<<47 - 8, 0xffff800000000000, 0xffffe8fffffff000, abi.SlotsBase + abi.PageSize, 0x8000000000000000, ^uint64(0)}

// TestHypercallPlace: a vmcall is a hypercall in core text only. Elsewhere it is an
// undefined instruction, and the task that executes it dies.
func TestHypercallPlace(t *testing.T) {
	m := boot(t, 1)
	ctx := context.Background()
	core := m.coreCode(vmcallCode...)
	if before, err := m.CallOn(ctx, 0, core, 1, abi.HCClock); err != nil || before == 0 || before > uint64(m.Now()) {
		t.Errorf("HCClock from core text: %d, %v; it is %d", before, err, m.Now())
	}
	task, err := m.Host().Kthread(ctx, "elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	slot := m.slotCode(vmcallCode...)
	var vector atomic.Uint32
	m.SetHandlers(Handlers{Fault: func(tr *abi.Trap) bool { vector.Store(uint32(tr.Vector)); return false }})
	if v, err := task.Func(ctx, slot, 1, abi.HCClock); !errors.Is(err, host.ErrDied) {
		t.Errorf("a vmcall in a slot: %#x, %v; want the death of the task", v, err)
	}
	if vector.Load() != abi.VecUD {
		t.Errorf("the probes were called with vector %d", vector.Load())
	}
	if log := m.logText(); !strings.Contains(log, "invalid opcode: 0000 [#1]") {
		t.Errorf("no oops for it:\n%s", log)
	}
	if v, err := m.CallOn(ctx, 0, core, 1, abi.HCClock); err != nil || v == 0 {
		t.Errorf("HCClock afterwards: %d, %v", v, err)
	}
}

// logText returns the kernel's log.
func (m *testMachine) logText() string {
	var b strings.Builder
	for _, r := range m.log.since(0) {
		b.WriteString(r.Text + "\n")
	}
	return b.String()
}

// TestHypercallRefusals checks the results of hypercalls with arguments that our guest
// never passes.
func TestHypercallRefusals(t *testing.T) {
	m := boot(t, 2)
	ctx := context.Background()
	page := m.page()
	call := m.coreCode(vmcallCode...)
	const text = abi.TextBase
	const vmallocEnd = 0xffffe90000000000
	_, next := m.log.Bounds()
	type row struct {
		name       string
		nr         uint64
		a, b, c, d uint64
		want       syscall.Errno
	}
	rows := []row{
		{"number 0", 0, 0, 0, 0, 0, syscall.ENOSYS},
		{"a gap", 26, 0, 0, 0, 0, syscall.ENOSYS},
		{"the first unused", max(uint64(len(hypercalls)), abi.HCRawTracepoint+1), 0, 0, 0, 0, syscall.ENOSYS},
		{"a negative number", 1 << 63, 0, 0, 0, 0, syscall.ENOSYS},
		{"a number that is one in 32 bits", 1<<32 | abi.HCClock, 0, 0, 0, 0, syscall.ENOSYS},
		{"printk across the end", abi.HCPrintk, ^uint64(0) - 3, 1024, 0, 0, syscall.EFAULT},
		{"a request to the disk across the end", abi.HCDisk, ^uint64(0) - 3, 0, 0, 0, syscall.EFAULT},
		{"a symbol that there is not", abi.HCSymbolAt, 1 << 40, page, page, 16, syscall.ENOENT},
		{"a symbol without room", abi.HCSymbolAt, 0, page, page, 0, syscall.ENOENT},
		{"a symbol into text", abi.HCSymbolAt, 0, page, text, 16, syscall.EFAULT},
		{"a symbol's address across the end", abi.HCSymbolAt, 0, ^uint64(0) - 3, page, 16, syscall.EFAULT},
		{"an IPI to nobody", abi.HCSendIPI, 2, abi.VecReschedule, 0, 0, syscall.EINVAL},
		{"an IPI to CPU -1", abi.HCSendIPI, ^uint64(0), abi.VecReschedule, 0, 0, syscall.EINVAL},
		{"an IPI that is an exception", abi.HCSendIPI, 0, 31, 0, 0, syscall.EINVAL},
		{"an IPI above 255", abi.HCSendIPI, 0, 256, 0, 0, syscall.EINVAL},
		{"an IPI that is one in 32 bits", abi.HCSendIPI, 0, 1<<32 | abi.VecReschedule, 0, 0, syscall.EINVAL},
		{"a CPU that runs is started", abi.HCStartCPU, 1, text, page, 0, syscall.EINVAL},
		{"no such CPU is started", abi.HCStartCPU, 2, text, page, 0, syscall.EINVAL},
		{"map nothing", abi.HCMap, abi.UserBase, 0, 0, 1, syscall.EINVAL},
		{"map off a page", abi.HCMap, abi.UserBase + 8, 0, 1, 1, syscall.EINVAL},
		{"map RAM off a page", abi.HCMap, abi.UserBase, 8, 1, 1, syscall.EINVAL},
		{"map over text", abi.HCMap, text, 0, 1, 1, syscall.EINVAL},
		{"map over slots", abi.HCMap, abi.SlotsBase, 0, 1, 1, syscall.EINVAL},
		{"map over the direct map", abi.HCMap, abi.DirectMap, 0, 1, 1, syscall.EINVAL},
		{"map text's RAM", abi.HCMap, abi.UserBase, text - abi.KernelBase, 1, 1, syscall.EINVAL},
		{"map up to text's RAM", abi.HCMap, abi.UserBase, text - abi.KernelBase - abi.PageSize, 2, 1, syscall.EINVAL},
		{"map the host's RAM", abi.HCMap, abi.UserBase, m.opts.RAM, 1, 1, syscall.EINVAL},
		{"map into the host's RAM", abi.HCMap, abi.UserBase, m.opts.RAM - abi.PageSize, 2, 1, syscall.EINVAL},
		{"map beyond RAM", abi.HCMap, abi.UserBase, 1 << 63, 1, 1, syscall.EINVAL},
		{"map so much that it wraps", abi.HCMap, abi.UserBase, 0, 1 << 52, 1, syscall.EINVAL},
		{"map past user space", abi.HCMap, 1<<47 - abi.PageSize, 0, 2, 1, syscall.EINVAL},
		{"map into the array of pages", abi.HCMap, vmemmapStart + abi.PageSize, 0, 1, 1, syscall.EINVAL},
		{"map past the array of pages", abi.HCMap, vmemmapStart, 0, m.opts.RAM/4096/64 + 2, 1, syscall.EINVAL},
		{"map past vmalloc", abi.HCMap, vmallocEnd - abi.PageSize, 0, 2, 1, syscall.EINVAL},
		{"map to execute", abi.HCMap, abi.UserBase, 0, 1, 2, syscall.EINVAL},
		{"map to write and execute", abi.HCMap, abi.UserBase, 0, 1, 3, syscall.EINVAL},
		{"unmap text", abi.HCUnmap, text, 1, 0, 0, syscall.EINVAL},
		{"unmap the direct map", abi.HCUnmap, page, 1, 0, 0, syscall.EINVAL},
		{"unmap nothing", abi.HCUnmap, abi.UserBase, 0, 0, 0, syscall.EINVAL},
		{"unmap so much that it wraps", abi.HCUnmap, abi.UserBase, 1 << 52, 0, 0, syscall.EINVAL},
		{"the next call of nobody", abi.HCNext, page, 0, 0, 0, syscall.EINVAL},
		{"the end of nobody's call", abi.HCDone, page, 0, 0, 0, syscall.EINVAL},
		{"a file operation of nobody's call", abi.HCFileOp, page, abi.OpRead, 0, 0, syscall.EINVAL},
		{"booted twice", abi.HCBooted, page, 3, 0, 0, syscall.EINVAL},
		{"registers that are off", abi.HCBug, page + 4, abi.BugOops, 0, 0, syscall.EFAULT},
		{"registers in text", abi.HCBug, text, abi.BugOops, 0, 0, syscall.EFAULT},
		{"the name of a symbol into text", abi.HCSymbol, text, text, 'S', 100, syscall.EFAULT},
		{"a request that nobody answers", abi.HCProbe, page, 0, 0, 0, syscall.ENOSYS},
	}
	for _, a := range unmapped {
		rows = append(rows,
			row{"printk", abi.HCPrintk, a, 8, 0, 0, syscall.EFAULT},
			row{"the end of a call", abi.HCDone, a, 0, 0, 0, syscall.EFAULT},
			row{"an oops", abi.HCBug, a, abi.BugFault, 0, 0, syscall.EFAULT},
			row{"the name of a symbol", abi.HCSymbol, text, a, 'S', 100, syscall.EFAULT},
		)
	}
	for _, r := range rows {
		v, err := m.CallOn(ctx, 0, call, 1, r.nr, r.a, r.b, r.c, r.d)
		if got := syscall.Errno(-int64(v)); err != nil || got != r.want {
			t.Errorf("%s (%d, %#x, %#x, %#x, %#x): %#x, %v; want %v", r.name, r.nr, r.a, r.b, r.c, r.d, v, err, r.want)
		}
	}
	if _, now := m.log.Bounds(); now != next {
		t.Errorf("the log has got %d records", now-next)
	}
}

// TestHypercallText checks that the log cuts a record to 1,024 bytes and corrects its
// level, and that a name is cut to its buffer.
func TestHypercallText(t *testing.T) {
	m := boot(t, 1)
	ctx := context.Background()
	page := m.page()
	call := m.coreCode(vmcallCode...)
	if err := m.Mem().WriteAt(page, []byte(strings.Repeat("x", abi.PageSize))); err != nil {
		t.Fatal(err)
	}
	_, next := m.log.Bounds()
	if v, err := m.CallOn(ctx, 0, call, 1, abi.HCPrintk, page, 1<<63, ^uint64(0)); v != 0 || err != nil {
		t.Fatalf("%#x, %v", v, err)
	}
	if r, ok, _, _ := m.log.Get(next); !ok || r.Text != strings.Repeat("x", maxText) || r.Level != 7 {
		t.Errorf("level %d, %d bytes (%v), want 7, %d", r.Level, len(r.Text), ok, maxText)
	}
	v, err := m.CallOn(ctx, 0, call, 1, abi.HCSymbol, m.symbol("vfs_read"), page, 'S', 5)
	b := make([]byte, 6)
	if e := m.Read(page, b); e != nil || err != nil || v != 5 || string(b) != "vfs_rx" {
		t.Errorf("%d, %v, %q", v, err, b)
	}
}

// TestCallbackRefusals checks that the probes' callbacks call no handler when the
// address is not a pt_regs or a record.
func TestCallbackRefusals(t *testing.T) {
	m := boot(t, 1)
	ctx := context.Background()
	page, call := m.page(), m.coreCode(vmcallCode...)
	for nr := uint64(abi.HCFunction); nr <= abi.HCGraphReturn; nr++ { // no handlers are set
		if nr > abi.HCRethook && nr < abi.HCGraphReturn {
			continue
		}
		if v, err := m.CallOn(ctx, 0, call, 1, nr, 0, 0, 0); v != 0 || err != nil {
			t.Errorf("callback %d without a handler: %#x, %v", nr, v, err)
		}
	}
	calls := 0
	count := func(*abi.Trap) { calls++ }
	m.SetHandlers(Handlers{Ftrace: count, Optimized: count, Rethook: count, Tracepoint: count})
	bad := append([]uint64{page + 4, abi.TextBase}, unmapped...)
	for _, a := range bad {
		for nr, args := range map[uint64][3]uint64{
			abi.HCOptimized: {0, a}, abi.HCFtrace: {0, 0, a}, abi.HCRethook: {a}, abi.HCTracepoint: {0, a, 16},
		} {
			if nr == abi.HCTracepoint && a == page+4 { // a record needs no alignment
				continue
			}
			v, err := m.CallOn(ctx, 0, call, 1, nr, args[0], args[1], args[2])
			if int64(v) != -int64(syscall.EFAULT) || err != nil {
				t.Errorf("callback %d on %#x: %#x, %v", nr, a, v, err)
			}
		}
	}
	for n, want := range map[uint64]syscall.Errno{0: syscall.EFAULT, maxRecord + 1: syscall.EINVAL, 1 << 63: syscall.EINVAL} {
		if v, err := m.CallOn(ctx, 0, call, 1, abi.HCTracepoint, 0, page, n); syscall.Errno(-int64(v)) != want || err != nil {
			t.Errorf("a record of %#x bytes: %#x, %v; want %v", n, v, err, want)
		}
	}
	if calls != 0 {
		t.Errorf("%d handlers were called", calls)
	}
	if _, err := m.CallOn(ctx, 0, call, 1, abi.HCTracepoint, 0, page, maxRecord); err != nil || calls != 1 {
		t.Errorf("%d handlers were called for a good record, %v", calls, err)
	}
}

// hostileCalls is how many calls TestHypercallHostile makes of each number.
const hostileCalls = 2000

// TestHypercallHostile makes every hypercall and callback with addresses of all
// kinds, extremes and random numbers as arguments, on a vCPU. That may break the
// guest, but the machine's Go code must neither panic nor wait, and Close must return.
func TestHypercallHostile(t *testing.T) {
	m := boot(t, 2)
	page := m.page()
	values := append([]uint64{
		1, 2, 4096, 1 << 31, 1 << 32, 1<<63 - 1, page, page + 4, page + abi.PageSize - 8, abi.TextBase, m.symbol("init_task"), abi.DirectMap,
		abi.DirectMap + m.mem.Size() - 8, abi.UserBase, m.opts.RAM,
	}, unmapped...)
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func() uint64 {
		if rnd.IntN(8) == 0 {
			return rnd.Uint64()
		}
		return values[rnd.IntN(len(values))]
	}
	rip := m.coreCode(vmcallCode...) + uint64(len(vmcallCode)) - 1
	done := make(chan int, 1)
	go m.tryOnVCPU(0, func(v *vcpu) {
		made := 0
		touch := func(tr *abi.Trap) { tr.Regs.AX++ }
		m.SetHandlers(Handlers{
			Ftrace: touch, Optimized: touch, Rethook: touch, GraphReturn: touch, Function: touch, Tracepoint: touch,
			Probe:  func(uint64, uint64, uint64) int64 { return 0 },
			Return: func(_, _, _ uint64) (shown, real uint64) { return pick(), pick() },
			Last:   func(uint64) bool { return rnd.IntN(8) == 0 },
		})
		for nr := range uint64(len(hypercalls) + 2) {
			if nr == abi.HCPanic {
				continue
			}
			for range hostileCalls {
				before := v.cpu.State
				v.cpu.RIP = rip
				for i := range v.cpu.R {
					if i != rsp {
						v.cpu.R[i] = pick()
					}
				}
				v.cpu.R[rax] = nr
				switch {
				case nr == abi.HCBug: // each one logs an oops with a stack
					v.cpu.R[rsi] %= 7
					m.randomRegs(rnd, page, pick)
				case nr == abi.HCSetTimer && v.cpu.R[rdi] != 0: // at once, or never
					v.cpu.R[rdi] |= 1 << 63
				}
				if !v.onCallback(m.handlers.Load()) {
					v.hypercall()
				}
				v.cpu.State = before
				made++
			}
		}
		done <- made
	})
	if made := within(t, "the hypercalls", done); made < hostileCalls*len(hypercalls) {
		t.Errorf("%d hypercalls were made", made)
	}
	closed := make(chan error, 1)
	go func() { closed <- m.Close() }()
	if err := within(t, "Close", closed); err != nil {
		t.Error(err)
	}
}

// randomRegs writes a pt_regs of such values at addr.
func (m *testMachine) randomRegs(rnd *rand.Rand, addr uint64, pick func() uint64) {
	for off := uint64(0); off < abi.RegsSize; off += 8 {
		_ = m.mem.WriteU64(addr+off, pick())
	}
	_ = m.mem.WriteU64(addr+abi.RegsCS, []uint64{abi.KernelCS, 0x33, rnd.Uint64()}[rnd.IntN(3)])
}

// TestHypercallPanic checks that a guest's panic stops the machine, even when its
// message cannot be read.
func TestHypercallPanic(t *testing.T) {
	for name, buf := range map[string]uint64{"at 0": 0, "not canonical": 1 << 63} {
		t.Run(name, func(t *testing.T) {
			m := boot(t, 2)
			call := m.coreCode(vmcallCode...)
			if _, err := m.CallOn(context.Background(), 0, call, 1, abi.HCPanic, buf, ^uint64(0)); !errors.Is(err, host.ErrStopped) {
				t.Errorf("the call ends with %v", err)
			}
			within(t, "the panic", m.Died())
			if m.Panic() != "(the message cannot be read)" {
				t.Errorf("it is %q", m.Panic())
			}
			if !strings.Contains(m.logText(), "Kernel panic - not syncing: (the message cannot be read)") {
				t.Errorf("the log is\n%s", m.logText())
			}
			if _, err := m.Call(context.Background(), "int_pow", 2, 3); !errors.Is(err, host.ErrStopped) {
				t.Errorf("a call after it: %v", err)
			}
		})
	}
}
