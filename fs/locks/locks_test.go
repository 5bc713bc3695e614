package locks

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func owner(id int) Owner { return Owner{Mount: "a", ID: uint64(id), PID: 100 + id} }

func lock(typ Type, start, end uint64, id int) Lock {
	return Lock{Type: typ, Start: start, End: end, Owner: owner(id)}
}

// held returns the locks of f as "owner type start-end".
func held(t *Table, f *File) []string {
	var list []string
	for _, l := range t.Held(f) {
		list = append(list, fmt.Sprintf("%d %c %d-%d", l.Owner.ID, "rw"[l.Type], l.Start, l.End))
	}
	return list
}

func TestSet(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  []Lock
		want []string
	}{
		{"neighbours become one", []Lock{lock(Read, 0, 4, 1), lock(Read, 5, 9, 1)}, []string{"1 r 0-9"}},
		{"a gap stays", []Lock{lock(Read, 0, 3, 1), lock(Read, 5, 9, 1)}, []string{"1 r 0-3", "1 r 5-9"}},
		{"a gap is filled", []Lock{lock(Read, 0, 3, 1), lock(Read, 5, 9, 1), lock(Read, 4, 4, 1)}, []string{"1 r 0-9"}},
		{"unlock the middle", []Lock{lock(Write, 0, EOF, 1), lock(Unlock, 10, 19, 1)}, []string{"1 w 0-9", fmt.Sprintf("1 w 20-%d", EOF)}},
		{"a read lock inside a write lock", []Lock{lock(Write, 0, 9, 1), lock(Read, 3, 4, 1)}, []string{"1 w 0-2", "1 r 3-4", "1 w 5-9"}},
		{"all becomes read", []Lock{lock(Write, 0, 2, 1), lock(Write, 5, 6, 1), lock(Read, 0, EOF, 1)}, []string{fmt.Sprintf("1 r 0-%d", EOF)}},
		{"owners stand together", []Lock{lock(Read, 5, 5, 1), lock(Read, 0, 9, 2), lock(Read, 1, 1, 1)}, []string{"1 r 1-1", "1 r 5-5", "2 r 0-9"}},
		{"to the last byte", []Lock{lock(Write, EOF, EOF, 1), lock(Write, 0, EOF-1, 1)}, []string{fmt.Sprintf("1 w 0-%d", EOF)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var tab Table
			var f File
			for _, l := range tt.set {
				if err := tab.Set(nil, &f, l); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tt.want, held(&tab, &f)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestConflict(t *testing.T) {
	var tab Table
	var f File
	must(t, tab.Set(nil, &f, lock(Read, 10, 19, 1)))
	must(t, tab.Set(nil, &f, lock(Read, 0, 99, 2)))
	err := tab.Set(nil, &f, lock(Write, 15, 15, 2))
	if e, ok := errors.AsType[*ConflictError](err); !ok || e.Held.Owner.ID != 1 || !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("write over another's read lock: %v", err)
	}
	if l, ok := tab.Get(&f, lock(Write, 0, EOF, 3)); !ok || l.Owner.ID != 1 || l.Start != 10 || l.End != 19 {
		t.Errorf("Get: %v %v", l, ok)
	}
	if _, ok := tab.Get(&f, lock(Read, 0, EOF, 3)); ok {
		t.Error("a read lock conflicts with a read lock")
	}
	tab.ReleaseOwner(&f, owner(1))
	must(t, tab.Set(nil, &f, lock(Write, 15, 15, 2)))
}

func TestTwoMounts(t *testing.T) {
	var tab Table
	var f File
	a, b := lock(Write, 0, 9, 1), lock(Write, 0, 9, 7)
	b.Owner.Mount = "b"
	must(t, tab.Set(nil, &f, a))
	if _, ok := tab.Get(&f, b); !ok {
		t.Error("a lock of another process on another mount is not seen")
	}
	b.Owner.PID = a.Owner.PID
	if _, ok := tab.Get(&f, b); ok {
		t.Error("a process conflicts with itself on another mount")
	}
	ofd := b
	ofd.Owner.OFD = true
	if _, ok := tab.Get(&f, ofd); !ok {
		t.Error("an open file description owns the locks of its process")
	}
	tab.ReleaseOwner(&f, b.Owner)
	if got := held(&tab, &f); got != nil {
		t.Errorf("after the close on another mount: %v", got)
	}
}

func TestFlock(t *testing.T) {
	var tab Table
	var f File
	must(t, tab.Flock(nil, &f, lock(Read, 0, EOF, 1)))
	must(t, tab.Flock(nil, &f, lock(Read, 0, EOF, 2)))
	if err := tab.Flock(nil, &f, lock(Write, 0, EOF, 1)); !errors.Is(err, syscall.EAGAIN) {
		t.Fatal(err)
	}
	if got := held(&tab, &f); len(got) != 1 { // flock(2): the original lock is lost
		t.Errorf("after a conversion that failed: %v", got)
	}
	must(t, tab.Flock(nil, &f, lock(Unlock, 0, EOF, 2)))
	must(t, tab.Flock(nil, &f, lock(Write, 0, EOF, 1)))
}

// TestWait: a waiter continues when the lock in its way is released, and not before.
func TestWait(t *testing.T) {
	var tab Table
	var f File
	must(t, tab.Set(nil, &f, lock(Write, 0, 9, 1)))
	got := make(chan error, 1)
	go func() { got <- tab.Set(make(chan struct{}), &f, lock(Write, 5, 14, 2)) }()
	waiters(t, &tab, &f, 1)
	must(t, tab.Set(nil, &f, lock(Unlock, 0, 4, 1)))
	waiters(t, &tab, &f, 1)
	must(t, tab.Set(nil, &f, lock(Unlock, 5, 9, 1)))
	must(t, <-got)
}

func TestInterrupt(t *testing.T) {
	var tab Table
	var f File
	must(t, tab.Set(nil, &f, lock(Write, 0, 9, 1)))
	cancel, got := make(chan struct{}), make(chan error, 1)
	go func() { got <- tab.Set(cancel, &f, lock(Read, 0, 0, 2)) }()
	waiters(t, &tab, &f, 1)
	close(cancel)
	if err := <-got; !errors.Is(err, syscall.EINTR) {
		t.Error(err)
	}
	waiters(t, &tab, &f, 0)
}

// TestDeadlock builds cycles of 2 to 10 owners over as many files; the last one to wait
// is refused, and after it releases its lock all others continue.
func TestDeadlock(t *testing.T) {
	for n := 2; n <= 10; n++ {
		var tab Table
		files := make([]File, n)
		got := make(chan error, n)
		for i := range n {
			must(t, tab.Set(nil, &files[i], lock(Write, 0, 0, i)))
		}
		for i := range n - 1 {
			go func() {
				got <- tab.Set(make(chan struct{}), &files[i+1], lock(Write, 0, 0, i))
				tab.ReleaseOwner(&files[i], owner(i))
				tab.ReleaseOwner(&files[i+1], owner(i))
			}()
			waiters(t, &tab, &files[i+1], 1)
		}
		if err := tab.Set(make(chan struct{}), &files[0], lock(Write, 0, 0, n-1)); !errors.Is(err, syscall.EDEADLK) {
			t.Fatalf("ring of %d: %v", n, err)
		}
		tab.ReleaseOwner(&files[n-1], owner(n-1))
		for range n - 1 {
			must(t, <-got)
		}
	}
}

// TestDeadlockLater creates a cycle by changing the blocker of a waiter.
func TestDeadlockLater(t *testing.T) {
	var tab Table
	var f, g File
	must(t, tab.Set(nil, &f, lock(Read, 0, 0, 1)))
	must(t, tab.Set(nil, &f, lock(Read, 0, 0, 2)))
	must(t, tab.Set(nil, &g, lock(Write, 0, 0, 3)))
	two := make(chan error, 1)
	go func() { two <- tab.Set(make(chan struct{}), &g, lock(Write, 0, 0, 2)) }()
	waiters(t, &tab, &g, 1)
	three := make(chan error, 1)
	go func() { three <- tab.Set(make(chan struct{}), &f, lock(Write, 0, 0, 3)) }() // waits for 1
	waiters(t, &tab, &f, 1)
	tab.ReleaseOwner(&f, owner(1)) // now for 2, who waits for 3
	if err := <-three; !errors.Is(err, syscall.EDEADLK) {
		t.Error(err)
	}
	tab.ReleaseOwner(&g, owner(3))
	must(t, <-two)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// waiters waits until n requests sleep on f.
func waiters(t *testing.T, tab *Table, f *File, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		tab.mu.Lock()
		got := len(f.waiting)
		tab.mu.Unlock()
		if got == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d wait, want %d", got, n)
		}
	}
}

// TestModel compares with a model that records the type and owner of each byte.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size, owners = 12, 3
		var tab Table
		var f File
		var model [size][owners]Type // Unlock: not held
		for i := range model {
			model[i] = [owners]Type{Unlock, Unlock, Unlock}
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				start := rapid.IntRange(0, size-1).Draw(t, "start")
				end := rapid.IntRange(start, size-1).Draw(t, "end")
				id := rapid.IntRange(0, owners-1).Draw(t, "owner")
				typ := rapid.SampledFrom([]Type{Read, Write, Unlock}).Draw(t, "type")
				free := true
				for b := start; b <= end; b++ {
					for o, h := range model[b] {
						free = free && (o == id || h == Unlock || typ == Unlock || typ == Read && h == Read)
					}
				}
				if err := tab.Set(nil, &f, lock(typ, uint64(start), uint64(end), id)); (err == nil) != free {
					t.Fatalf("got %v, the bytes are free: %v", err, free)
				}
				for b := start; free && b <= end; b++ {
					model[b][id] = typ
				}
			},
			"close": func(t *rapid.T) {
				id := rapid.IntRange(0, owners-1).Draw(t, "owner")
				tab.ReleaseOwner(&f, owner(id))
				for b := range model {
					model[b][id] = Unlock
				}
			},
			"": func(t *rapid.T) {
				var got [size][owners]Type
				for b := range got {
					got[b] = [owners]Type{Unlock, Unlock, Unlock}
				}
				list := tab.Held(&f)
				for i, l := range list {
					for b := l.Start; b <= l.End; b++ {
						if got[b][l.Owner.ID] != Unlock {
							t.Fatalf("byte %d is held twice: %v", b, held(&tab, &f))
						}
						got[b][l.Owner.ID] = l.Type
					}
					if i > 0 && list[i-1].Owner == l.Owner && list[i-1].Type == l.Type && list[i-1].End+1 >= l.Start {
						t.Fatalf("adjacent locks are not merged: %v", held(&tab, &f))
					}
				}
				if got != model {
					t.Fatalf("got %v, want %v", got, model)
				}
			},
		})
	})
}

