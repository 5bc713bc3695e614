package guest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

const (
	gfpKernel = 0xcc0
	gfpZero   = 0x100

	taskInterruptible   = 1
	taskUninterruptible = 2

	efault   = ^uint64(13)
	pageMask = uint64(abi.PageSize - 1)
)

func neg(e syscall.Errno) uint64 { return uint64(-int64(e)) }

// list makes an empty list_head at a.
func (m *machine) list(a uint64) { m.put64(a, a); m.put64(a+8, a) }

// completion returns an empty struct completion.
func (m *machine) completion() uint64 {
	x := m.zalloc(32)
	m.list(x + 16)
	return x
}

// page returns a page filled with ones. A guest function that clears it shows that it
// was called.
func (m *machine) page() uint64 {
	a := m.call("__get_free_pages", gfpKernel, 0)
	m.put(a, bytes.Repeat([]byte{0xff}, abi.PageSize))
	return a
}

// wantBool is want for a function that returns a bool, wantInt for an int.
func (m *machine) wantBool(want byte, sym string, args ...uint64) {
	m.t.Helper()
	if got := byte(m.call(sym, args...)); got != want {
		m.t.Errorf("%s(%#x) = %d, want %d", sym, args, got, want)
	}
}

func (m *machine) wantInt(want int, sym string, args ...uint64) {
	m.t.Helper()
	if got := int32(m.call(sym, args...)); got != int32(want) {
		m.t.Errorf("%s(%#x) = %d, want %d", sym, args, got, want)
	}
}

func (m *machine) cleared(page uint64) bool { return m.u64(page+4000) == 0 }

func TestPageAllocator(t *testing.T) {
	m := boot(t, 1)
	m.call("__get_free_pages", gfpKernel, 0)
	free := m.call("nr_free_pages")
	var pages []uint64
	for order := range uint64(11) {
		a := m.call("__get_free_pages", gfpKernel|gfpZero, order)
		if a == 0 || a&(abi.PageSize<<order-1) != 0 {
			t.Fatalf("order %d: %#x", order, a)
		}
		if !bytes.Equal(m.bytes(a, abi.PageSize<<order), make([]byte, abi.PageSize<<order)) {
			t.Errorf("order %d is not clear", order)
		}
		m.put(a, bytes.Repeat([]byte{0xa5}, 64))
		pages = append(pages, a)
	}
	if got := m.call("nr_free_pages"); got != free-2047 {
		t.Errorf("%d pages free, want %d", got, free-2047)
	}
	for order, a := range pages {
		m.call("free_pages", a, uint64(order))
	}
	if got := m.call("nr_free_pages"); got != free {
		t.Errorf("%d pages free in the end, want %d", got, free)
	}
	m.want(0, "__get_free_pages", gfpKernel, 11)
	a := m.call("alloc_pages_exact", 3*abi.PageSize, gfpKernel)
	if got := m.call("nr_free_pages"); got != free-3 {
		t.Errorf("alloc_pages_exact(3 pages) took %d", free-got)
	}
	m.call("free_pages_exact", a, 3*abi.PageSize)
	m.call("free_pages", m.call("get_zeroed_page", gfpKernel), 0)
	if got := m.call("nr_free_pages"); got != free {
		t.Errorf("%d pages free after alloc_pages_exact, want %d", got, free)
	}
	// All memory, to the last page, and back.
	var all []uint64
	for {
		a := m.call("__get_free_pages", gfpKernel|0x2000, 10)
		if a == 0 {
			break
		}
		all = append(all, a)
	}
	if len(all) < 4 {
		t.Errorf("only %d blocks of 4 MiB", len(all))
	}
	for _, a := range all {
		m.call("free_pages", a, 10)
	}
	if got := m.call("nr_free_pages"); got != free {
		t.Errorf("%d pages free after all were taken, want %d", got, free)
	}
	m.call("copy_page", pages[0], pages[1])
}

func TestSlab(t *testing.T) {
	m := boot(t, 2)
	name := m.cstr("things")
	s := m.call("kmem_cache_create", name, 100, 8, 0, 0)
	m.want(100, "kmem_cache_size", s)
	seen := map[uint64]bool{}
	var objs []uint64
	for i := range 200 {
		o := m.call("kmem_cache_alloc", s, gfpKernel)
		if o == 0 || seen[o] {
			t.Fatalf("object %d: %#x", i, o)
		}
		seen[o] = true
		m.put(o, bytes.Repeat([]byte{byte(i)}, 100))
		objs = append(objs, o)
	}
	for i, o := range objs {
		if got := m.bytes(o, 100); got[0] != byte(i) || got[99] != byte(i) {
			t.Fatalf("object %d was written by another", i)
		}
	}
	slabs := m.call("kmem_cache_slabs", name)
	if slabs < 5 || slabs > 20 {
		t.Errorf("200 objects of 100 bytes in %d slabs", slabs)
	}
	// Free half of them on the other CPU, to the page's list.
	for i, o := range objs {
		if _, err := m.CallOn(context.Background(), i%2, m.sym("kmem_cache_free"), 1, s, o); err != nil {
			t.Fatal(err)
		}
	}
	again := m.call("kmem_cache_alloc", s, gfpKernel)
	if !seen[again] {
		t.Errorf("freed objects are not used again: %#x", again)
	}
	m.call("kmem_cache_free", s, again)
	m.call("kmem_cache_destroy", s)
	m.want(^uint64(0), "kmem_cache_slabs", name)

	for _, c := range []struct{ size, usable uint64 }{
		{1, 8}, {8, 8}, {9, 16}, {33, 64}, {100, 128}, {1025, 2048}, {8192, 8192}, {8193, 16384}, {100000, 131072},
	} {
		a := m.call("__kmalloc", c.size, gfpKernel)
		m.want(c.usable, "ksize", a)
		m.want(c.usable, "kmalloc_size_roundup", c.size)
		m.call("kfree", a)
	}
	m.call("kfree", 0)
	m.want(0, "__kmalloc", 5<<20, gfpKernel)
}

