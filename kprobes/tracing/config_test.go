package tracing

import (
	"reflect"
	"testing"

	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

// TestConfigMissing takes away each of what always exists: a tracer is not made without it, so that
// no file goes by being forgotten.
func TestConfigMissing(t *testing.T) {
	f := tracingtest.New()
	whole := Config{Kprobes: f, Symbols: f, Sites: f, Machine: f, Unwinder: f, Modules: f, Files: f, Host: f, Memory: tracingtest.NewMemory(f)}
	New(whole)
	fields := reflect.TypeFor[Config]()
	for i := range fields.NumField() {
		c := whole
		field := reflect.ValueOf(&c).Elem().Field(i)
		if field.IsZero() {
			continue
		}
		name := fields.Field(i).Name
		t.Run(name, func(t *testing.T) {
			field.SetZero()
			defer func() {
				if got, want := recover(), "tracing: no Config."+name; got != want {
					t.Errorf("New: %v, want %q", got, want)
				}
			}()
			New(c)
		})
	}
}