// TestRace has owners lock, wait for, cancel and release ranges of two files; no two
// owners are ever in a range that one of them writes, and nobody waits forever.
func TestRace(t *testing.T) {
	const owners, rounds, size = 8, 300, 4
	var tab Table
	var files [2]File
	var readers, writers [2][size]atomic.Int32
	var wg sync.WaitGroup
	for id := range owners {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(id), 1))
			for range rounds {
				n, b := rnd.IntN(2), rnd.IntN(size)
				typ := Type(rnd.IntN(2))
				cancel := make(chan struct{})
				stop := time.AfterFunc(time.Duration(rnd.IntN(300))*time.Microsecond, func() { close(cancel) })
				err := tab.Set(cancel, &files[n], lock(typ, uint64(b), uint64(b), id))
				stop.Stop()
				if err != nil {
					if !errors.Is(err, syscall.EINTR) {
						t.Error(err) // no cycle is possible with one lock at a time
					}
					continue
				}
				if typ == Write {
					if writers[n][b].Add(1) != 1 || readers[n][b].Load() != 0 {
						t.Error("a write lock is not exclusive")
					}
					writers[n][b].Add(-1)
				} else {
					readers[n][b].Add(1)
					if writers[n][b].Load() != 0 {
						t.Error("a read lock and a write lock at once")
					}
					readers[n][b].Add(-1)
				}
				tab.ReleaseOwner(&files[n], owner(id))
			}
		})
	}
	wg.Wait()
	for i := range files {
		if len(files[i].held)+len(files[i].waiting) > 0 || len(tab.blocked) > 0 {
			t.Errorf("left behind: %v", files[i])
		}
	}
}
