package tracing

import (
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
)

// FilterText returns the text of the event's file filter. It fails with ENODEV if the
// event is gone.
func (f *EventFile) FilterText() (string, error) {
	if f.gone.Load() {
		return "", f.goneError()
	}
	if parsed := f.filter.Load(); parsed != nil {
		return parsed.Text + "\n", nil
	}
	return "none\n", nil
}

// SetFilter handles a write to the event's file filter; "0" removes the filter. If a
// text is refused, the file shows it with the reason, and all entries pass. It fails
// with EINVAL for a page or more, with ENODEV if the event is gone, with ENOMEM if there is
// no memory for the filter, and with the parser's errnos.
func (f *EventFile) SetFilter(data []byte) error {
	text, err := filterText(data)
	if err != nil {
		return err
	}
	f.tracer.mu.Lock()
	defer f.tracer.mu.Unlock()
	if f.gone.Load() {
		return f.goneError()
	}
	if kstrtox.Strip(text) == "0" {
		f.filter.Store(nil)
		return nil
	}
	if err := f.tracer.checkText(len(text)); err != nil {
		return err
	}
	parsed, ferr := f.tracer.filters.Parse(text, f.entryMembers())
	if ferr != nil {
		f.refuseFilter(text, ferr)
		return fmt.Errorf("filter %q: %w", text, ferr)
	}
	f.filter.Store(parsed)
	return nil
}

// filterText returns the filter in a write, without trailing blanks.
func filterText(data []byte) (string, error) {
	if len(data) >= abi.PageSize {
		return "", fmt.Errorf("a filter of %d bytes: %w", len(data), syscall.EINVAL)
	}
	text := kstrtox.CString(data)
	for text != "" && kstrtox.IsSpace(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return text, nil
}

func (f *EventFile) refuseFilter(text string, err *filter.Error) {
	f.array.logError("event filter parse error", err.Text, text, err.Pos)
	f.filter.Store(filter.Refused(text, err))
}

func (f *EventFile) setFromSystem(text string) error {
	if kstrtox.Strip(text) == "0" {
		f.filter.Store(nil)
		return nil
	}
	if err := f.tracer.checkText(len(text)); err != nil {
		return err
	}
	parsed, err := f.tracer.filters.Parse(text, f.entryMembers())
	if err != nil {
		f.refuseFilter(text, errBadSubsysFilter)
		return nil
	}
	f.filter.Store(parsed)
	return nil
}

var errBadSubsysFilter = &filter.Error{Text: "Couldn't find or set field in one of a subsystem's events", Errno: syscall.EINVAL}
