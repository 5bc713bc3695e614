package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// fakeGuest replaces the guest's kernel by one goroutine: RAM is a slice, tasks are
// numbered, and system calls only call the file operation.
type fakeGuest struct {
	t    *testing.T
	h    *Host
	ram  []byte
	wake chan struct{}
	next uint64 // address of the next host_call

	mu   sync.Mutex
	maps map[uint64]uint64 // user page to physical page

	doneMu sync.Mutex // guards CallOpDone, which a guest reads with an acquire load

	waiting map[uint64]bool // tasks in a file operation, by task
	dead    bool            // a task has died, which has ended its call
	before  func(nr uint64) (ret int64, stop bool)
	stuck   sync.Map // tasks that do not continue, by task
}

const (
	fakeRAM  = 8 << 20
	fakeCall = 0x1000
)

func newFakeGuest(t *testing.T) *fakeGuest {
	g := &fakeGuest{
		t: t, ram: make([]byte, fakeRAM), wake: make(chan struct{}, 1),
		maps: map[uint64]uint64{}, waiting: map[uint64]bool{}, next: fakeCall,
	}
	g.h = New(g, NewPool(fakeRAM/2, fakeRAM/2/abi.PageSize))
	g.h.Booted([]uint64{g.newTask()})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { g.run(stop) })
	t.Cleanup(func() { g.h.Stop(); close(stop); wg.Wait() })
	return g
}

func (g *fakeGuest) newTask() uint64 {
	call := abi.DirectMap + g.next
	g.next += abi.CallSize
	_ = g.WriteU64(call+abi.CallTask, call) // used as the task_struct's address
	return call
}

// Borrow lends nothing: the fake guest runs in a goroutine of its own.
func (g *fakeGuest) Borrow(uint64, int, int, bool) (VCPU, bool) { return nil, false }

func (g *fakeGuest) run(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-g.wake:
		}
		for task := g.h.PopWake(); task != 0; task = g.h.PopWake() {
			g.schedule(task)
		}
	}
}

func (g *fakeGuest) u64(addr uint64) uint64 {
	v, _ := g.ReadU64(addr)
	return v
}

// schedule lets a task continue: to the end of its call if its file operation is
// done, or with the next call.
func (g *fakeGuest) schedule(call uint64) {
	if _, stuck := g.stuck.Load(call); stuck {
		return
	}
	if g.waiting[call] {
		if !g.opDone(call) {
			return // woken for another reason
		}
		g.waiting[call] = false
		g.finishOp(call)
	}
	for g.h.Next(call) == 1 {
		if !g.syscall(call) {
			return
		}
	}
}

// syscall runs a system call and reports whether it has returned.
func (g *fakeGuest) syscall(call uint64) bool {
	nr := g.u64(call + abi.CallNr)
	if g.before != nil {
		if ret, stop := g.before(nr); stop {
			if nr != abi.SysExitGroup { // which does not return
				g.done(call, ret)
			}
			return true
		}
	}
	switch nr {
	case abi.HostNewTask:
		g.done(call, int64(g.newTask()))
	case abi.HostCallFunc:
		g.done(call, int64(g.u64(call+abi.CallArgs+8)+g.u64(call+abi.CallCount)))
	case abi.SysRead, abi.SysWrite:
		count := g.u64(call + abi.CallArgs + 16)
		op := uint64(abi.OpRead)
		if nr == abi.SysWrite {
			op = abi.OpWrite
			copy(g.phys(g.u64(call+abi.CallBuf)), g.user(g.u64(call+abi.CallArgs+8), count))
		}
		_ = g.WriteU64(call+abi.CallOpArg, count)
		_ = g.WriteAt(call+abi.CallOpDone, make([]byte, 4))
		if ret := g.h.StartFileOp(call, op, WaitNot); ret != 0 {
			g.done(call, ret)
			return true
		}
		g.waiting[call] = true
		return false
	default:
		g.done(call, -int64(syscall.ENOSYS))
	}
	return true
}

func (g *fakeGuest) finishOp(call uint64) {
	ret := int64(g.u64(call + abi.CallOpRet))
	if g.u64(call+abi.CallNr) == abi.SysRead && ret > 0 {
		copy(g.user(g.u64(call+abi.CallArgs+8), uint64(ret)), g.phys(g.u64(call+abi.CallBuf)))
	}
	g.done(call, ret)
}

