package dynevent

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
	release() error // deletes it, or EBUSY; the caller removes it from Registry.list
}

// WriteKprobeEvents handles a write to kprobe_events: definitions and deletions, one in
// each line. It returns how many bytes were processed, or the first error.
func (r *Registry) WriteKprobeEvents(data []byte) (int, error) {
	return r.runCommands(data, func(line string) error {
		if strings.HasPrefix(line, "-") {
			return r.release(line, isKprobe)
		}
		return r.createOne(line, r.createKprobe)
	})
}

// WriteDynamicEvents handles a write to dynamic_events, which accepts the lines of all
// kinds of events and one more form of deletion: "!p:EVENT ...".
func (r *Registry) WriteDynamicEvents(data []byte) (int, error) {
	return r.runCommands(data, func(line string) error {
		if strings.HasPrefix(line, "-") || strings.HasPrefix(line, "!") {
			return r.release(line, isAny)
		}
		return r.createOne(line, r.creators()...)
	})
}

// creators are the kinds of events that dynamic_events accepts, in the order in which
// they are tried.
func (r *Registry) creators() []func(line string) (bool, error) {
	kinds := []func(line string) (bool, error){r.createKprobe, r.createUprobe}
	if r.conf.Has[release.Fprobes] && r.conf.Functions != nil {
		kinds = append(kinds, r.createFprobe)
	}
	if r.conf.Has[release.Eprobes] {
		kinds = append([]func(line string) (bool, error){r.createEprobe}, kinds...)
	}
	if r.conf.Has[release.HistTriggers] {
		kinds = append([]func(line string) (bool, error){r.createSynth}, kinds...)
	}
	return kinds
}

func isAny(dynEvent) bool { return true }

func isKprobe(d dynEvent) bool {
	_, ok := d.(*traceKprobe)
	return ok
}

// definitionRoom is an estimate of the bytes that a definition takes: arguments, format and
// its kprobe. Events.Room adds its file in each array.
const definitionRoom = 32 << 10

// createOne tries the kinds of events in turn until one accepts the line; create
// returns false if the line is not of its kind. It fails with EINVAL if none accepts
// it.
func (r *Registry) createOne(line string, kinds ...func(line string) (bool, error)) error {
	if len(kstrtox.ArgvSplit(line)) == 0 {
		return nil
	}
	r.conf.Mutex.Lock()
	defer r.conf.Mutex.Unlock()
	if err := r.conf.Events.Room(definitionRoom); err != nil {
		return err
	}
	for _, create := range kinds {
		if taken, err := create(line); taken {
			return err
		}
	}
	return fmt.Errorf("%q is no definition: %w", line, syscall.EINVAL)
}

// createKprobe is trace_kprobe_create: error_log records why a definition was refused.
func (r *Registry) createKprobe(line string) (bool, error) {
	argv := kstrtox.ArgvSplit(line)
	derr, err := r.define(argv)
	if derr == nil {
		return !errors.Is(err, errCanceled), err
	}
	return true, r.refuse("trace_kprobe", derr, argv)
}

// refuse is trace_probe_log_err: error_log says why a definition was refused. It
// returns the error as the release reports it.
func (r *Registry) refuse(subsystem string, derr *probe.Error, argv []string) error {
	derr.Reason = r.releaseError(derr.Reason)
	command, column := derr.Caret(argv)
	r.conf.Events.LogError(subsystem, derr.Text, command, column)
	return fmt.Errorf("%s: %w", command, derr)
}

// release is dyn_event_release: "-:[GROUP/][EVENT] [PLACE]" deletes all matching
// definitions of a kind. It fails with EINVAL if the colon or the name is missing, with
// ENOENT if nothing matches, and with EBUSY if an event that has no other probe is
// enabled.
func (r *Registry) release(line string, kind func(dynEvent) bool) error {
	argv := kstrtox.ArgvSplit(line)
	colon := strings.IndexByte(argv[0], ':')
	if colon < 0 || argv[0][0] == '-' && colon != 1 {
		return fmt.Errorf("%q names no event: %w", line, syscall.EINVAL)
	}
	group, event, found := strings.Cut(argv[0][colon+1:], "/")
	if !found {
		group, event = "", group
	}
	if event == "" && (!found || !r.conf.Has[release.GroupNames]) {
		return fmt.Errorf("%q names no event: %w", line, syscall.EINVAL)
	}
	r.conf.Mutex.Lock()
	defer r.conf.Mutex.Unlock()
	err := fmt.Errorf("no event %q: %w", argv[0][colon+1:], syscall.ENOENT)
	for _, d := range slices.Clone(r.list) {
		if !kind(d) || found && group == "" || !d.matches(group, event, argv[1:]) {
			continue
		}
		if err = r.removeDynamic(d); err != nil {
			break
		}
	}
	r.conf.Events.ResetCleared()
	return err
}