func TestCopies(t *testing.T) {
	m := boot(t, 1)
	src := m.cstr("the quick brown fox")
	for _, c := range []struct {
		name string
		addr uint64
		want string
	}{
		{"kstrdup", m.call("kstrdup", src, gfpKernel), "the quick brown fox"},
		{"kstrndup", m.call("kstrndup", src, 9, gfpKernel), "the quick"},
		{"kmemdup_nul", m.call("kmemdup_nul", src, 3, gfpKernel), "the"},
		{"kmemdup", m.call("kmemdup", src, 20, gfpKernel), "the quick brown fox"},
		{"kasprintf", m.call("kasprintf", gfpKernel, m.cstr("%s %d"), src, 7), "the quick brown fox 7"},
	} {
		if got := m.string(c.addr); c.addr == src || got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	banner := m.sym("linux_proc_banner")
	m.want(banner, "kstrdup_const", banner, gfpKernel)
	m.call("kfree_const", banner)
	m.call("kfree_const", m.call("kstrdup_const", src, gfpKernel))
	p := m.call("krealloc", m.call("kstrdup", src, gfpKernel), 500, gfpKernel)
	if got := m.string(p); got != "the quick brown fox" {
		t.Errorf("krealloc: %q", got)
	}
	m.want(p, "krealloc", p, 400, gfpKernel)
	m.call("kfree_sensitive", p)
	big := m.call("kvmalloc_node", 9<<20, gfpKernel|gfpZero, 0)
	m.wantBool(1, "is_vmalloc_addr", big)
	if m.u64(big+9<<20-8) != 0 {
		t.Error("kvmalloc: not cleared")
	}
	m.call("kvfree", big)
	if err := m.Mem().ReadAt(big, make([]byte, 8)); err == nil {
		t.Error("kvfree left the memory mapped")
	}
	m.call("kvfree", m.call("kvmalloc_node", 100, gfpKernel, 0))
}

func TestVmalloc(t *testing.T) {
	m := boot(t, 2)
	m.call("vfree", m.call("vmalloc", 1))
	free := m.call("nr_free_pages")
	a, b := m.call("vmalloc", 3*abi.PageSize), m.call("vzalloc", 5000)
	if a&pageMask != 0 || b < a+4*abi.PageSize && a < b+3*abi.PageSize {
		t.Errorf("vmalloc gave %#x and %#x", a, b)
	}
	if s := m.call("__vmalloc_node_range", abi.ThreadSize, abi.ThreadSize, gfpKernel, 0); s%abi.ThreadSize != 0 {
		t.Errorf("a stack at %#x: $stackN and the stack tracer take its end for a multiple of its size", s)
	} else {
		m.call("vfree", s)
	}
	m.put(a+2*abi.PageSize+100, []byte("here"))
	m.call("memcpy", b, a+2*abi.PageSize+100, 5)
	if got := m.string(b); got != "here" {
		t.Errorf("vmalloc memory holds %q", got)
	}
	if err := m.Mem().ReadAt(a+3*abi.PageSize, make([]byte, 1)); err == nil {
		t.Error("no guard page after an area")
	}
	if m.call("find_vm_area", a) == 0 || m.call("find_vm_area", a+8) != 0 {
		t.Error("find_vm_area")
	}
	m.call("vfree", a)
	if c := m.call("vmalloc", 3*abi.PageSize); c != a {
		t.Errorf("the first hole is not used: %#x, want %#x", c, a)
	} else {
		m.call("vfree", c)
	}
	m.call("vfree", b)
	if got := m.call("nr_free_pages"); got+2 < free {
		t.Errorf("%d pages free, want %d", got, free)
	}
	m.want(0, "vmalloc", 1<<40)
}

// TestUserMemory tests mmap, brk and page faults of a task.
func TestUserMemory(t *testing.T) {
	m := boot(t, 2)
	k := m.task("user")
	const anon = 0x22
	a := uint64(k.syscall("mmap", 0, 3*abi.PageSize, 3, anon, ^uint64(0), 0))
	if a&pageMask != 0 || a >= 1<<47 {
		t.Fatalf("mmap: %#x", a)
	}
	if err := m.Mem().ReadAt(a, make([]byte, 1)); err == nil {
		t.Error("pages are allocated before they are accessed")
	}
	src := m.cstr("over the page's edge")
	if left := k.call("_copy_to_user", a+abi.PageSize-4, src, 21); left != 0 {
		t.Errorf("_copy_to_user left %d bytes", left)
	}
	dst := m.zalloc(64)
	if n := k.call("strncpy_from_user", dst, a+abi.PageSize-4, 64); n != 20 || m.string(dst) != "over the page's edge" {
		t.Errorf("strncpy_from_user: %d, %q", int64(n), m.string(dst))
	}
	if n := k.call("strnlen_user", a+abi.PageSize-4, 64); n != 21 {
		t.Errorf("strnlen_user: %d", n)
	}
	if left := k.call("_copy_from_user", dst, a+abi.PageSize, 8); left != 0 || string(m.bytes(dst, 8)) != " the pag" {
		t.Errorf("_copy_from_user: %q, %d left", m.bytes(dst, 8), left)
	}
	m.put64(dst, 0x1122334455667788)
	if left := k.call("_copy_from_user", dst, a+3*abi.PageSize-4, 8); left != 4 || m.u64(dst) != 0 {
		t.Errorf("_copy_from_user over the end: %d left, buffer %#x", left, m.u64(dst))
	}
	if left := k.call("_copy_to_user", a+3*abi.PageSize-4, src, 8); left != 4 {
		t.Errorf("_copy_to_user over the end: %d left", left)
	}
	if left := k.call("clear_user", a+abi.PageSize-4, 24); left != 0 {
		t.Errorf("clear_user left %d", left)
	}
	if n := k.call("strncpy_from_user", dst, a+abi.PageSize-4, 64); n != 0 {
		t.Errorf("after clear_user: %d", n)
	}
	if got := k.call("strncpy_from_user", dst, a+4*abi.PageSize, 8); got != efault {
		t.Errorf("strncpy_from_user of nothing: %#x", got)
	}
	if left := k.call("_copy_to_user", abi.TextBase, src, 8); left != 8 {
		t.Errorf("a kernel address passed as user memory: %d left", left)
	}
	if r := k.syscall("munmap", a+abi.PageSize, abi.PageSize); r != 0 {
		t.Errorf("munmap: %d", r)
	}
	if left := k.call("_copy_to_user", a+abi.PageSize-2, src, 8); left != 6 {
		t.Errorf("after munmap of the middle: %d left, want 6", left)
	}
	if left := k.call("_copy_to_user", a+2*abi.PageSize, src, 8); left != 0 {
		t.Errorf("munmap of the middle took the end: %d left", left)
	}
	ro := uint64(k.syscall("mmap", 0, abi.PageSize, 1, anon, ^uint64(0), 0))
	if left := k.call("_copy_to_user", ro, src, 8); left != 8 {
		t.Errorf("writing a read-only page: %d left", left)
	}
	if r := k.syscall("mmap", 0, 0, 3, anon, 0, 0); r != -int64(syscall.EINVAL) {
		t.Errorf("mmap of nothing: %d", r)
	}
	brk := uint64(k.syscall("brk", 0))
	if got := uint64(k.syscall("brk", brk+2*abi.PageSize)); got != brk+2*abi.PageSize {
		t.Errorf("brk: %#x", got)
	}
	if left := k.call("_copy_to_user", brk+2*abi.PageSize-8, src, 8); left != 0 {
		t.Errorf("brk's memory: %d left", left)
	}
	if got := uint64(k.syscall("brk", brk)); got != brk {
		t.Errorf("brk back: %#x", got)
	}
	if left := k.call("_copy_to_user", brk, src, 8); left != 8 {
		t.Errorf("memory above brk: %d left", left)
	}
}

func TestNofault(t *testing.T) {
	m := boot(t, 1)
	dst, src := m.zalloc(16), m.cstr("kernel")
	m.want(0, "copy_from_kernel_nofault", dst, src, 7)
	if m.string(dst) != "kernel" {
		t.Errorf("copied %q", m.string(dst))
	}
	m.want(efault, "copy_from_kernel_nofault", dst, 0xffffe8fffffff000, 8)
	m.want(efault, "copy_from_kernel_nofault", dst, 0xdead000000000000, 8)
	m.want(neg(syscall.ERANGE), "copy_from_kernel_nofault", dst, 0x1000, 8)
	m.want(7, "strncpy_from_kernel_nofault", dst, src, 16)
	m.want(3, "strncpy_from_kernel_nofault", dst, src, 3)
	if m.string(dst) != "ke" {
		t.Errorf("cut to %q", m.string(dst))
	}
	m.want(efault, "strncpy_from_kernel_nofault", dst, 0xffffe8fffffff000, 16)
}

func TestMutex(t *testing.T) {
	m := boot(t, 2)
	a, b, c := m.task("a"), m.task("b"), m.task("c")
	l := m.zalloc(32)
	m.call("__mutex_init", l, 0, 0)
	a.call("mutex_lock", l)
	if got := m.u64(l); got != a.TaskAddr() {
		t.Errorf("owner %#x, want %#x", got, a.TaskAddr())
	}
	m.wantBool(1, "mutex_is_locked", l)
	if got := b.call("mutex_trylock", l); got != 0 {
		t.Error("mutex_trylock of a held lock")
	}
	done := b.start("mutex_lock", l)
	eventually(t, "b sleeps", func() bool { return b.sleeps(taskUninterruptible) })
	c2 := c.start("mutex_lock_interruptible", l)
	eventually(t, "c sleeps", func() bool { return c.sleeps(taskInterruptible) })
	m.want(0, "send_sig", 9, c.TaskAddr(), 1)
	if got := int32(wait(t, "mutex_lock_interruptible", c2)); got != -int32(syscall.EINTR) {
		t.Errorf("mutex_lock_interruptible with a signal: %#x", got)
	}
	a.call("mutex_unlock", l)
	wait(t, "mutex_lock", done)
	if got := m.u64(l) &^ 1; got != b.TaskAddr() {
		t.Errorf("owner %#x, want %#x", got, b.TaskAddr())
	}
	b.call("mutex_unlock", l)
	m.wantBool(0, "mutex_is_locked", l)
	if got := a.call("mutex_lock_killable", l); got != 0 {
		t.Errorf("mutex_lock_killable: %#x", got)
	}
	a.call("mutex_unlock", l)
}

func TestRwsem(t *testing.T) {
	m := boot(t, 2)
	a, b, c := m.task("a"), m.task("b"), m.task("c")
	l := m.zalloc(40)
	m.call("__init_rwsem", l, 0, 0)
	a.call("down_read", l)
	if b.call("down_read_trylock", l) != 1 || c.call("down_write_trylock", l) != 0 {
		t.Error("a second reader must get in, a writer not")
	}
	w := c.start("down_write", l)
	eventually(t, "the writer sleeps", func() bool { return c.sleeps(taskUninterruptible) })
	a.call("up_read", l)
	if m.u64(l) != 1 {
		t.Errorf("count %d with one reader", int64(m.u64(l)))
	}
	b.call("up_read", l)
	wait(t, "down_write", w)
	r := a.start("down_read_killable", l)
	r2 := b.start("down_read", l)
	eventually(t, "the readers sleep", func() bool { return a.sleeps(0x102) && b.sleeps(taskUninterruptible) })
	c.call("up_write", l)
	wait(t, "reader", r)
	wait(t, "reader", r2)
	if m.u64(l) != 2 {
		t.Errorf("count %d with two readers", int64(m.u64(l)))
	}
	a.call("up_read", l)
	b.call("up_read", l)
	if a.call("down_write_killable", l) != 0 || m.u64(l+8) != a.TaskAddr() {
		t.Error("down_write_killable of a free lock")
	}
	a.call("up_write", l)
}

func TestCompletion(t *testing.T) {
	m := boot(t, 2)
	x := m.completion()
	a, b := m.task("a"), m.task("b")
	w := a.start("wait_for_completion", x)
	eventually(t, "sleep", func() bool { return a.sleeps(taskUninterruptible) })
	m.call("complete", x)
	wait(t, "wait_for_completion", w)
	m.wantBool(0, "completion_done", x)
	m.wantBool(0, "try_wait_for_completion", x)
	m.call("complete", x)
	m.wantBool(1, "completion_done", x)
	m.wantBool(1, "try_wait_for_completion", x)
	if got := a.call("wait_for_completion_timeout", x, 3); got != 0 {
		t.Errorf("wait_for_completion_timeout: %d left", got)
	}
	wi := a.start("wait_for_completion_interruptible", x)
	wk := b.start("wait_for_completion_killable", x)
	eventually(t, "sleeps", func() bool { return a.sleeps(taskInterruptible) && b.sleeps(0x102) })
	m.call("send_sig", 15, a.TaskAddr(), 1)
	if got := int32(wait(t, "interruptible", wi)); got != -512 {
		t.Errorf("wait_for_completion_interruptible: %d", got)
	}
	m.call("complete_all", x)
	if got := wait(t, "killable", wk); got != 0 {
		t.Errorf("wait_for_completion_killable: %d", int64(got))
	}
	m.wantBool(1, "completion_done", x)
}

func TestWaitQueue(t *testing.T) {
	m := boot(t, 2)
	wq := m.zalloc(24)
	m.call("__init_waitqueue_head", wq, 0, 0)
	a := m.task("a")
	entry := m.zalloc(40)
	a.call("init_wait_entry", entry, 1)
	if m.u64(entry+8) != a.TaskAddr() || m.u64(entry+16) != m.sym("autoremove_wake_function") {
		t.Error("init_wait_entry")
	}
	a.call("prepare_to_wait", wq, entry, taskInterruptible)
	if m.u64(wq+8) != entry+24 {
		t.Error("prepare_to_wait: not queued")
	}
	a.call("finish_wait", wq, entry)
	if m.u64(wq+8) != wq+8 {
		t.Error("finish_wait: still queued")
	}
	if got := a.call("prepare_to_wait_exclusive", wq, entry, taskInterruptible); got&1 != 1 {
		t.Error("the queue was empty")
	}
	a.call("finish_wait", wq, entry)
	// wait_woken sleeps until woken_wake_function has run.
	m.put64(entry+16, m.sym("woken_wake_function"))
	a.call("add_wait_queue", wq, entry)
	const forever = 1<<63 - 1
	w := a.start("wait_woken", entry, taskInterruptible, forever)
	eventually(t, "sleep", func() bool { return a.sleeps(taskInterruptible) })
	time.Sleep(5 * time.Millisecond)
	m.call("__wake_up", wq, 3, 1, 0)
	if got := wait(t, "wait_woken", w); got != forever {
		t.Errorf("wait_woken: %d", got)
	}
	a.call("remove_wait_queue", wq, entry)
	if m.u64(wq+8) != wq+8 {
		t.Error("remove_wait_queue")
	}
	// A wake-up wakes one exclusive entry. The others stay.
	var e [3]uint64
	for i := range e {
		e[i] = m.zalloc(40)
		a.call("init_wait_entry", e[i], 1)
		if got := int64(a.call("prepare_to_wait_event", wq, e[i], taskInterruptible)); got != 0 {
			t.Errorf("prepare_to_wait_event: %d", got)
		}
		m.put64(e[i]+16, m.sym("woken_wake_function"))
		m.put64(e[i]+8, m.sym("init_task")) // never sleeps: its function's result is 0
	}
	m.call("__wake_up", wq, 3, 1, 0)
	for i := range e {
		if m.u32(e[i])&2 == 0 {
			t.Errorf("entry %d was not looked at, though no task was woken before it", i)
		}
		a.call("remove_wait_queue", wq, e[i])
	}
}

const jiffy = 4 * time.Millisecond

func TestTimers(t *testing.T) {
	clock := kernel.NewVirtualClock(0)
	m := bootClock(t, 2, clock)
	jiffies := m.sym("jiffies")
	before := m.u64(jiffies)
	p := m.page()
	m.put(p, make([]byte, 64))
	m.call("init_timer_key", p, m.sym("clear_page"), 0, 0, 0)
	m.want(0, "mod_timer", p, before+1000)
	expires := m.u64(jiffies) + 5
	m.want(1, "mod_timer", p, expires)
	clock.Advance(3 * jiffy)
	m.want(12, "int_sqrt", 144)
	if m.cleared(p) {
		t.Errorf("a timer ran at %d, before %d", m.u64(jiffies), expires)
	}
	clock.Advance(3 * jiffy)
	eventually(t, "the timer", func() bool { return m.cleared(p) })
	q := m.page()
	m.put(q, make([]byte, 64))
	m.call("init_timer_key", q, m.sym("clear_page"), 0, 0, 0)
	m.put64(q+16, m.u64(jiffies)+8)
	m.call("add_timer_on", q, 1)
	m.want(1, "timer_delete", q)
	m.want(0, "timer_delete", q)
	m.put64(q+16, m.u64(jiffies)+4)
	m.call("add_timer", q)
	m.want(1, "timer_delete_sync", q)
	m.want(0, "mod_timer_pending", q, before+1)
	k := m.task("sleeper")
	// passes advances the clock until a call of k returns.
	passes := func(what string, w <-chan uint64) (ret uint64) {
		eventually(t, what, func() bool {
			clock.Advance(time.Millisecond)
			select {
			case ret = <-w:
				return true
			default:
				return false
			}
		})
		return ret
	}
	for _, c := range []struct {
		f   string
		arg uint64
		min time.Duration
	}{
		{"msleep", 12, 12 * time.Millisecond},
		{"schedule_timeout_uninterruptible", 3, 2 * jiffy},
		{"schedule_timeout_killable", 2, jiffy},
		{"schedule_timeout_interruptible", 2, jiffy},
		{"schedule_timeout_idle", 2, jiffy},
		{"hrtimer_nanosleep", 3_000_000, 3 * time.Millisecond},
	} {
		start := clock.Now()
		if got := passes(c.f, k.start(c.f, c.arg, 1, 1)); c.f != "msleep" && got != 0 {
			t.Errorf("%s: %d", c.f, int64(got))
		}
		if d := time.Duration(clock.Now() - start); d < c.min {
			t.Errorf("%s(%d) took %v", c.f, c.arg, d)
		}
	}
	if m.cleared(q) {
		t.Error("a deleted timer ran")
	}
	w := k.start("msleep_interruptible", 5000)
	eventually(t, "sleep", func() bool { return k.sleeps(taskInterruptible) })
	clock.Advance(time.Second)
	m.call("send_sig", 15, k.TaskAddr(), 1)
	if left := wait(t, "msleep_interruptible", w); left < 3000 || left > 5004 {
		t.Errorf("%d ms left of 5000", left)
	}
	if got := m.u64(jiffies); got <= before {
		t.Errorf("jiffies %d, were %d", got, before)
	}
}

// TestWheel: a timer's slot, and the time at which it expires: never too early, and
// at most an eighth late.
func TestWheel(t *testing.T) {
	m := boot(t, 1)
	out := m.zalloc(8)
	const clk = 0x10000
	for _, delta := range []uint64{1, 5, 62, 63, 100, 511, 512, 4000, 33000, 260000, 2100000, 1 << 24} {
		idx := m.call("calc_wheel_index", clk+delta, clk, out)
		at := m.u64(out)
		if at < clk+delta || at > clk+delta+delta/8+2 {
			t.Errorf("delta %d runs at +%d", delta, at-clk)
		}
		lvl := idx / 64
		if want := at >> (3 * lvl) & 63; idx%64 != want {
			t.Errorf("delta %d: slot %d of level %d, want %d", delta, idx%64, lvl, want)
		}
	}
	m.want(clk&63, "calc_wheel_index", clk-5, clk, out)
}

func TestTimeUnits(t *testing.T) {
	m := boot(t, 1)
	for _, c := range []struct {
		f         string
		arg, want uint64
	}{
		{"jiffies_to_msecs", 3, 12},
		{"jiffies_to_usecs", 3, 12000},
		{"__msecs_to_jiffies", 0, 0},
		{"__msecs_to_jiffies", 1, 1},
		{"__msecs_to_jiffies", 4, 1},
		{"__msecs_to_jiffies", 5, 2},
		{"__msecs_to_jiffies", 1 << 31, 1<<62 - 2},
		{"__usecs_to_jiffies", 4001, 2},
		{"nsecs_to_jiffies64", 12_000_001, 3},
		{"nsecs_to_jiffies", 4_000_000, 1},
		{"jiffies_64_to_clock_t", 250, 100},
		{"clock_t_to_jiffies", 100, 250},
		{"nsec_to_clock_t", 1e9, 100},
	} {
		m.want(c.want, c.f, c.arg)
	}
	ts := m.zalloc(16)
	m.call("set_normalized_timespec64", ts, 5, neg(1))
	if sec, ns := m.u64(ts), m.u64(ts+8); sec != 4 || ns != 999999999 {
		t.Errorf("5 s less 1 ns: %d.%09d", sec, ns)
	}
	m.want(1250, "timespec64_to_jiffies", ts)
	m.call("jiffies_to_timespec64", 251, ts)
	if sec, ns := m.u64(ts), m.u64(ts+8); sec != 1 || ns != 4000000 {
		t.Errorf("251 jiffies: %d.%09d", sec, ns)
	}
	now := uint64(time.Now().Unix())
	if got := m.call("ktime_get_real_seconds"); got < now-2 || got > now+2 {
		t.Errorf("ktime_get_real_seconds: %d, it is %d", got, now)
	}
	m.call("ktime_get_real_ts64", ts)
	if got := m.u64(ts); got < now-2 || got > now+3 {
		t.Errorf("ktime_get_real_ts64: %d", got)
	}
	a, b := m.call("ktime_get"), m.call("local_clock")
	if b < a || b-a > 5e9 {
		t.Errorf("clocks: %d, then %d", a, b)
	}
	j := m.u64(m.sym("jiffies"))
	if r := m.call("round_jiffies", j+1000); r%250 > 12 || r+125 < j+1000 || r > j+1250 {
		t.Errorf("round_jiffies(%d) = %d", j+1000, r)
	}
}

func TestLoadAverage(t *testing.T) {
	m := boot(t, 1)
	// fixed point: load*exp + active*(2048-exp), over 2048
	m.want(2048, "calc_load", 2048, 1884, 2048)
	m.want((0*1884+2048*(2048-1884)+2047)/2048, "calc_load", 0, 1884, 2048)
	m.want(2048*1884/2048, "calc_load", 2048, 1884, 0)
	m.want(2048, "fixed_power_int", 2048, 11, 10)
	m.want(1024, "fixed_power_int", 1024, 11, 1)
	m.want(512, "fixed_power_int", 1024, 11, 2)
	m.want(1024, "calc_load_n", 2048, 1024, 0, 1)
	m.want(512, "calc_load_n", 2048, 1024, 0, 2)
	loads := m.zalloc(24)
	m.call("get_avenrun", loads, 0, 0)
	if m.u64(loads) > 1<<20 {
		t.Errorf("load average %d", m.u64(loads))
	}
}

func TestWorkqueue(t *testing.T) {
	m := boot(t, 2)
	wq := m.u64(m.sym("system_wq"))
	work := func() uint64 { // a work_struct at the start of a page that its function clears
		p := m.page()
		m.put64(p, 0)
		m.list(p + 8)
		m.put64(p+24, m.sym("clear_page"))
		return p
	}
	const anyCPU = 8192
	for _, cpu := range []uint64{0, 1, anyCPU} {
		w := work()
		if m.call("queue_work_on", cpu, wq, w)&1 != 1 {
			t.Errorf("queue_work_on(%d): was pending", cpu)
		}
		m.call("flush_work", w)
		if !m.cleared(w) {
			t.Errorf("the work on CPU %d did not run", cpu)
		}
	}
	m.want(0, "flush_work", work())
	delayed := func() uint64 {
		w := work()
		m.put(w+32, make([]byte, 56))
		m.call("init_timer_key", w+32, m.sym("delayed_work_timer_fn"), 0, 0, 0)
		return w
	}
	d := delayed()
	start := time.Now()
	if m.call("queue_delayed_work_on", anyCPU, wq, d, 5)&1 != 1 || m.call("queue_delayed_work_on", anyCPU, wq, d, 5)&1 != 0 {
		t.Error("queue_delayed_work_on: the second must find it pending")
	}
	eventually(t, "delayed work", func() bool { return m.cleared(d) })
	if e := time.Since(start); e < 10*time.Millisecond {
		t.Errorf("5 jiffies of delay took %v", e)
	}
	d = delayed()
	m.call("queue_delayed_work_on", 1, wq, d, 10000)
	if m.call("cancel_delayed_work", d)&1 != 1 || m.call("cancel_delayed_work", d)&1 != 0 {
		t.Error("cancel_delayed_work")
	}
	m.call("queue_delayed_work_on", 1, wq, d, 10000)
	m.call("mod_delayed_work_on", 1, wq, d, 0)
	eventually(t, "modified work", func() bool { return m.cleared(d) })
	d = delayed()
	m.call("queue_delayed_work_on", 0, wq, d, 10000)
	m.call("flush_delayed_work", d)
	if !m.cleared(d) {
		t.Error("flush_delayed_work did not run the work")
	}
	d = delayed()
	m.call("queue_delayed_work_on", 0, wq, d, 10000)
	if m.call("cancel_delayed_work_sync", d)&1 != 1 {
		t.Error("cancel_delayed_work_sync")
	}
	m.call("cancel_work_sync", work())
	mine := m.call("alloc_workqueue", m.cstr("mine"), 0, 0)
	w := work()
	m.call("queue_work_on", anyCPU, mine, w)
	m.call("destroy_workqueue", mine)
	if !m.cleared(w) {
		t.Error("destroy_workqueue did not wait for the work")
	}
	// A work that sleeps does not delay those after it: msleep takes the work's
	// address as milliseconds.
	sleeper := m.zalloc(64)
	m.list(sleeper + 8)
	m.put64(sleeper+24, m.sym("msleep"))
	m.call("queue_work_on", 0, wq, sleeper)
	w = work()
	m.call("queue_work_on", 0, wq, w)
	eventually(t, "the work behind a sleeping one", func() bool { return m.cleared(w) })
}

func TestRCU(t *testing.T) {
	m := boot(t, 2)
	p := m.page()
	m.call("call_rcu", p, m.sym("clear_page"))
	m.call("rcu_barrier")
	if !m.cleared(p) {
		t.Error("rcu_barrier returned before the callback had run")
	}
	gps := m.call("get_completed_gp_seq")
	m.call("synchronize_rcu")
	if got := m.call("get_completed_gp_seq"); got <= gps {
		t.Errorf("%d grace periods, there were %d", got, gps)
	}
	// A reader on CPU 1 delays it.
	q := m.page()
	cpu1 := func(f string, args ...uint64) {
		if _, err := m.CallOn(context.Background(), 1, m.sym(f), 1, args...); err != nil {
			t.Fatal(err)
		}
	}
	m.call("synchronize_rcu_tasks")
	k := m.task("waiter")
	done := k.start("synchronize_rcu")
	wait(t, "synchronize_rcu", done)
	cpu1("call_rcu", q, m.sym("clear_page"))
	eventually(t, "the callback", func() bool { return m.cleared(q) })
	start := time.Now()
	for range 20 {
		m.call("synchronize_rcu")
	}
	// Each takes a few ticks of 4 ms at most, until both CPUs have passed a quiescent
	// state: 0.3 s in all. The rest allows for a busy host. A grace period that
	// waited for something else to wake an idle CPU would take seconds.
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("20 grace periods took %v", d)
	}
}

