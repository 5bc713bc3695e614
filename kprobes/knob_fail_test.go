package kprobes_test

import (
	"testing"

	"github.com/kprobefs/kprobefs/kprobes"
)

// TestSetEnabledFails: messages in the log when text cannot be patched; see
// docs/reference/linux/files.md.
func TestSetEnabledFails(t *testing.T) {
	w := newWorld(t)
	if err := w.k.SetEnabled(false); err != nil {
		t.Fatal(err)
	}
	p := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 5})
	w.FailPokes(true)
	if err := w.k.SetEnabled(true); err == nil {
		t.Error("no error")
	}
	w.FailPokes(false)
	want := "kprobes: Kprobes globally enabled, but failed to enable 1 out of 1 probes. " +
		"Please check which kprobes are kept disabled via debugfs."
	log := w.Log()
	if got := log[len(log)-1]; got != want {
		t.Errorf("log ends in %q, want %q", got, want)
	}
	w.k.Unregister(p)
}
