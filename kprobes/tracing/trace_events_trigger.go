package tracing

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kprobes/tracing/cmdlines"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/hist"
	"github.com/kprobefs/kprobefs/kprobes/tracing/trigger"
)

// hitTriggers are a file's triggers as recording calls them, in handler context.
type hitTriggers interface {
	// NeedsEntry reports whether one of them needs the entry of the hit. Otherwise all
	// run before there is an entry.
	NeedsEntry() bool
	// Run runs them. s is nil if there is no entry. post says that After must be called
	// after the recording.
	Run(trap *abi.Trap, s *filter.Subject) (post bool)
	After(s *filter.Subject)
}

// newFile creates the file of an event in this array.
func (a *Array) newFile(e *Event) *EventFile {
	f := &EventFile{Event: e, array: a}
	f.triggers = trigger.New(&a.tracer.triggering, triggerFile{f})
	return f
}

// Triggers returns the lines of the file trigger, or the names of the commands if it
// has no trigger. It fails with ENODEV if the event is gone.
func (f *EventFile) Triggers() (lines []string, err error) {
	err = f.locked(func() error { lines = f.triggers.Lines(); return nil })
	return lines, err
}

// WriteTrigger handles a write to the file trigger (trigger.Triggers.Write). It fails
// with EINVAL for a page or more, with ENODEV if the event is gone, and with ENOMEM if
// there is no memory for a new trigger.
func (f *EventFile) WriteTrigger(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if len(data) >= abi.PageSize {
		return fmt.Errorf("a trigger of %d bytes: %w", len(data), syscall.EINVAL)
	}
	return f.locked(func() error {
		text := kstrtox.CString(data)
		if !strings.HasPrefix(kstrtox.SkipSpaces(text), "!") {
			if err := f.tracer.checkText(len(text)); err != nil {
				return err
			}
		}
		return f.triggers.Write(text)
	})
}

// ClearTriggers removes the hist triggers, as an open of the file trigger with O_TRUNC
// does, unless another trigger refers to one of them. Other triggers stay.
func (f *EventFile) ClearTriggers() {
	f.tracer.mu.Lock()
	defer f.tracer.mu.Unlock()
	f.triggers.Clear()
}

// Hist returns the text of the file hist: the table of each hist trigger. It fails with
// ENODEV if the event is gone.
func (f *EventFile) Hist() (text string, err error) {
	err = f.locked(func() error { text = f.triggers.Hists(); return nil })
	return text, err
}

// locked calls do with Tracer.mu held. It fails with ENODEV if the event is gone.
func (f *EventFile) locked(do func() error) error {
	f.tracer.mu.Lock()
	defer f.tracer.mu.Unlock()
	if f.gone.Load() {
		return f.goneError()
	}
	return do()
}

// triggerFile is an EventFile as its triggers see it.
type triggerFile struct{ f *EventFile }

var _ trigger.File = triggerFile{}

func (x triggerFile) Title() (group, event string)      { return x.f.Group, x.f.Name }
func (x triggerFile) Members() map[string]*field.Member { return x.f.entryMembers() }
func (x triggerFile) Array() hist.Array                 { return histArray{x.f.array} }
func (x triggerFile) SetSoft(on bool) error             { return x.f.setSoft(on) }
func (x triggerFile) AllocSnapshot() error              { return x.f.array.allocSnapshot() }
func (x triggerFile) Recording() bool                   { return x.f.array.recording() }
func (x triggerFile) SetRecording(on bool)              { x.f.array.buffer.SetOn(on) }
func (x triggerFile) Recorded() bool                    { return x.f.flags.Load()&fileSoftDisabled == 0 }

func (x triggerFile) Target(group, event string) *trigger.Triggers {
	if f := x.f.array.findFile(group, event, false); f != nil {
		return f.triggers
	}
	return nil
}

func (x triggerFile) SetActive(a *trigger.Active) {
	if a == nil {
		x.f.atHit.Store(nil)
		return
	}
	at := hitTriggers(a)
	x.f.atHit.Store(&at)
}

func (x triggerFile) SetRecorded(on bool) {
	if on {
		x.f.flags.And(^uint32(fileSoftDisabled))
	} else {
		x.f.flags.Or(fileSoftDisabled)
	}
}

func (x triggerFile) Snapshot(trap *abi.Trap, inEntry bool) {
	x.f.array.takeSnapshot(snapshotHit{trap, inEntry}, false)
}

// RecordStack is stacktrace_trigger. A task's system call, which no vCPU runs, has no
// stack.
func (x triggerFile) RecordStack(s *filter.Subject) {
	a := x.f.array
	if !isTask(s.Trap) && a.recording() {
		if a.has(optRecordCmd) {
			a.tracer.saveCmdline(a.tracer.scratch(s.Trap), cmdlines.PID(s.Trap))
		}
		a.recordStack(s.Trap, a.tracer.unwindHandler(s.Trap, x.f.Event), a.now(), s.Entry[2], s.Entry[3])
	}
}

func (x triggerFile) Stack(trap *abi.Trap) []uint64 {
	if isTask(trap) {
		return nil
	}
	ips := x.f.tracer.unwindHandler(trap, x.f.Event)
	return ips[min(2, len(ips)):]
}

// histArray is an Array as histograms see it.
type histArray struct{ a *Array }

func (x histArray) File(group, event string, own bool) hist.File {
	if f := x.a.findFile(group, event, own); f != nil {
		return f.triggers
	}
	return nil
}

func (x histArray) LogError(subsystem, text, command string, column int) {
	x.a.logError(subsystem, text, command, column)
}

func (x histArray) SetClock(name string) error { return x.a.setClock(name) }
func (x histArray) Hold(n int)                 { x.a.users += n }
func (x histArray) CountTimestamps(n int32)    { x.a.timestamps.Add(n) }
func (x histArray) HoldSnapshot() error        { return x.a.holdSnapshot() }
func (x histArray) FreeSnapshot()              { x.a.snapshots.held = false }
func (x histArray) Snapshot(trap *abi.Trap)    { x.a.takeSnapshot(snapshotHit{trap, true}, true) }

// newHists creates the tracer's histograms.
func (t *Tracer) newHists() *hist.Hists {
	return hist.New(hist.Config{
		Has: &t.conf.has, Symbols: t.conf.Symbols, Syscalls: t.conf.Syscalls, Room: t.checkRoom,
		Synth: t.definitions.Synth,
		Scratch: func(trap *abi.Trap) *hist.Hit {
			c := t.scratch(trap)
			return &c.hists[max(c.depth, 1)-1]
		},
	})
}
