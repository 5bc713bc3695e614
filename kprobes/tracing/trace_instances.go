package tracing

import (
	"fmt"
	"slices"
	"syscall"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
	"github.com/kprobefs/kprobefs/kprobes/tracing/trigger"
)

// localClock is the initial clock of an instance.
const localClock = 0

// Instances returns the arrays below instances, the oldest first.
func (t *Tracer) Instances() []*Array {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.arrays[1:])
}

// fileBytes is what an event takes in an array, without filter and triggers.
const fileBytes = int(unsafe.Sizeof(EventFile{}) + unsafe.Sizeof(trigger.Triggers{}))

// MakeInstance is instance_mkdir: it creates an array of that name, with the buffer
// size, the options and the events of the global one, but with all events disabled. It
// fails with EEXIST if the name is in use, and with ENOMEM if there is no memory for
// the buffers.
func (t *Tracer) MakeInstance(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.instance(name) >= 0 {
		return fmt.Errorf("instance %s: %w", name, syscall.EEXIST)
	}
	pages := ring.PagesFor(ring.PageSize, expandedSize)
	if err := t.checkRoom(ring.PageSize*pages*t.conf.Machine.CPUs() + fileBytes*len(t.global.files)); err != nil {
		return fmt.Errorf("instance %s: %w", name, err)
	}
	a := t.newArray(pages, localClock)
	if t.conf.has[release.OwnExpansion] {
		full := true
		a.expanded = &full
	}
	t.generations++
	a.Name, a.Gen = name, t.generations
	a.options.inherit(&t.global.options)
	if a.has(optUserStacktrace) {
		t.userTraces.Add(1)
	}
	a.addAll(t.global.Subsystems(), a.newFile)
	t.arrays = append(t.arrays, a)
	return nil
}

// instance returns the index in arrays of the instance of that name, or -1.
func (t *Tracer) instance(name string) int {
	return slices.IndexFunc(t.arrays, func(a *Array) bool { return a != t.global && a.Name == name })
}

// RemoveInstance is instance_rmdir. It fails with ENOENT if there is no such instance,
// and with EBUSY if one of its files is open.
func (t *Tracer) RemoveInstance(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.instance(name)
	if i < 0 {
		return fmt.Errorf("instance %s: %w", name, syscall.ENOENT)
	}
	a := t.arrays[i]
	if a.users > 0 {
		return fmt.Errorf("instance %s has %d users: %w", name, a.users, syscall.EBUSY)
	}
	if err := a.ftrace.Stop(); err != nil {
		return err
	}
	for _, f := range a.files {
		f.remove()
	}
	if a.has(optPrintkDest) {
		_ = a.setPrintkDest(false) // fails only for the global array
	}
	_ = a.setOption(optUserStacktrace, false)
	t.arrays = slices.Delete(slices.Clone(t.arrays), i, i+1)
	a.gone = true
	// The host's kernel may keep the directory in its cache for a long time.
	a.buffer.Free()
	a.freeSnapshot()
	a.forgetEvents()
	return nil
}

// remove is __trace_remove_event_dirs for one event's file.
func (f *EventFile) remove() {
	f.triggers.Drop()
	f.softRefs = 0
	f.flags.And(^uint32(fileSoftMode | fileSoftDisabled))
	f.stop()
}

// Get is trace_array_get, with which the open of most files of an array starts: it
// prevents the removal of the instance. It fails with ENODEV if the instance is gone.
func (a *Array) Get() error {
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	if a.gone {
		return fmt.Errorf("instance %s is gone: %w", a.Name, syscall.ENODEV)
	}
	a.users++
	return nil
}

// Put is trace_array_put.
func (a *Array) Put() {
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	a.users--
}

// Gone reports whether the instance has been removed.
func (a *Array) Gone() bool {
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	return a.gone
}
