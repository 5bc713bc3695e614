package tracing

import (
	"fmt"
	"slices"
	"syscall"
)

// localClock is what an instance's clock is until it is set.
const localClock = 0

// Instances is the arrays below instances, the oldest first.
func (t *Tracer) Instances() []*Array {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.arrays[1:])
}

// MakeInstance is instance_mkdir: an array of that name, with the buffer size, the
// options and the events of the global one, but all events off. EEXIST: there is
// one; ENOMEM: its buffers would be too much beside the others.
func (t *Tracer) MakeInstance(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.instance(name) >= 0 {
		return fmt.Errorf("instance %s: %w", name, syscall.EEXIST)
	}
	pages := pagesFor(expandedSize)
	if err := t.afford(nil, pageSize*pages*t.conf.Machine.CPUs()); err != nil {
		return fmt.Errorf("instance %s: %w", name, err)
	}
	a := t.newArray(pages, localClock)
	if t.conf.OwnExpansion {
		full := true
		a.expanded = &full
	}
	t.generations++
	a.Name, a.Gen = name, t.generations
	a.options.Store(t.global.options.Load() &^ uint64(forkOptions))
	for _, s := range t.subsystems {
		for _, e := range s.events {
			a.files[e] = &EventFile{Event: e, array: a}
		}
	}
	t.arrays = append(t.arrays, a)
	a.publish()
	return nil
}

// instance is the index in arrays of the one of that name, or -1.
func (t *Tracer) instance(name string) int {
	return slices.IndexFunc(t.arrays, func(a *Array) bool { return a != t.global && a.Name == name })
}

// RemoveInstance is instance_rmdir. ENOENT: there is none of that name; EBUSY: a
// file of it is open.
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
	if err := a.stopFunctions(); err != nil {
		return err
	}
	for _, f := range a.files {
		f.remove()
	}
	if a.has(optPrintkDest) {
		_ = a.setPrintkDest(false) // only the global one is refused
	}
	t.arrays = slices.Delete(slices.Clone(t.arrays), i, i+1)
	a.gone = true
	a.systems.Store(&[]Subsystem{})
	return nil
}

// remove is __trace_remove_event_dirs for one event.
func (f *EventFile) remove() {
	f.setTriggers(nil)
	f.softRefs = 0
	f.flags.And(^uint32(fileSoftMode | fileSoftDisabled))
	f.stop()
}

// Get is trace_array_get, which the open of most files of an array begins with:
// while it is held the instance cannot be removed. ENODEV: it is gone.
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

// Gone says whether the instance was removed.
func (a *Array) Gone() bool {
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	return a.gone
}
