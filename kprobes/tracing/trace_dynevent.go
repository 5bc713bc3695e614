package tracing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
)

// dynEvent is dyn_event: what one line of dynamic_events defined.
type dynEvent interface {
	line() string // of dynamic_events
	// matches reports whether a deletion matches it: group and event may be empty, argv
	// are the words after them.
	matches(group, event string, argv []string) bool
	busy() error    // EBUSY if it is in use
	release() error // deletes it, or EBUSY; the caller removes it from Tracer.dynamic
}

// WriteKprobeEvents handles a write to kprobe_events: definitions and deletions, one in
// each line. It returns how many bytes were processed, or the first error.
func (t *Tracer) WriteKprobeEvents(data []byte) (int, error) {
	return t.runCommands(data, func(line string) error {
		if strings.HasPrefix(line, "-") {
			return t.release(line, isKprobe)
		}
		return t.createOne(line, t.createKprobe)
	})
}

// WriteDynamicEvents handles a write to dynamic_events, which accepts the lines of all
// kinds of events and one more form of deletion: "!p:EVENT ...".
func (t *Tracer) WriteDynamicEvents(data []byte) (int, error) {
	return t.runCommands(data, func(line string) error {
		if strings.HasPrefix(line, "-") || strings.HasPrefix(line, "!") {
			return t.release(line, isAny)
		}
		return t.createOne(line, t.creators()...)
	})
}

// creators are the kinds of events that dynamic_events accepts, in the order in which
// they are tried.
func (t *Tracer) creators() []func(line string) (bool, error) {
	kinds := []func(line string) (bool, error){t.createKprobe, t.createUprobe}
	if t.conf.has[release.Fprobes] && t.conf.Functions != nil {
		kinds = append(kinds, t.createFprobe)
	}
	if t.conf.has[release.Eprobes] {
		kinds = append([]func(line string) (bool, error){t.createEprobe}, kinds...)
	}
	if t.conf.has[release.HistTriggers] {
		kinds = append([]func(line string) (bool, error){t.createSynth}, kinds...)
	}
	return kinds
}

func isAny(dynEvent) bool { return true }

func isKprobe(d dynEvent) bool {
	_, ok := d.(*traceKprobe)
	return ok
}

// definitionRoom is an estimate of the bytes that a definition takes: arguments,
// format, its kprobe and an EventFile in each array.
const definitionRoom = 32 << 10

// createOne tries the kinds of events in turn until one accepts the line; create
// returns false if the line is not of its kind. It fails with EINVAL if none accepts
// it.
func (t *Tracer) createOne(line string, kinds ...func(line string) (bool, error)) error {
	if len(kstrtox.ArgvSplit(line)) == 0 {
		return nil
	}
	if err := t.checkRoom(definitionRoom); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, create := range kinds {
		if taken, err := create(line); taken {
			return err
		}
	}
	return fmt.Errorf("%q is no definition: %w", line, syscall.EINVAL)
}

// createKprobe is trace_kprobe_create: error_log records why a definition was refused.
func (t *Tracer) createKprobe(line string) (bool, error) {
	argv := kstrtox.ArgvSplit(line)
	derr, err := t.define(argv)
	if derr == nil {
		return !errors.Is(err, errCanceled), err
	}
	return true, t.refuse("trace_kprobe", derr, argv)
}

// refuse is trace_probe_log_err: error_log says why a definition was refused. It
// returns the error as the release reports it.
func (t *Tracer) refuse(subsystem string, derr *probe.Error, argv []string) error {
	derr.Reason = t.conf.releaseError(derr.Reason)
	command, column := derr.Caret(argv)
	t.global.logError(subsystem, derr.Text, command, column)
	return fmt.Errorf("%s: %w", command, derr)
}

// release is dyn_event_release: "-:[GROUP/][EVENT] [PLACE]" deletes all matching
// definitions of a kind. It fails with EINVAL if the colon or the name is missing, with
// ENOENT if nothing matches, and with EBUSY if an event that has no other probe is
// enabled.
func (t *Tracer) release(line string, kind func(dynEvent) bool) error {
	argv := kstrtox.ArgvSplit(line)
	colon := strings.IndexByte(argv[0], ':')
	if colon < 0 || argv[0][0] == '-' && colon != 1 {
		return fmt.Errorf("%q names no event: %w", line, syscall.EINVAL)
	}
	group, event, found := strings.Cut(argv[0][colon+1:], "/")
	if !found {
		group, event = "", group
	}
	if event == "" && (!found || !t.conf.has[release.GroupNames]) {
		return fmt.Errorf("%q names no event: %w", line, syscall.EINVAL)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	err := fmt.Errorf("no event %q: %w", argv[0][colon+1:], syscall.ENOENT)
	for _, d := range slices.Clone(t.dynamic) {
		if !kind(d) || found && group == "" || !d.matches(group, event, argv[1:]) {
			continue
		}
		if err = t.removeDynamic(d); err != nil {
			break
		}
	}
	t.resetCleared()
	return err
}

// removeDynamic deletes one definition. The caller holds mu and calls resetCleared
// afterwards.
func (t *Tracer) removeDynamic(d dynEvent) error {
	if err := d.release(); err != nil {
		return err
	}
	t.dynamic = slices.DeleteFunc(t.dynamic, func(x dynEvent) bool { return x == d })
	return nil
}

// ReleaseKprobes deletes all probes, as an open of kprobe_events with O_TRUNC does. If
// one of their events is enabled, it deletes nothing and returns EBUSY.
func (t *Tracer) ReleaseKprobes() error { return t.releaseAll(isKprobe) }

// ReleaseSynthetic does the same for synthetic_events.
func (t *Tracer) ReleaseSynthetic() error {
	return t.releaseAll(func(d dynEvent) bool { _, ok := d.(*synthEvent); return ok })
}

// ReleaseAll does the same for dynamic_events, and all kinds of events.
func (t *Tracer) ReleaseAll() error { return t.releaseAll(isAny) }

func (t *Tracer) releaseAll(kind func(dynEvent) bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.dynamic {
		if kind(d) {
			if err := d.busy(); err != nil {
				return err
			}
		}
	}
	defer t.resetCleared()
	for _, d := range slices.Clone(t.dynamic) {
		if kind(d) {
			if err := t.removeDynamic(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// resetCleared is tracing_reset_all_online_cpus: it drops the entries of deleted
// events, which can no longer be shown.
func (t *Tracer) resetCleared() {
	for _, a := range t.arrays {
		if !a.clearTrace {
			continue
		}
		a.clearTrace = false
		a.reset()
		if s := a.snapshot.Load(); s != nil {
			s.Reset(-1)
		}
	}
}

// KprobeEvent returns line i (from 0) of kprobe_events, the oldest definition first; ok
// is false if there is no such line.
func (t *Tracer) KprobeEvent(i int) (string, bool) { return t.show(i, (*traceKprobe).line) }

// KprobeProfile returns line i (from 0) of kprobe_profile: event, hits, misses.
func (t *Tracer) KprobeProfile(i int) (string, bool) { return t.show(i, (*traceKprobe).profile) }

func (t *Tracer) show(i int, line func(*traceKprobe) string) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i < 0 || i >= len(t.probes) {
		return "", false
	}
	return line(t.probes[i]), true
}

// DynamicEvent returns line i (from 0) of dynamic_events, the oldest definition first;
// ok is false if there is no such line.
func (t *Tracer) DynamicEvent(i int) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i < 0 || i >= len(t.dynamic) {
		return "", false
	}
	return t.dynamic[i].line(), true
}
