package kprobefs_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel/module"
)

// editedRuns loads damaged modules into a kernel, where their functions run. A module whose
// init or exit function oopses stays on the list with its name, as on Linux
// (integration/testdata/modules/debian/crashes.txtar), and a later one of this name would be
// refused before it is looked at. So each begins on a kernel without modules: one
// that has kept something, or has panicked, is replaced.
type editedRuns struct {
	kernel *kprobefs.Kernel

	tried    int // objects that the loader was given, on a kernel without modules
	refused  int // those that it did not take
	ran      int // those whose init function returned
	stayed   int // those that died in a function of theirs, or cannot be unloaded
	panicked int // those with which the kernel died
}

// needKernel returns a kernel that lives and has no modules.
func (r *editedRuns) needKernel(t *testing.T) *kprobefs.Kernel {
	t.Helper()
	if r.kernel != nil && (panicked(r.kernel) || len(r.kernel.Modules.List()) > 0) {
		r.close(t)
	}
	if r.kernel == nil {
		s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1})
		if err != nil {
			t.Fatal(err)
		}
		r.kernel = s
	}
	return r.kernel
}

func (r *editedRuns) close(t *testing.T) {
	t.Helper()
	if r.kernel != nil {
		within(t, "Close", func() { _ = r.kernel.Close() })
		r.kernel = nil
	}
}

// run loads an object and unloads it again.
func (r *editedRuns) run(t *testing.T, b []byte) {
	t.Helper()
	s := r.needKernel(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var name string
	var err error
	within(t, "Insert", func() { name, err = s.Modules.Insert(ctx, b, module.Options{}) })
	r.tried++
	var errno syscall.Errno
	switch {
	case panicked(s):
		r.panicked++
	case err == nil:
		r.ran++
		within(t, "Delete", func() { err = s.Modules.Delete(ctx, name) })
		if err != nil {
			r.stayed++
		}
	case errors.Is(err, module.ErrStays):
		r.stayed++
	case !errors.As(err, &errno):
		t.Fatalf("an error without errno: %v", err)
	default:
		r.refused++
		if l := s.Modules.List(); len(l) != 0 {
			t.Fatalf("refused (%v), and listed: %+v", err, l)
		}
	}
}

// randomEdits returns what mutate does to an object, at random.
func randomEdits(random *rand.Rand) []byte {
	edits := make([]byte, editSize*(1+random.IntN(maxEdits)))
	for i := range edits {
		edits[i] = byte(random.Uint32())
	}
	return edits
}

// TestEditedModulesRun: of damaged modules each gets to the loader, also those that come
// after one that has oopsed, and all ends are met: they are refused, run, and die.
func TestEditedModulesRun(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var r editedRuns
	defer r.close(t)
	tries := 200
	if testing.Short() {
		tries = 60
	}
	for i := range tries {
		r.run(t, mutate(t, ko(t, fuzzedModules[i%len(fuzzedModules)]), randomEdits(random)))
	}
	t.Logf("%d tried: %d refused, %d ran, %d stayed, %d kernels died", r.tried, r.refused, r.ran, r.stayed, r.panicked)
	if r.tried != tries || r.refused < tries/20 || r.ran < tries/20 || r.stayed+r.panicked == 0 {
		t.Errorf("too few of a kind: %+v", r)
	}
}

// TestNameOfDeadModule: a module whose init function has died keeps its name, and one that
// was refused does not.
func TestNameOfDeadModule(t *testing.T) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	damaged := append([]byte(nil), ko(t, "kprobe_target")...)
	damaged = damaged[:len(damaged)-64] // the last section header is missing
	if _, err := s.Modules.Load(ctx, damaged); err == nil {
		t.Fatal("a cut object was loaded")
	}
	load(t, s, "kprobe_target")
	if err := s.Modules.Delete(ctx, "kprobe_target"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Modules.Load(ctx, ko(t, "kprobe_oops_init")); !errors.Is(err, module.ErrStays) {
		t.Fatalf("an init function that oopses: %v", err)
	}
	if _, err := s.Modules.Load(ctx, ko(t, "kprobe_oops_init")); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("once more: %v", err)
	}
	load(t, s, "kprobe_target")
}

// FuzzModuleRun runs damaged modules, each in a kernel without modules.
func FuzzModuleRun(f *testing.F) {
	var seeds [][]byte
	for i, name := range fuzzedModules {
		seeds = append(seeds, ko(f, name))
		for kind := range byte(8) {
			f.Add(uint8(i), []byte{kind, 7, 1, kind, 1, 2, 0, 0})
		}
	}
	var r editedRuns
	f.Fuzz(func(t *testing.T, which uint8, edits []byte) {
		r.run(t, mutate(t, seeds[int(which)%len(seeds)], edits))
	})
}