// TestSlabCPUs: one CPU takes objects while another one gives others back, in any order: the last one of a page, too.
func TestSlabCPUs(t *testing.T) {
	m := boot(t, 2)
	const n = 64
	s := m.call("kmem_cache_create", m.cstr("traded"), 1000, 8, 0, 0)
	rounds := 20_000
	if testing.Short() {
		rounds = 2000
	}
	on := func(cpu int, name string, args ...uint64) uint64 {
		v, err := m.CallOn(context.Background(), cpu, m.sym(name), 1, args...)
		if err != nil {
			t.Error(name, err)
		}
		return v
	}
	taken, back := m.zalloc(n*8), m.zalloc(n*8)
	objects := make(chan []byte, 4)
	go func() {
		defer close(objects)
		for range rounds {
			if got := on(0, "kmem_cache_alloc_bulk", s, gfpKernel, n, taken); got != n {
				t.Errorf("%d objects, want %d", got, n)
				return
			}
			objects <- m.bytes(taken, n*8)
		}
	}()
	var pool [][]byte
	random := rand.New(rand.NewPCG(1, 2))
	free := func() {
		m.put(back, bytes.Join(pool[:n], nil))
		pool = pool[n:]
		on(1, "kmem_cache_free_bulk", s, n, back)
	}
	for b := range objects {
		for o := range slices.Chunk(b, 8) {
			pool = append(pool, o)
		}
		random.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
		if len(pool) > 6*n && !t.Failed() {
			free()
		}
	}
	for len(pool) > 0 && !t.Failed() {
		free()
	}
	if !t.Failed() {
		m.call("kmem_cache_destroy", s)
		m.want(^uint64(0), "kmem_cache_slabs", m.cstr("traded"))
	}
}

