package tracingmap

import (
	"testing"
)

// TestMapFull: a new key is dropped if the table is full; existing keys are still
// counted.
func TestMapFull(t *testing.T) {
	m := New(7, 8, 1, 0, 0)
	key := make([]byte, 16)
	for i := range 200 {
		key[0] = byte(i)
		if e, isNew := m.Lookup(key, true); (e != nil) != (i < 128) || isNew != (i < 128) {
			t.Fatalf("key %d: %v, new %v", i, e, isNew)
		}
	}
	key[0] = 5
	if e, isNew := m.Lookup(key, true); e == nil || isNew {
		t.Error("an existing key is not found in a full table")
	}
	if h, d := m.Hits.Load(), m.Drops.Load(); h != 129 || d != 72 {
		t.Errorf("%d hits and %d drops", h, d)
	}
	m.Clear()
	if e, _ := m.Lookup(key, false); e != nil || len(m.Entries()) != 0 {
		t.Error("a key is left after clear")
	}
}