func (g *fakeGuest) done(call uint64, ret int64) {
	_ = g.WriteU64(call+abi.CallRet, uint64(ret))
	if r := g.h.Done(call); r != 0 && !g.dead {
		g.t.Errorf("Done gave %d", r)
	}
}

// user returns n bytes of user memory, which must be mapped contiguously.
func (g *fakeGuest) user(va, n uint64) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	pa, ok := g.maps[va&^(abi.PageSize-1)]
	if !ok {
		g.t.Errorf("user address %#x is not mapped", va)
		return nil
	}
	return g.ram[pa : pa+n]
}

func (g *fakeGuest) phys(direct uint64) []byte { return g.ram[direct-abi.DirectMap:] }

func (g *fakeGuest) ReadAt(addr uint64, p []byte) error { copy(p, g.phys(addr)); return nil }
func (g *fakeGuest) WriteAt(addr uint64, p []byte) error {
	g.doneMu.Lock()
	defer g.doneMu.Unlock()
	copy(g.phys(addr), p)
	return nil
}

// opDone reports whether the file operation that a task sleeps in is done.
func (g *fakeGuest) opDone(call uint64) bool {
	g.doneMu.Lock()
	defer g.doneMu.Unlock()
	return binary.LittleEndian.Uint32(g.phys(call+abi.CallOpDone)) != 0
}

func (g *fakeGuest) ReadU64(addr uint64) (uint64, error) {
	g.doneMu.Lock()
	defer g.doneMu.Unlock()
	return binary.LittleEndian.Uint64(g.phys(addr)), nil
}

func (g *fakeGuest) WriteU64(addr, v uint64) error {
	binary.LittleEndian.PutUint64(g.phys(addr), v)
	return nil
}
func (g *fakeGuest) Phys(pa, n uint64) []byte { return g.ram[pa : pa+n] }
func (g *fakeGuest) MapUser(va, pa, pages uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range pages {
		g.maps[va+i*abi.PageSize] = pa + i*abi.PageSize
	}
	return nil
}

func (g *fakeGuest) UnmapUser(va, pages uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range pages {
		delete(g.maps, va+i*abi.PageSize)
	}
}

func (g *fakeGuest) Wake() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

func caller(tid int) Caller {
	return Caller{TID: tid, PID: tid, Comm: func() string { return "sh" }}
}

func TestRead(t *testing.T) {
	g := newFakeGuest(t)
	read := func(_ context.Context, op Op) (int, error) {
		return copy(op.Buf, fmt.Sprintf("op %d count %d", op.Kind, len(op.Buf))), nil
	}
	for _, count := range []int{100, 5000, 200000, 64} {
		ret, out, err := g.h.Do(t.Context(), caller(7), Call{Nr: abi.SysRead, Count: count}, read)
		want := fmt.Sprintf("op %d count %d", abi.OpRead, count)
		if err != nil || string(out) != want || ret != int64(len(want)) {
			t.Errorf("read(%d) gave %d %q %v, want %q", count, ret, out, err, want)
		}
	}
}

func TestReadCutToCount(t *testing.T) {
	g := newFakeGuest(t)
	read := func(context.Context, Op) (int, error) { return 9000, nil }
	ret, out, err := g.h.Do(t.Context(), caller(7), Call{Nr: abi.SysRead, Count: 10}, read)
	if err != nil || ret != 10 || len(out) != 10 {
		t.Errorf("an operation that claims too much: %d, %d bytes, %v", ret, len(out), err)
	}
}

func TestWrite(t *testing.T) {
	g := newFakeGuest(t)
	var got string
	write := func(_ context.Context, op Op) (int, error) {
		got = fmt.Sprint(op.Kind, string(op.Buf))
		return len(op.Buf), nil
	}
	ret, _, err := g.h.Do(t.Context(), caller(7), Call{Nr: abi.SysWrite, Data: []byte("p vfs_read")}, write)
	if want := fmt.Sprint(abi.OpWrite, "p vfs_read"); err != nil || ret != 10 || got != want {
		t.Errorf("write gave %d %v, the operation got %q, want %q", ret, err, got, want)
	}
}