func TestSMPCalls(t *testing.T) {
	m := boot(t, 3)
	for cpu := range uint64(3) {
		for _, w := range []uint64{0, 1} {
			p := m.page()
			m.want(0, "smp_call_function_single", cpu, m.sym("clear_page"), p, w)
			eventually(t, "the call", func() bool { return m.cleared(p) })
		}
	}
	m.wantInt(-int(syscall.ENXIO), "smp_call_function_single", 7, m.sym("clear_page"), 0, 1)
	m.call("on_each_cpu", m.sym("kfree"), 0, 1) // kfree(NULL) on each
	p := m.page()
	m.call("on_each_cpu", m.sym("clear_page"), p, 1)
	if !m.cleared(p) {
		t.Error("on_each_cpu")
	}
	for cpu := range 3 {
		p := m.page()
		m.put64(p+8, 0) // irq_work: llist node, flags, function
		m.put64(p+16, m.sym("clear_page"))
		if v, err := m.CallOn(context.Background(), cpu, m.sym("irq_work_queue"), 1, p); err != nil || v&1 != 1 {
			t.Errorf("irq_work_queue: %d, %v", v, err)
		}
		eventually(t, "irq_work", func() bool { return m.cleared(p) })
	}
}

func TestLlist(t *testing.T) {
	m := boot(t, 1)
	head, a, b, c := m.zalloc(8), m.zalloc(8), m.zalloc(8), m.zalloc(8)
	if m.call("llist_add_batch", a, a, head)&1 != 1 || m.call("llist_add_batch", b, b, head)&1 != 0 {
		t.Error("llist_add_batch: whether the list was empty")
	}
	m.call("llist_add_batch", c, c, head)
	m.want(c, "llist_del_first", head)
	m.want(a, "llist_reverse_order", m.u64(head))
	if m.u64(a) != b || m.u64(b) != 0 {
		t.Error("llist_reverse_order")
	}
	m.put64(head, 0)
	m.want(0, "llist_del_first", head)
}

