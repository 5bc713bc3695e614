package dynevent

import (
	"errors"
	"syscall"
	"testing"
)

// TestNewLocal: no file shows a probe that belongs to a descriptor, and its errors are
// perf_event_open(2)'s.
func TestNewLocal(t *testing.T) {
	r, o := newTestRegistry(t)
	for _, tt := range []struct {
		name  string
		local Local
		want  error
	}{
		{"entry", Local{Name: "vfs_read"}, nil},
		{"return", Local{Name: "vfs_read", Return: true}, nil},
		{"no function", Local{Name: "no_such_function"}, syscall.ENOENT},
		{"uprobe", Local{User: true, Name: "/bin/sh", At: 16}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, release, err := r.NewLocal(tt.local)
			if !errors.Is(err, tt.want) {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			if err != nil {
				return
			}
			if e == nil || len(o.events) != 0 || len(r.list) != 0 || len(r.kprobes) != 0 {
				t.Errorf("event %v; the tracer has %d events, the registry %d definitions", e, len(o.events), len(r.list))
			}
			release()
		})
	}
}
