package guest_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel"
)

const (
	oRdwr     = 2
	diskPath  = "/dev/vda"
	diskBytes = 8192 * 512
)

// diskFile is the disk, opened by a task.
type diskFile struct {
	*machine
	k    *task
	file uint64
	pos  uint64 // where the position is kept
}

func (m *machine) openDisk(k *task) *diskFile {
	m.t.Helper()
	path := m.zalloc(64)
	m.put(path, append([]byte(diskPath), 0))
	file := k.call("filp_open", path, oRdwr, 0)
	if int64(file) < 0 && int64(file) > -4096 {
		m.t.Fatalf("open: %d", int64(file))
	}
	return &diskFile{m, k, file, m.zalloc(8)}
}

func (f *diskFile) close() { f.k.call("filp_close", f.file, 0) }

func (f *diskFile) transfer(function string, at uint64, p []byte, write bool) int {
	f.t.Helper()
	buf := f.zalloc(len(p))
	f.put64(f.pos, at)
	if write {
		f.put(buf, p)
	}
	n := int(int64(f.k.call(function, f.file, buf, uint64(len(p)), f.pos)))
	if !write && n > 0 {
		copy(p, f.bytes(buf, n))
	}
	f.call("kfree", buf)
	return n
}

func (f *diskFile) read(at uint64, p []byte) int  { return f.transfer("kernel_read", at, p, false) }
func (f *diskFile) write(at uint64, p []byte) int { return f.transfer("kernel_write", at, p, true) }

const blockEvents = "block_bio_queue block_bio_backmerge block_getrq block_rq_insert block_rq_issue block_rq_complete block_plug block_unplug block_dirty_buffer block_io_start block_io_done irq_handler_entry irq_handler_exit"

// TestDisk: what is written to the disk is read again, also when the pages are new, and the
// events say which requests there were.
func TestDisk(t *testing.T) {
	for _, release := range []string{"5.10", "6.1", "6.12"} {
		for cpus := 1; cpus <= 2; cpus++ {
			t.Run(fmt.Sprintf("%s,%d", release, cpus), func(t *testing.T) { disk(t, release, cpus) })
		}
	}
}

func disk(t *testing.T, release string, cpus int) {
	m := bootRelease(t, release, cpus, nil)
	r := m.record(blockEvents)
	k := m.task("disk")
	f := m.openDisk(k)
	p := make([]byte, 3*4096)
	if n := f.read(0, p); n != len(p) || !bytes.Equal(p, make([]byte, len(p))) {
		t.Fatalf("read of a new disk: %d", n)
	}
	r.requests(release, cpus, "read", request{0, 64, "RA"})
	if n := f.read(8192, p[:100]); n != 100 {
		t.Fatalf("read of what is there: %d", n)
	}
	r.requests(release, cpus, "read again")
	// Four pages that follow each other, and a part of one elsewhere, which is read first.
	const pages, part = diskBytes / 2, 1<<20 + 100
	rand.New(rand.NewSource(1)).Read(p)
	if n := f.write(pages, p) + f.write(pages+uint64(len(p)), p[:4096]); n != 4*4096 {
		t.Fatalf("write: %d", n)
	}
	r.requests(release, cpus, "write of whole pages")
	if n := f.write(part, p[:50]); n != 50 {
		t.Fatalf("write of a part: %d", n)
	}
	r.requests(release, cpus, "write of a part", request{1 << 20 / 512, 8, "R"})
	if got := len(r.of("block_dirty_buffer")); got != 5 {
		t.Errorf("%d dirty buffers, want 5", got)
	}
	if e := int32(k.call("vfs_fsync_range", f.file, 0, 1<<62, 0)); e != 0 {
		t.Fatalf("fsync: %d", e)
	}
	r.requests(release, cpus, "fsync", request{1 << 20 / 512, 8, "WS"}, request{pages / 512, 32, "WS"})
	if got := len(r.of("block_bio_backmerge")); got != 3 {
		t.Errorf("%d bios were merged, want 3", got)
	}
	if n := f.write(diskBytes-100, p[:200]); n != 100 {
		t.Errorf("write beyond the end: %d", n)
	}
	r.requests(release, cpus, "write at the end", request{8192 - 8, 8, "R"})
	if n := f.write(diskBytes, p[:1]); n != -28 {
		t.Errorf("write behind the end: %d", n)
	}
	if n := f.read(diskBytes, p[:1]); n != 0 {
		t.Errorf("read behind the end: %d", n)
	}
	f.close()
	k.call("task_work_run")
	r.requests(release, cpus, "close", request{8192 - 8, 8, "WS"})

	// The pages are gone: what is read now comes from the disk.
	f = m.openDisk(k)
	got := make([]byte, len(p))
	if n := f.read(pages, got); n != len(got) || !bytes.Equal(got, p) {
		t.Errorf("read of what was written: %d bytes, and others", n)
	}
	r.requests(release, cpus, "read after close", request{pages / 512, 24, "RA"})
	if n := f.read(1<<20, got[:200]); n != 200 || !bytes.Equal(got[100:150], p[:50]) || !bytes.Equal(got[:100], make([]byte, 100)) {
		t.Errorf("read of the part: %d bytes, %x", n, got[:200])
	}
	r.requests(release, cpus, "read of the part", request{1 << 20 / 512, 8, "RA"})
	f.close()
	k.call("task_work_run")
	r.requests(release, cpus, "close of what is clean")
	r.interrupts()
}