func TestNotifier(t *testing.T) {
	m := boot(t, 1)
	block := func(f string, prio uint32) uint64 {
		a := m.zalloc(24)
		m.put64(a, m.sym(f))
		m.put(a+16, binary.LittleEndian.AppendUint32(nil, prio))
		return a
	}
	// Called as f(block, value, data): the results of memcpy and memset tell which
	// was called last.
	raw := m.zalloc(8)
	low, high := block("int_sqrt", 1), block("int_sqrt", 5)
	m.want(0, "raw_notifier_chain_register", raw, low)
	m.want(0, "raw_notifier_chain_register", raw, high)
	m.wantInt(-int(syscall.EEXIST), "raw_notifier_chain_register", raw, high)
	if m.u64(raw) != high || m.u64(high+8) != low {
		t.Error("the higher priority is not first")
	}
	m.call("raw_notifier_call_chain", raw, 1, 2)
	m.want(0, "raw_notifier_chain_unregister", raw, high)
	m.wantInt(-int(syscall.ENOENT), "raw_notifier_chain_unregister", raw, high)
	blocking := m.zalloc(48)
	m.call("__init_rwsem", blocking, 0, 0)
	page := m.page()
	m.put(page, make([]byte, 24))
	m.put64(page, m.sym("clear_page"))
	m.want(0, "blocking_notifier_chain_register", blocking, page)
	m.call("blocking_notifier_call_chain", blocking, 1, 0)
	if !m.cleared(page) {
		t.Error("blocking_notifier_call_chain called nobody")
	}
	m.want(0, "blocking_notifier_chain_unregister", blocking, page)
}

func TestDieNotifier(t *testing.T) {
	m := boot(t, 1)
	page := m.page()
	m.put(page, make([]byte, 24))
	m.put64(page, m.sym("clear_page")) // called as f(block, value, data)
	m.want(0, "register_die_notifier", page)
	m.wantInt(-int(syscall.EEXIST), "register_die_notifier", page)
	m.call("notify_die", 2, 0, 0, 0, 3)
	if !m.cleared(page) {
		t.Error("notify_die called nobody")
	}
	m.want(0, "unregister_die_notifier", page)
	m.wantInt(-int(syscall.ENOENT), "unregister_die_notifier", page)
	m.want(0, "notify_die", 2, 0, 0, 0, 3)
}

func TestKthread(t *testing.T) {
	m := boot(t, 2)
	name := m.cstr("mine/%d")
	k := m.call("kthread_create_on_node", m.sym("run_ksoftirqd"), 0, 0, name, 7)
	if got := m.string(k + abi.TaskComm); got != "mine/7" {
		t.Errorf("comm %q", got)
	}
	if m.u32(k+abi.TaskFlags)&0x200000 == 0 || m.u64(k+abi.TaskParent) != m.u64(m.sym("kthreadd_task")) {
		t.Error("not a kernel thread, or not kthreadd's child")
	}
	if got := m.call("find_task_by_vpid", uint64(m.u32(k+abi.TaskPID))); got != k {
		t.Errorf("find_task_by_vpid: %#x, want %#x", got, k)
	}
	m.wantBool(0, "kthread_is_per_cpu", k)
	m.call("kthread_bind", k, 1)
	m.want(1, "wake_up_process", k)
	eventually(t, "it sleeps", func() bool { return m.u32(k+abi.TaskState) == taskInterruptible })
	pid := uint64(m.u32(k + abi.TaskPID))
	m.want(0, "kthread_stop", k)
	eventually(t, "its number is free", func() bool { return m.call("find_task_by_vpid", pid) == 0 })
	k = m.call("kthread_create_on_cpu", m.sym("run_ksoftirqd"), 5, 1, m.cstr("one/%u"))
	m.wantBool(1, "kthread_is_per_cpu", k)
	m.want(5, "kthread_data", k)
	m.wantInt(-int(syscall.EINTR), "kthread_stop", k) // the thread never ran
	ids := map[string]bool{}
	for pid := range uint64(40) {
		if p := m.call("find_task_by_vpid", pid); p != 0 {
			ids[m.string(p+abi.TaskComm)] = true
		}
	}
	for _, want := range []string{"init", "kthreadd", "rcu_preempt", "ksoftirqd/0", "ksoftirqd/1", "kworker/0:0", "kworker/u4:0", "load/1", "khostd"} {
		if !ids[want] {
			t.Errorf("no task %s among %v", want, ids)
		}
	}
}