func TestErrnos(t *testing.T) {
	g := newFakeGuest(t)
	read := func(context.Context, Op) (int, error) { return 0, fmt.Errorf("not there: %w", syscall.ENOENT) }
	ret, _, err := g.h.Do(t.Context(), caller(7), Call{Nr: abi.SysRead, Count: 1}, read)
	if err != nil || ret != -int64(syscall.ENOENT) {
		t.Errorf("an operation's ENOENT came as %d, %v", ret, err)
	}
	g.before = func(nr uint64) (int64, bool) { return -int64(syscall.EIO), nr == abi.SysRead }
	ret, _, err = g.h.Do(t.Context(), caller(7), Call{Nr: abi.SysRead, Count: 1}, func(context.Context, Op) (int, error) {
		t.Error("the operation ran although the guest returned before it")
		return 0, nil
	})
	if err != nil || ret != -int64(syscall.EIO) {
		t.Errorf("the guest's own -EIO came as %d, %v", ret, err)
	}
}

// TestSleepers: calls that sleep in a file operation do not block others, even if the
// callers cannot be told apart.
func TestSleepers(t *testing.T) {
	g := newFakeGuest(t)
	release := make(chan struct{})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, _, err := g.h.Do(t.Context(), Caller{}, Call{Nr: abi.SysRead, Count: 1}, func(_ context.Context, op Op) (int, error) {
				<-release
				return copy(op.Buf, "x"), nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	ret, _, err := g.h.Do(t.Context(), Caller{}, Call{Nr: abi.SysRead, Count: 1}, func(_ context.Context, op Op) (int, error) {
		return copy(op.Buf, "y"), nil
	})
	if err != nil || ret != 1 {
		t.Errorf("a call beside sleepers gave %d, %v", ret, err)
	}
	close(release)
	wg.Wait()
}

// TestManyThreads has more callers than tasks are kept for. The latest ones keep their buffers.
func TestManyThreads(t *testing.T) {
	g := newFakeGuest(t)
	for tid := range 2 * maxTasks {
		ret, out, err := g.h.Do(t.Context(), caller(1000+tid), Call{Nr: abi.SysRead, Count: 8}, func(_ context.Context, op Op) (int, error) {
			return copy(op.Buf, "ok"), nil
		})
		if err != nil || ret != 2 || string(out) != "ok" {
			t.Fatalf("thread %d: %d %q %v", tid, ret, out, err)
		}
	}
	buffered := func() (idle, buffered int) {
		g.h.mu.Lock()
		defer g.h.mu.Unlock()
		for _, task := range g.h.idle {
			if task.hasBuffers() {
				buffered++
			}
		}
		return len(g.h.idle), buffered
	}
	idle, n := buffered()
	for begin := time.Now(); n > maxBuffers && time.Since(begin) < endOfTest; idle, n = buffered() {
		time.Sleep(time.Millisecond)
	}
	if idle != maxTasks || n != maxBuffers {
		t.Errorf("%d tasks are idle, %d of them have buffers; want %d and %d", idle, n, maxTasks, maxBuffers)
	}
}

func TestFuncAndStop(t *testing.T) {
	g := newFakeGuest(t)
	task, err := g.h.Kthread(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := task.Func(t.Context(), 0xffffffff81000000, 3, 39); err != nil || got != 42 {
		t.Errorf("Func gave %d, %v", got, err)
	}
	if _, err := task.Func(t.Context(), 1, 1, 1, 2, 3, 4, 5, 6); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("six arguments gave %v, want EINVAL", err)
	}
	g.h.Stop()
	if _, _, err := g.h.Do(t.Context(), caller(1), Call{Nr: abi.SysRead}, nil); !errors.Is(err, ErrStopped) {
		t.Errorf("a call after Stop gave %v", err)
	}
}

// TestAbandoned interrupts a call that the guest does not finish. When it does
// finish, its task is reused.
func TestAbandoned(t *testing.T) {
	g := newFakeGuest(t)
	stuck := make(chan struct{})
	g.before = func(nr uint64) (int64, bool) {
		if nr == abi.SysGetdents64 {
			<-stuck
		}
		return 0, nr == abi.SysGetdents64
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := g.h.Do(ctx, caller(3), Call{Nr: abi.SysGetdents64, Count: 8}, nil)
	if !errors.Is(err, syscall.EINTR) {
		t.Errorf("a call to a guest that is stuck gave %v, want EINTR", err)
	}
	close(stuck)
	ret, _, err := g.h.Do(t.Context(), caller(3), Call{Nr: abi.SysGetdents64, Count: 8}, nil)
	if err != nil || ret != 0 {
		t.Errorf("the next call gave %d, %v", ret, err)
	}
}

func TestTaskDied(t *testing.T) {
	g := newFakeGuest(t)
	ret, _, err := g.h.Do(t.Context(), caller(5), Call{Nr: abi.SysRead, Count: 1}, func(context.Context, Op) (int, error) {
		g.dead = true
		g.h.TaskDied(g.next - abi.CallSize + abi.DirectMap)
		return 0, nil
	})
	if err != nil || ret != -int64(syscall.EIO) {
		t.Errorf("a call whose task died gave %d, %v, want -EIO", ret, err)
	}
}

// TestExit: Exit returns when the task has left its CPU, not when the call ends.
func TestExit(t *testing.T) {
	g := newFakeGuest(t)
	read := func(context.Context, Op) (int, error) { return 0, nil }
	if _, _, err := g.h.Do(t.Context(), caller(5), Call{Nr: abi.SysRead, Count: 1}, read); err != nil {
		t.Fatal(err)
	}
	task := g.next - abi.CallSize + abi.DirectMap
	done := make(chan struct{})
	g.before = func(nr uint64) (int64, bool) {
		if nr == abi.SysExitGroup {
			close(done)
		}
		return 0, nr == abi.SysExitGroup
	}
	var died atomic.Bool
	go func() {
		<-done
		time.Sleep(10 * time.Millisecond) // the task is before its last call of schedule
		died.Store(true)
		g.h.TaskDied(task)
	}()
	if err := g.h.Exit(t.Context(), caller(5), 0); err != nil || !died.Load() {
		t.Errorf("Exit returned with %v; the task had ended: %v", err, died.Load())
	}
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	if n := len(g.h.ends); n != 0 {
		t.Errorf("%d exits are still pending", n)
	}
}

// TestExitAfterCall: if a thread ends while its last call, a close without a waiter,
// is pending, the exit uses that call's task.
func TestExitAfterCall(t *testing.T) {
	g := newFakeGuest(t)
	inCall, closed := make(chan struct{}), make(chan struct{})
	read := func(context.Context, Op) (int, error) {
		close(inCall)
		<-closed
		return 0, nil
	}
	done := make(chan error)
	go func() {
		_, _, err := g.h.Do(t.Context(), caller(5), Call{Nr: abi.SysRead, Count: 1}, read)
		done <- err
	}()
	<-inCall
	task := g.next - abi.CallSize + abi.DirectMap
	g.before = func(nr uint64) (int64, bool) {
		if nr == abi.SysExitGroup {
			go g.h.TaskDied(task)
		}
		return 0, nr == abi.SysExitGroup
	}
	gone := Caller{TID: 5, PID: 5, Comm: func() string {
		t.Error("a thread that is known was asked for its name")
		return ""
	}}
	go func() {
		waits := func() bool {
			g.h.mu.Lock()
			defer g.h.mu.Unlock()
			return g.h.unheld != nil
		}
		for end := time.Now().Add(time.Second); !waits() && time.Now().Before(end); {
			runtime.Gosched()
		}
		close(closed)
	}()
	if err := g.h.Exit(t.Context(), gone, 0); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	if len(g.h.held) != 0 || len(g.h.idle) != 0 {
		t.Errorf("%d tasks are in calls, %d wait for one", len(g.h.held), len(g.h.idle))
	}
}

// TestStuckManager: if khostd does not answer, tasks are created by another thread,
// and the request to khostd is withdrawn.
func TestStuckManager(t *testing.T) {
	g := newFakeGuest(t)
	g.stuck.Store(g.h.manager.task, true)
	g.h.mu.Lock()
	makers := []*Task{g.h.add(g.newTask()), g.h.add(g.newTask())}
	g.h.mu.Unlock()
	g.stuck.Store(makers[0].task, true)
	g.h.SetMakers(makers)
	read := func(_ context.Context, op Op) (int, error) { return copy(op.Buf, "x"), nil }
	begin := time.Now()
	ret, _, err := g.h.Do(context.Background(), caller(7), Call{Nr: abi.SysRead, Count: 10}, read)
	if ret != 1 || err != nil {
		t.Errorf("%d, %v", ret, err)
	}
	if took := time.Since(begin); took < 2*makerPatience {
		t.Errorf("waited %v for two stuck tasks", took)
	}
	free := func() bool { return g.h.manager.free() && makers[0].free() }
	for begin := time.Now(); !free() && time.Since(begin) < endOfTest; {
		time.Sleep(10 * time.Millisecond)
	}
	if !free() {
		t.Error("the stuck tasks still have the request")
	}
}

// TestSameTaskTwice: if khostd answers late, with the task that another thread's answer
// names too, the task belongs to one request, and calls on it end.
func TestSameTaskTwice(t *testing.T) {
	g := newFakeGuest(t)
	g.h.mu.Lock()
	maker := g.h.add(g.newTask())
	g.h.mu.Unlock()
	g.h.SetMakers([]*Task{maker})
	for tid := range 5 {
		same := g.newTask()
		g.stuck.Store(g.h.manager.task, true)
		g.before = func(nr uint64) (int64, bool) {
			if nr == abi.HostNewTask {
				g.stuck.Delete(g.h.manager.task)
				g.h.wake(g.h.manager.task)
			}
			return int64(same), nr == abi.HostNewTask
		}
		read := func(_ context.Context, op Op) (int, error) { return copy(op.Buf, "x"), nil }
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), endOfTest)
			ret, _, err := g.h.Do(ctx, caller(100+tid), Call{Nr: abi.SysRead, Count: 10}, read)
			cancel()
			if ret != 1 || err != nil {
				t.Fatalf("thread %d: %d, %v", tid, ret, err)
			}
		}
		for begin := time.Now(); !g.h.manager.free() && time.Since(begin) < endOfTest; time.Sleep(time.Millisecond) {
		}
		if task := g.h.find(same); task == nil || task.tid != 100+tid {
			t.Fatalf("thread %d: the task has another owner: %+v", tid, task)
		}
	}
}

