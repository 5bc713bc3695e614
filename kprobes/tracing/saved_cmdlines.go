package tracing

import (
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/cmdlines"
)

// Renamed records that a task has changed its name. Earlier lines of trace show the new
// name too, because names are looked up when trace is read.
func (t *Tracer) Renamed(pid int32, name string) { t.cmdlines.Renamed(pid, name) }

// SavedCmdlines returns the lines of the file saved_cmdlines: pid and name.
func (t *Tracer) SavedCmdlines() []string {
	var lines []string
	for pid, name := range t.cmdlines.All() {
		lines = append(lines, fmt.Sprintf("%d %s\n", pid, name.String()))
	}
	return lines
}

// SavedCmdlinesSize returns the text of saved_cmdlines_size.
func (t *Tracer) SavedCmdlinesSize() string {
	return fmt.Sprintf("%d\n", t.cmdlines.Room())
}

// nameBytes is an estimate of what a saved name takes, with its place in the tables.
const nameBytes = 64

// SetSavedCmdlinesSize handles a write to saved_cmdlines_size, which forgets the saved
// names. It fails with EINVAL if the value is not a number, 0, or more than
// PID_MAX_DEFAULT, and with ENOMEM if there is no memory for so many names.
func (t *Tracer) SetSavedCmdlinesSize(data []byte) error {
	n, err := kstrtox.FromUser(data)
	if err == nil && (n == 0 || n > cmdlines.Max) {
		err = fmt.Errorf("%d names: %w", n, syscall.EINVAL)
	}
	if err != nil {
		return fmt.Errorf("saved_cmdlines_size: %w", err)
	}
	room := cmdlines.RoomFor(int(n), t.conf.has[release.CmdlinesWithPIDs])
	if err := t.checkRoom((room - t.cmdlines.Room()) * nameBytes); err != nil {
		return fmt.Errorf("saved_cmdlines_size: %w", err)
	}
	t.cmdlines.Resize(room)
	return nil
}

// SavedTGIDs returns the lines of saved_tgids: pid and thread group ID.
func (t *Tracer) SavedTGIDs() []string {
	var lines []string
	for pid, tgid := range t.tgids.All() {
		lines = append(lines, fmt.Sprintf("%d %d\n", pid, tgid))
	}
	return lines
}