// TestFork makes processes whose function is do_exit or do_group_exit, and waits for them.
func TestFork(t *testing.T) {
	m := boot(t, 2)
	k := m.task("parent")
	const sigchld = 17
	stat := uint64(k.syscall("mmap", 0, abi.PageSize, 3, 0x22, ^uint64(0), 0))
	if got := int64(k.call("kernel_wait4", ^uint64(0), stat, 0, 0)); got != -int64(syscall.ECHILD) {
		t.Errorf("kernel_wait4 without children: %d", got)
	}
	forks := m.u64(m.sym("total_forks"))
	for _, c := range []struct {
		f    string
		code uint64
	}{{"do_exit", 0}, {"do_exit", 7 << 8}, {"do_group_exit", 3 << 8}, {"do_exit", 9}} {
		pid := k.call("user_mode_thread", m.sym(c.f), c.code, sigchld)
		if int64(pid) <= 0 {
			t.Fatalf("user_mode_thread: %d", int64(pid))
		}
		if got := k.call("kernel_wait4", pid, stat, 0, 0); got != pid {
			t.Errorf("kernel_wait4(%d): %d", pid, int64(got))
		}
		out := m.zalloc(8)
		k.call("_copy_from_user", out, stat, 4)
		if got := uint64(m.u32(out)); got != c.code {
			t.Errorf("%s(%#x): status %#x", c.f, c.code, got)
		}
		m.want(0, "find_task_by_vpid", pid)
	}
	if got := m.u64(m.sym("total_forks")) - forks; got != 4 {
		t.Errorf("%d forks counted, want 4", got)
	}
	// A running child: WNOHANG returns 0, a wait sleeps until it is killed.
	pid := k.call("user_mode_thread", m.sym("msleep_interruptible"), 60000, sigchld)
	if got := k.call("kernel_wait4", ^uint64(0), 0, 1, 0); got != 0 {
		t.Errorf("kernel_wait4(WNOHANG): %d", int64(got))
	}
	child := m.call("find_task_by_vpid", pid)
	if m.u64(child+abi.TaskRealParent) != k.TaskAddr() || m.u32(child+abi.TaskTGID) != uint32(pid) {
		t.Error("the child's parent or tgid")
	}
	w := k.start("kernel_wait4", pid, 0, 0, 0)
	eventually(t, "the parent sleeps", func() bool { return k.sleeps(taskInterruptible) })
	m.call("send_sig", 15, k.TaskAddr(), 1)
	if got := int64(wait(t, "kernel_wait4", w)); got != -512 {
		t.Errorf("kernel_wait4 with a signal: %d", got)
	}
	// Bad combinations.
	for _, flags := range []uint64{0x10000, 0x800} { // CLONE_THREAD, CLONE_SIGHAND alone
		if got := int32(k.call("kernel_thread", m.sym("do_exit"), 0, flags)); flags == 0x10000 && got != -int32(syscall.EINVAL) {
			t.Errorf("kernel_thread with flags %#x: %d", flags, got)
		}
	}
}

// TestForkMemory: a child gets a copy of its parent's memory.
func TestForkMemory(t *testing.T) {
	m := boot(t, 1)
	m.call("vfree", m.call("vmalloc", 1))
	k := m.task("parent")
	a := uint64(k.syscall("mmap", 0, 2*abi.PageSize, 3, 0x22, ^uint64(0), 0))
	k.call("_copy_to_user", a, m.cstr("mine"), 5)
	if got := k.syscall("clone", 0, 0, 0, 0, 0); got <= 0 {
		t.Fatalf("clone: %d", got)
	} else {
		child := m.call("find_task_by_vpid", uint64(got))
		mm, cmm := m.u64(k.TaskAddr()+2272), m.u64(child+2272)
		if mm == cmm || cmm == 0 {
			t.Fatalf("mm %#x, the child's %#x", mm, cmm)
		}
		delta := m.u64(cmm+32) - m.u64(mm+32) // mmap_base
		if got := m.string(a + delta); got != "mine" {
			t.Errorf("the child's memory holds %q", got)
		}
		k.call("_copy_to_user", a, m.cstr("more"), 5)
		if got := m.string(a + delta); got != "mine" {
			t.Errorf("the parent's write shows in the child: %q", got)
		}
	}
	if got := k.syscall("fork"); got <= 0 {
		t.Errorf("fork: %d", got)
	}
}

func TestSignals(t *testing.T) {
	m := boot(t, 2)
	k := m.task("victim")
	pid := uint64(m.u32(k.TaskAddr() + abi.TaskPID))
	w := k.start("schedule_timeout_interruptible", 100000)
	eventually(t, "sleep", func() bool { return k.sleeps(taskInterruptible) })
	pidAddr := m.call("find_get_pid", pid)
	m.want(0, "kill_pid_info", 17, 0, pidAddr) // SIGCHLD is ignored
	time.Sleep(5 * time.Millisecond)
	if !k.sleeps(taskInterruptible) {
		t.Error("an ignored signal woke the task")
	}
	m.want(0, "kill_pid_info", 0, 0, pidAddr)
	m.want(0, "kill_pid_info", 15, 0, pidAddr)
	if left := wait(t, "the sleep", w); left < 90000 {
		t.Errorf("%d jiffies left", left)
	}
	m.wantInt(-int(syscall.EINVAL), "send_sig", 99, k.TaskAddr(), 0)
	m.call("put_pid", pidAddr)
	if got := k.syscall("kill", 0x7fffff, 15); got != -int64(syscall.ESRCH) {
		t.Errorf("kill of nobody: %d", got)
	}
	if got := k.syscall("kill", pid, 0); got != 0 {
		t.Errorf("kill(self, 0): %d", got)
	}
}

func TestPID(t *testing.T) {
	m := boot(t, 1)
	init := m.call("find_task_by_vpid", 1)
	pid := m.call("get_task_pid", init, 0)
	m.want(pid, "find_vpid", 1)
	m.want(init, "pid_task", pid, 0)
	m.want(init, "get_pid_task", pid, 0)
	m.want(1, "__task_pid_nr_ns", init, 0, 0)
	m.want(0, "find_vpid", 0x7ffffff)
	m.want(0, "pid_task", 0, 0)
	m.call("put_pid", pid)
}

func TestCred(t *testing.T) {
	m := boot(t, 1)
	k := m.task("user")
	c := k.call("prepare_creds")
	m.put(c+8, binary.LittleEndian.AppendUint32(nil, 1000))  // uid
	m.put(c+24, binary.LittleEndian.AppendUint32(nil, 1000)) // euid
	m.put64(c+60, 1<<21)                                     // cap_effective: CAP_SYS_ADMIN
	if got := k.call("commit_creds", c); got != 0 {
		t.Fatalf("commit_creds: %d", got)
	}
	if u, e := k.syscall("getuid"), k.syscall("geteuid"); u != 1000 || e != 1000 {
		t.Errorf("uid %d, euid %d", u, e)
	}
	if k.syscall("getgid") != 0 {
		t.Error("the gid changed")
	}
	if k.call("capable", 21)&1 != 1 || k.call("capable", 12)&1 != 0 {
		t.Error("capable")
	}
	if got := k.syscall("kill", 1, 0); got != -int64(syscall.EPERM) {
		t.Errorf("kill(1) as uid 1000: %d", got)
	}
}