// TestKilledCaller: a killed caller is released after killedPatience (50 ms), one
// that got another signal after patience (2 s). The bound of 2 s allows for a busy
// host.
func TestKilledCaller(t *testing.T) {
	g := newFakeGuest(t)
	g.stuck.Store(g.h.manager.task, true)
	for _, killed := range []bool{true, false} {
		ctx, cancel := context.WithCancel(WithKilled(context.Background(), func() bool { return killed }))
		cancel()
		begin := time.Now()
		_, _, err := g.h.Do(ctx, caller(7), Call{Nr: abi.SysRead, Count: 10}, nil)
		took := time.Since(begin)
		if !errors.Is(err, syscall.EINTR) || killed != (took < patience) {
			t.Errorf("killed %v: %v after %v", killed, err, took)
		}
	}
}

// TestUnresponsiveGuest: if the guest does not answer, the first mirrored call waits, later
// ones hardly.
func TestUnresponsiveGuest(t *testing.T) {
	g := newFakeGuest(t)
	g.stuck.Store(g.h.manager.task, true)
	const calls = 20
	begin := time.Now()
	for i := range calls {
		if _, err := g.h.Other(context.Background(), caller(7), Syscall{Nr: abi.SysChdir}); err == nil {
			t.Fatalf("call %d was made", i)
		}
	}
	// The first call waits for activityPatience (1 s), each later one for half of the last, down to 5 ms. If
	// all waited as long as the first, that would take 20 s. The rest allows for a
	// busy host.
	if took := time.Since(begin); took < activityPatience || took > calls/2*activityPatience {
		t.Errorf("%d calls took %v", calls, took)
	}
	g.stuck.Delete(g.h.manager.task)
	g.h.wake(g.h.manager.task)
	for begin := time.Now(); g.h.callTime.Now() != activityPatience && time.Since(begin) < endOfTest; time.Sleep(time.Millisecond) {
		_, _ = g.h.Other(context.Background(), caller(7), Syscall{Nr: abi.SysChdir})
	}
	if g.h.callTime.Now() != activityPatience {
		t.Error("the guest answers again, but calls are not made")
	}
}

// endOfTest is how long a test waits for something that should happen at once.
const endOfTest = 20 * time.Second

// TestFuncCancelled: repeated calls of a function end when their caller is cancelled.
func TestFuncCancelled(t *testing.T) {
	g := newFakeGuest(t)
	task, err := g.h.Kthread(context.Background(), "load/0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	begun := make(chan struct{})
	g.before = func(nr uint64) (int64, bool) {
		if nr != abi.HostCallFunc {
			return 0, false
		}
		close(begun)
		left := func() int64 {
			task.mu.Lock() // the real guest's memory needs none
			defer task.mu.Unlock()
			return int64(g.u64(task.addr + abi.CallCount))
		}
		for begin := time.Now(); left() != 0 && time.Since(begin) < endOfTest; {
			time.Sleep(time.Millisecond)
		}
		return left(), true
	}
	go func() { <-begun; cancel() }()
	if left, err := task.Func(ctx, 1, 1<<40); left != 0 || !errors.Is(err, syscall.EINTR) || errors.Is(err, ErrAbandoned) {
		t.Errorf("%d left, %v", left, err)
	}
}