// TestWriteback: a page that has been dirty for 30 seconds is written, by a kworker that
// looks every 5 seconds.
func TestWriteback(t *testing.T) {
	clock := kernel.NewVirtualClock(0)
	m := bootRelease(t, "6.1", 1, clock)
	k := m.task("disk")
	f := m.openDisk(k)
	r := m.record("writeback_start writeback_written block_rq_issue")
	if n := f.write(4096, make([]byte, 4096)); n != 4096 {
		t.Fatalf("write: %d", n)
	}
	began := clock.Now()
	for end := time.Now().Add(patience); len(r.of("block_rq_issue")) == 0; time.Sleep(time.Millisecond) {
		clock.Advance(100 * time.Millisecond)
		if time.Now().After(end) {
			t.Fatalf("nothing is written after %v", time.Duration(clock.Now()-began))
		}
	}
	if after := time.Duration(clock.Now() - began); after < 30*time.Second {
		t.Errorf("written after %v", after)
	}
	starts := r.of("writeback_start")
	if len(starts) < 2 {
		t.Errorf("writeback began %d times", len(starts))
	}
	le := binary.LittleEndian
	for _, rec := range starts {
		name, _, _ := bytes.Cut(rec[8:40], []byte{0})
		if string(name) != "254:0" || le.Uint32(rec[56:]) != 1 || le.Uint32(rec[68:]) != 3 {
			t.Errorf("writeback of %q, kupdate %d, reason %d", name, le.Uint32(rec[56:]), le.Uint32(rec[68:]))
		}
	}
	issued := r.of("block_rq_issue")[0]
	if comm := issued[40:56]; !bytes.HasPrefix(comm, []byte("kworker/u")) || le.Uint64(issued[16:]) != 8 {
		t.Errorf("sector %d is written by %q", le.Uint64(issued[16:]), comm)
	}
	f.close()
}

// A request is what the events of one say.
type request struct {
	sector, sectors uint64
	rwbs            string
}

const diskNumber = 254 << 20

// requests checks which requests were inserted, issued and completed since the last call.
// Requests of one plug may be completed in any order.
//
// With one CPU all go to the scheduler; with more, those that a task waits for while it holds
// others back are inserted, until 6.12, and all others are issued at once.
func (r *recorder) requests(release string, cpus int, what string, want ...request) {
	r.t.Helper()
	inserted := slices.DeleteFunc(slices.Clone(want), func(q request) bool { return cpus > 1 && (q.rwbs != "R" || release == "6.12") })
	rwbs, text := 32, 56
	if release == "6.12" {
		rwbs, text = 34, 60
	}
	for _, name := range []string{"block_rq_insert", "block_rq_issue", "block_rq_complete"} {
		var got []request
		for _, rec := range r.take(name) {
			le := binary.LittleEndian
			flags, _, _ := bytes.Cut(rec[rwbs:rwbs+8], []byte{0})
			got = append(got, request{le.Uint64(rec[16:]), uint64(le.Uint32(rec[24:])), string(flags)})
			if dev := le.Uint32(rec[8:]); dev != diskNumber {
				r.t.Errorf("%s: %s has device %#x", what, name, dev)
			}
			if name == "block_rq_complete" {
				if e := le.Uint32(rec[28:]); e != 0 {
					r.t.Errorf("%s: %s has error %d", what, name, int32(e))
				}
				continue
			}
			if n := le.Uint32(rec[28:]); n != le.Uint32(rec[24:])*512 {
				r.t.Errorf("%s: %s has %d bytes", what, name, n)
			}
			comm, _, _ := bytes.Cut(rec[rwbs+8:rwbs+24], []byte{0})
			if loc := le.Uint32(rec[text:]); string(comm) != "disk" || loc>>16 != 1 {
				r.t.Errorf("%s: %s is by %q, with a text of %d bytes", what, name, comm, loc>>16)
			}
		}
		slices.SortFunc(got, func(a, b request) int { return int(a.sector) - int(b.sector) })
		want := want
		if name == "block_rq_insert" {
			want = inserted
		}
		if !slices.Equal(got, want) {
			r.t.Errorf("%s: %s tells of %v, want %v", what, name, got, want)
		}
	}
}

// take returns the records of an event since the last call.
func (r *recorder) take(name string) [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	recs := r.records[name]
	delete(r.records, name)
	return recs
}

// interrupts checks that the disk's interrupt was handled, and by whom.
func (r *recorder) interrupts() {
	entries, exits := r.of("irq_handler_entry"), r.of("irq_handler_exit")
	if len(entries) == 0 || len(entries) != len(exits) {
		r.t.Errorf("%d interrupts begin, %d end", len(entries), len(exits))
	}
	for i, rec := range entries {
		loc := binary.LittleEndian.Uint32(rec[12:])
		name := string(rec[loc&0xffff:][:loc>>16])
		if irq := binary.LittleEndian.Uint32(rec[8:]); irq != 24 || name != "virtio0-req.0\x00" {
			r.t.Errorf("interrupt %d of %q", irq, name)
		}
		if i == 0 && binary.LittleEndian.Uint32(exits[0][12:]) != 1 {
			r.t.Error("the first interrupt was not handled")
		}
	}
	for _, name := range []string{"block_bio_queue", "block_getrq", "block_plug", "block_unplug"} {
		if len(r.of(name)) == 0 {
			r.t.Errorf("no %s", name)
		}
	}
}