func TestRandom(t *testing.T) {
	m := boot(t, 1)
	for _, f := range []string{"get_random_u64", "get_random_u32"} {
		if first, second := m.call(f), m.call(f); first == second {
			t.Errorf("%s gave %#x twice", f, first)
		}
	}
	for range 50 {
		if v := m.call("__get_random_u32_below", 10); v >= 10 {
			t.Errorf("%d is not below 10", v)
		}
	}
	m.want(0, "__get_random_u32_below", 1)
	a := m.zalloc(24)
	m.call("get_random_bytes", a, 20)
	b := m.bytes(a, 24)
	if bytes.Equal(b[:8], make([]byte, 8)) || bytes.Equal(b[12:20], make([]byte, 8)) || !bytes.Equal(b[20:], make([]byte, 4)) {
		t.Errorf("get_random_bytes(20): % x", b)
	}
}

func TestSmallSyscalls(t *testing.T) {
	m := boot(t, 2)
	k := m.task("calls")
	u := uint64(k.syscall("mmap", 0, abi.PageSize, 3, 0x22, ^uint64(0), 0))
	out := m.zalloc(512)
	user := func(n uint64) []byte {
		k.call("_copy_from_user", out, u, n)
		return m.bytes(out, int(n))
	}
	pid := int64(m.u32(k.TaskAddr() + abi.TaskPID))
	for name, want := range map[string]int64{"getpid": pid, "gettid": pid, "getuid": 0, "sched_yield": 0} {
		if got := k.syscall(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	parent := m.u64(k.TaskAddr() + abi.TaskRealParent)
	if got := k.syscall("getppid"); got != int64(m.u32(parent+abi.TaskTGID)) {
		t.Errorf("getppid: %d", got)
	}
	if k.syscall("newuname", u) != 0 || string(user(5)) != "Linux" || !bytes.HasPrefix(user(200)[130:], []byte("6.1.0-test\x00")) {
		t.Errorf("uname: %q", user(200))
	}
	if k.syscall("newuname", 8) != -int64(syscall.EFAULT) {
		t.Error("uname to a bad address")
	}
	if k.syscall("getcpu", u, u+4, 0) != 0 || user(1)[0] > 1 {
		t.Error("getcpu")
	}
	if now := k.syscall("time", u); now < time.Now().Unix()-2 || int64(binary.LittleEndian.Uint64(user(8))) != now {
		t.Errorf("time: %d", now)
	}
	if k.syscall("clock_gettime", 1, u) != 0 || k.syscall("clock_gettime", 55, u) != -int64(syscall.EINVAL) {
		t.Error("clock_gettime")
	}
	if k.syscall("getrandom", u, 100, 0) != 100 || bytes.Equal(user(100)[90:], make([]byte, 10)) || k.syscall("getrandom", u, 1, 0x80) != -int64(syscall.EINVAL) {
		t.Error("getrandom")
	}
	k.call("_copy_to_user", u, m.cstr("renamed"), 8)
	if k.syscall("prctl", 15, u) != 0 || m.string(k.TaskAddr()+abi.TaskComm) != "renamed" {
		t.Error("prctl(PR_SET_NAME)")
	}
	if k.syscall("prctl", 16, u+64) != 0 || k.call("strnlen_user", u+64, 16) != 8 {
		t.Error("prctl(PR_GET_NAME)")
	}
	for _, c := range [][3]int64{{1, 15, 0}, {1, 99, -22}, {3, 0, 0}, {4, 1, 0}, {3, 0, 1}, {4, 2, -22}, {7, 0, 0}, {13, 0, 0}, {14, 1, -22}, {21, 0, 0}, {30, 0, 50000}, {999, 0, -22}} {
		if got := k.syscall("prctl", uint64(c[0]), uint64(c[1])); got != c[2] {
			t.Errorf("prctl(%d, %d) = %d, want %d", c[0], c[1], got, c[2])
		}
	}
	if k.syscall("prctl", 2, u) != 0 || user(1)[0] != 15 || k.syscall("prctl", 25, u) != 0 {
		t.Error("prctl(PR_GET_PDEATHSIG)")
	}
	if k.syscall("prlimit64", 0, 7, 0, u) != 0 || binary.LittleEndian.Uint64(user(8)) != 1024 {
		t.Errorf("prlimit64: % x", user(16))
	}
	if k.syscall("prlimit64", 0, 99, 0, u) != -int64(syscall.EINVAL) || k.syscall("prlimit64", 0x7fffff, 7, 0, u) != -int64(syscall.ESRCH) {
		t.Error("prlimit64's errors")
	}
	m.put64(out, 0)
	m.put64(out+8, 2_000_000)
	k.call("_copy_to_user", u, out, 16)
	start := time.Now()
	if got := k.syscall("nanosleep", u, 0); got != 0 || time.Since(start) < 2*time.Millisecond {
		t.Errorf("nanosleep: %d after %v", got, time.Since(start))
	}
	m.put64(out+8, 2_000_000_000)
	k.call("_copy_to_user", u, out, 16)
	if got := k.syscall("nanosleep", u, 0); got != -int64(syscall.EINVAL) {
		t.Errorf("nanosleep of two billion nanoseconds: %d", got)
	}
	// By number, through do_syscall_64 and the table.
	c := host.Caller{TID: 4242, PID: 4242, Comm: func() string { return "tool" }}
	for nr, want := range map[uint64]int64{abi.SysGetpid: 4242, abi.SysGettid: 4242, 9999: -int64(syscall.ENOSYS), 100: -int64(syscall.ENOSYS)} {
		if got, _, err := m.Host().Do(context.Background(), c, host.Call{Nr: nr}, nil); err != nil || got != want {
			t.Errorf("system call %d: %d, %v; want %d", nr, got, err, want)
		}
	}
	if got := m.string(m.call("find_task_by_vpid", 4242) + abi.TaskComm); got != "tool" {
		t.Errorf("the caller's task is named %q", got)
	}
}

// TestSyscallNumbers: package abi and the guest's table agree on the system calls.
func TestSyscallNumbers(t *testing.T) {
	calls := boot(t, 1).Syscalls()
	for nr, want := range map[int]string{
		abi.SysRead: "read", abi.SysWrite: "write", abi.SysOpen: "open", abi.SysClose: "close", abi.SysGetpid: "getpid", abi.SysClone: "clone",
		abi.SysFork: "fork", abi.SysVfork: "vfork", abi.SysExecve: "execve", abi.SysExit: "exit", abi.SysKill: "kill", abi.SysChdir: "chdir",
		abi.SysMkdir: "mkdir", abi.SysRmdir: "rmdir", abi.SysUnlink: "unlink", abi.SysSymlink: "symlink", abi.SysPrctl: "prctl",
		abi.SysGettid: "gettid", abi.SysTkill: "tkill", abi.SysGetdents64: "getdents64", abi.SysExitGroup: "exit_group", abi.SysTgkill: "tgkill",
		abi.SysOpenat: "openat", abi.SysMkdirat: "mkdirat", abi.SysNewfstatat: "newfstatat", abi.SysUnlinkat: "unlinkat",
		abi.SysSymlinkat: "symlinkat", abi.SysClone3: "clone3", abi.SysOpenat2: "openat2",
	} {
		if nr >= len(calls) || calls[nr] != want {
			t.Errorf("system call %d is %q, want %q", nr, calls[nr], want)
		}
	}
}

// TestOops: a task that faults dies, and the machine goes on. The log has the cause,
// the code, the registers and the stack, as Linux prints them.
func TestOops(t *testing.T) {
	m := boot(t, 2)
	for n, c := range []struct {
		name, f string
		args    []uint64
		says    []string
	}{
		{"null pointer", "strlen", []uint64{0}, []string{
			"BUG: kernel NULL pointer dereference, address: 0000000000000000", "#PF: supervisor read access in kernel mode", "#PF: error_code(0x0000) - not-present page", "Oops: 0000 [#1]",
		}},
		{"non-canonical", "strlen", []uint64{0xdead000000000000}, []string{"general protection fault", " [#2]"}},
		{"BUG", "__put_cred", []uint64{m.sym("init_cred")}, []string{"kernel BUG at kernel/cred.c:"}},
		{"write to text", "clear_page", []uint64{abi.TextBase}, []string{
			"BUG: unable to handle page fault for address: ffffffff81000000", "#PF: supervisor write access in kernel mode", "#PF: error_code(0x0003) - permissions violation", "Oops: 0003 [#4]",
		}},
		{"jump to nothing", "call_timer_fn", []uint64{0, 0, 0}, []string{
			"BUG: kernel NULL pointer dereference, address: 0000000000000000", "#PF: supervisor instruction fetch in kernel mode", "RIP: 0010:0x0", "Code: Unable to access opcode bytes at 0xffffffffffffffd6.", " call_timer_fn+",
		}},
		{"division by zero", "reciprocal_value", []uint64{0}, []string{"divide error: 0000 [#6]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := m.task("victim")
			_, before := m.Log().Bounds()
			if v, err := k.Func(context.Background(), m.sym(c.f), 1, c.args...); !errors.Is(err, host.ErrDied) || int64(v) != -int64(syscall.EIO) {
				t.Errorf("%s: %d, %v", c.f, int64(v), err)
			}
			var text strings.Builder
			_, after := m.Log().Bounds()
			for i := before; i < after; i++ {
				r, _, _, _ := m.Log().Get(i)
				text.WriteString(r.Text + "\n")
			}
			says := append(c.says, "Comm: victim", "\nRIP: 0010:", "\nCode: ", "\nRAX: ", "\nCall Trace:\n <TASK>\n", "\n host_loop+", "\n </TASK>\nModules linked in:\n")
			if n != 4 {
				says = append(says, "\nRIP: 0010:"+c.f)
			}
			for _, w := range says {
				if !strings.Contains(text.String(), w) {
					t.Errorf("no %q in\n%s", w, text.String())
				}
			}
			m.want(12, "int_sqrt", 144)
		})
	}
	k := m.task("warned")
	if v := k.call("refcount_warn_saturate", m.zalloc(8), 1); int64(v) == -int64(syscall.EIO) {
		t.Error("a WARN killed the task")
	}
	k.call("int_sqrt", 1)
}

// TestTables calls the guest's functions about text.
func TestTables(t *testing.T) {
	m := boot(t, 1)
	img := m.Image()
	for _, e := range img.ExTable {
		m.want(m.call("search_kernel_exception_table", e.Insn), "search_exception_tables", e.Insn)
		if m.call("search_exception_tables", e.Insn) == 0 || m.call("search_exception_tables", e.Insn+1) != 0 {
			t.Errorf("exception entry at %#x", e.Insn)
		}
	}
	for _, b := range img.Bugs[:5] {
		if m.call("find_bug", b.Addr) == 0 {
			t.Errorf("BUG at %#x is not found", b.Addr)
		}
	}
	m.want(0, "find_bug", m.sym("vfs_read"))
	j := img.Jumps[0].Code
	m.want(1, "jump_label_text_reserved", j, j)
	m.want(1, "jump_label_text_reserved", j+4, j+4)
	m.want(0, "jump_label_text_reserved", m.sym("memcpy"), m.sym("memcpy"))
	s := img.StaticCalls[0].Addr
	m.want(1, "static_call_text_reserved", s+4, s+9)
	m.want(0, "static_call_text_reserved", m.sym("memcpy"), m.sym("memcpy"))
	m.want(0, "__static_call_return0")
	m.wantBool(1, "__virt_addr_valid", m.zalloc(8))
	m.wantBool(1, "__virt_addr_valid", m.sym("vfs_read"))
	m.wantBool(0, "__virt_addr_valid", 0x1000)
	m.wantBool(0, "__virt_addr_valid", 0xffffc90000000000)
	m.want(0x1000000, "__phys_addr", abi.TextBase)
	m.want(0x5000, "__phys_addr", abi.DirectMap+0x5000)
}

func TestPrintk(t *testing.T) {
	m := boot(t, 1)
	for _, c := range []struct {
		text  string
		level int
		want  string
	}{{"\x013error %d\n", 3, "error 5"}, {"plain %d\n", 4, "plain 5"}, {"\x01c\x016more %d\n", 6, "more 5"}} {
		_, seq := m.Log().Bounds()
		m.call("_printk", m.cstr(c.text), 5)
		r, ok, _, _ := m.Log().Get(seq)
		if !ok || r.Level != c.level || r.Text != c.want {
			t.Errorf("%q: %+v", c.text, r)
		}
	}
	m.want(3, "printk_get_level", m.cstr("\x013x"))
	m.wantInt(-int(syscall.EPERM), "printk_get_level", m.cstr("x"))
	_, seq := m.Log().Bounds()
	for _, text := range []string{"a line", "\x01c that goes\x01", "\x01c on\n", "no end", "the next\n", "\x01c nothing to go on with\n"} {
		m.call("_printk", m.cstr(text))
	}
	for _, want := range []string{"a line that goes\x01 on", "no end", "the next", " nothing to go on with"} {
		if r, ok, _, _ := m.Log().Get(seq); !ok || r.Text != want {
			t.Errorf("%+v, want %q", r, want)
		}
		seq++
	}
}

// TestPerCPU: memory of alloc_percpu is zeroed on each CPU, and separate.
func TestPerCPU(t *testing.T) {
	m := boot(t, 2)
	a, b := m.call("__alloc_percpu", 100, 8), m.call("__alloc_percpu", 100, 8)
	off := m.sym("__per_cpu_offset")
	for cpu := range uint64(2) {
		base := m.u64(off + 8*cpu)
		if m.u32(base+m.sym("cpu_number")) != uint32(cpu) || m.u64(base+m.sym("this_cpu_off")) != base {
			t.Errorf("CPU %d's own variables", cpu)
		}
		if m.u64(base+a) != 0 {
			t.Error("not clear")
		}
		m.put64(base+a, 0x1111*(cpu+1))
	}
	if b < a+100 {
		t.Errorf("%#x and %#x overlap", a, b)
	}
	m.call("free_percpu", a)
	m.want(a, "__alloc_percpu", 100, 8)
	m.want(0, "__alloc_percpu", 1<<20, 8)
	if m.u64(m.u64(off)+a) != 0 {
		t.Error("memory given again is not clear")
	}
}

func TestScheduler(t *testing.T) {
	m := boot(t, 2)
	k := m.task("moved")
	mask := m.zalloc(8)
	for cpu := range uint64(2) {
		m.put64(mask, 1<<cpu)
		if got := k.call("set_cpus_allowed_ptr", k.TaskAddr(), mask); got != 0 {
			t.Errorf("set_cpus_allowed_ptr: %d", int64(got))
		}
		for range 10 {
			k.call("schedule_timeout_uninterruptible", 1)
			if got := m.u32(k.TaskAddr() + 20); got != uint32(cpu) {
				t.Errorf("runs on CPU %d, allowed on %d only", got, cpu)
			}
		}
	}
	m.put64(mask, 1<<9)
	if got := k.call("set_cpus_allowed_ptr", k.TaskAddr(), mask); int32(got) != -int32(syscall.EINVAL) {
		t.Errorf("set_cpus_allowed_ptr with no online CPU: %d", int64(got))
	}
	if got := int64(m.call("sched_setaffinity", 1<<20, mask)); got != -int64(syscall.ESRCH) {
		t.Errorf("sched_setaffinity of nobody: %d", got)
	}
	before := m.call("nr_context_switches")
	k.call("msleep", 1)
	if after := m.call("nr_context_switches"); after < before+2 {
		t.Errorf("%d switches, there were %d", after, before)
	}
	if n := m.call("nr_running"); n < 1 || n > 3 {
		t.Errorf("nr_running: %d", n)
	}
	k.call("yield")
	k.call("schedule")
	m.want(0, "__cond_resched")
	load := m.zalloc(16)
	m.put64(load, 1024)
	m.want(5000, "__calc_delta", 5000, 1024, load)
	m.put64(load, 2048)
	m.want(2500, "__calc_delta", 5000, 1024, load)
	// More busy tasks than CPUs: all of them finish.
	var ends []<-chan uint64
	addr := m.sym("int_sqrt")
	for range 5 {
		k, c := m.task("busy"), make(chan uint64, 1)
		go func() {
			if v, err := k.Func(context.Background(), addr, 20000, 10201); err == nil {
				c <- v
			}
		}()
		ends = append(ends, c)
	}
	for _, c := range ends {
		if got := wait(t, "a busy task", c); got != 101 {
			t.Errorf("int_sqrt: %d", got)
		}
	}
}