// removeDynamic deletes one definition. The caller holds mu and calls resetCleared
// afterwards.
func (r *Registry) removeDynamic(d dynEvent) error {
	if err := d.release(); err != nil {
		return err
	}
	if i := slices.Index(r.list, d); i >= 0 {
		r.list = slices.Delete(r.list, i, i+1)
	}
	return nil
}

// ReleaseKprobes deletes all probes, as an open of kprobe_events with O_TRUNC does. If
// one of their events is enabled, it deletes nothing and returns EBUSY.
func (r *Registry) ReleaseKprobes() error { return r.releaseAll(isKprobe) }

// ReleaseSynthetic does the same for synthetic_events.
func (r *Registry) ReleaseSynthetic() error {
	return r.releaseAll(func(d dynEvent) bool { _, ok := d.(*SynthEvent); return ok })
}

// ReleaseAll does the same for dynamic_events, and all kinds of events.
func (r *Registry) ReleaseAll() error { return r.releaseAll(isAny) }

func (r *Registry) releaseAll(kind func(dynEvent) bool) error {
	r.conf.Mutex.Lock()
	defer r.conf.Mutex.Unlock()
	for _, d := range r.list {
		if kind(d) {
			if err := d.busy(); err != nil {
				return err
			}
		}
	}
	defer r.conf.Events.ResetCleared()
	for _, d := range slices.Clone(r.list) {
		if kind(d) {
			if err := r.removeDynamic(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// KprobeEvent returns line i (from 0) of kprobe_events, the oldest definition first; ok
// is false if there is no such line.
func (r *Registry) KprobeEvent(i int) (string, bool) { return r.show(i, (*traceKprobe).line) }

// KprobeProfile returns line i (from 0) of kprobe_profile: event, hits, misses.
func (r *Registry) KprobeProfile(i int) (string, bool) { return r.show(i, (*traceKprobe).profile) }

func (r *Registry) show(i int, line func(*traceKprobe) string) (string, bool) {
	r.conf.Mutex.Lock()
	defer r.conf.Mutex.Unlock()
	if i < 0 || i >= len(r.kprobes) {
		return "", false
	}
	return line(r.kprobes[i]), true
}

// DynamicEvent returns line i (from 0) of dynamic_events, the oldest definition first;
// ok is false if there is no such line.
func (r *Registry) DynamicEvent(i int) (string, bool) {
	r.conf.Mutex.Lock()
	defer r.conf.Mutex.Unlock()
	if i < 0 || i >= len(r.list) {
		return "", false
	}
	return r.list[i].line(), true
}

// writeBufferSize is WRITE_BUFSIZE: commands are processed in chunks of that size.
const writeBufferSize = 4096

// runCommands is trace_parse_run_command: it runs each line of data, without its
// comment, and returns how many bytes were processed. It stops at the first line that
// fails and returns that line's error, whatever came before.
func (r *Registry) runCommands(data []byte, run func(line string) error) (int, error) {
	done := 0
	for done < len(data) {
		chunk := kstrtox.CString(data[done:min(len(data), done+writeBufferSize-1)])
		for first := true; ; first = false {
			line, _, whole := strings.Cut(chunk, "\n")
			size := len(line) + 1
			if !whole {
				size--
				if done+size < len(data) {
					if !first {
						break // the line continues in the next chunk
					}
					r.conf.Machine.Printk(4, "Line length is too long: Should be less than %d", writeBufferSize-2)
					return 0, fmt.Errorf("a line of more than %d bytes: %w", writeBufferSize-2, syscall.EINVAL)
				}
			}
			line, _, _ = strings.Cut(line, "#")
			if err := run(line); err != nil {
				return 0, err
			}
			done += size
			if done >= len(data) {
				break
			}
			chunk = chunk[size:]
		}
	}
	return done, nil
}
