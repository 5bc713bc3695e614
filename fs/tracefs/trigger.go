package tracefs

import (
	"context"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
	"github.com/kprobefs/kprobefs/kprobes/tracing/dynevent"
)

// triggerRow is an event's file trigger: event_trigger_fops.
func triggerRow(e *tracing.EventFile) *seqfile.Row {
	open := func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		if o.Writes() && o.Truncates() {
			e.ClearTriggers()
		}
		write := func(_ context.Context, p []byte, _ int64) (int, error) {
			if err := e.WriteTrigger(p); err != nil {
				return 0, err
			}
			return len(p), nil
		}
		return &seqfile.Seq{Show: linesOf(e.Triggers), Store: write}, nil
	}
	return &seqfile.Row{Name: "trigger", Mode: modeRW, FOps: abi.FOpsSeq, Open: open}
}

// linesOf is a seq_file whose lines, or error, are determined when the reading starts.
func linesOf(show func() ([]string, error)) seqfile.ShowFunc {
	var all []string
	return func(_ context.Context, b []byte, i int64) (_ []byte, _ bool, err error) {
		if i == 0 {
			all, err = show()
		}
		if err != nil || i >= int64(len(all)) {
			return b, false, err
		}
		return append(b, all[i]...), true, nil
	}
}

// histRow is an event's file hist.
func histRow(e *tracing.EventFile) *seqfile.Row {
	return &seqfile.Row{Name: "hist", Mode: modeRO, FOps: abi.FOpsSeq, Open: seqfile.OpenSingle(e.Hist)}
}

// openSynthetic is synth_events_open: O_TRUNC deletes all synthetic events, or fails
// with EBUSY if one of them is in use.
func openSynthetic(d *dynevent.Registry) func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		if o.Writes() && o.Truncates() {
			if err := d.ReleaseSynthetic(); err != nil {
				return nil, err
			}
		}
		return &seqfile.Seq{Show: lines(d.SyntheticEvents), Store: store(d.WriteSyntheticEvents)}, nil
	}
}

// openUprobes is probes_open of uprobe_events.
func openUprobes(d *dynevent.Registry) func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		if o.Writes() && o.Truncates() {
			if err := d.ReleaseUprobes(); err != nil {
				return nil, err
			}
		}
		return &seqfile.Seq{Show: lines(d.UprobeEvents), Store: store(d.WriteUprobeEvents)}, nil
	}
}
