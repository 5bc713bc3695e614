package tracing

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestHeapSort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 70 {
		a := make([]int, n)
		for i := range a {
			a[i] = r.IntN(n)
		}
		want := slices.Clone(a)
		slices.Sort(want)
		heapSort(a, func(x, y *int) int { return *x - *y })
		if !slices.Equal(a, want) {
			t.Fatalf("%v, want %v", a, want)
		}
	}
}

// TestMapFull: what finds no element is a drop, what is there still counts.
func TestMapFull(t *testing.T) {
	m := newTracingMap(7, 8, 1, 0, 0)
	key := make([]byte, 16)
	for i := range 200 {
		key[0] = byte(i)
		if e, isNew := m.lookup(key, true); (e != nil) != (i < 128) || isNew != (i < 128) {
			t.Fatalf("key %d: %v, new %v", i, e, isNew)
		}
	}
	key[0] = 5
	if e, isNew := m.lookup(key, true); e == nil || isNew {
		t.Error("a key that is there is not found in a full table")
	}
	if h, d := m.hits.Load(), m.drops.Load(); h != 129 || d != 72 {
		t.Errorf("%d hits and %d drops", h, d)
	}
	m.clear()
	if e, _ := m.lookup(key, false); e != nil || len(m.entries()) != 0 {
		t.Error("a key is there after clear")
	}
}
