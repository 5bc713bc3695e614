package tracingmap

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
		b := slices.Clone(a)
		compare := func(x, y *int) int { return *x - *y }
		Sort(a, compare)
		SortTwo(b, compare)
		if !slices.Equal(a, want) || !slices.Equal(b, want) {
			t.Fatalf("%v and %v, want %v", a, b, want)
		}
	}
}

// TestHeapSortEqual: equal elements are ordered as on 6.1 and 6.12 (hist_tables).
func TestHeapSortEqual(t *testing.T) {
	type pair struct{ key, n int }
	compare := func(x, y *pair) int { return x.n - y.n }
	keys := func(a []pair) (keys []int) {
		for _, p := range a {
			keys = append(keys, p.key)
		}
		return keys
	}
	in := []pair{{3, 3}, {9, 1}, {17, 1}, {44, 1}, {45, 1}, {46, 1}, {47, 1}, {100, 1}, {200, 1}}
	a, b := slices.Clone(in), slices.Clone(in)
	Sort(a, compare)
	SortTwo(b, compare)
	if got, want := keys(a), []int{9, 17, 44, 45, 46, 47, 100, 200, 3}; !slices.Equal(got, want) {
		t.Errorf("6.1: %v, want %v", got, want)
	}
	if got, want := keys(b), []int{44, 9, 45, 46, 47, 100, 200, 17, 3}; !slices.Equal(got, want) {
		t.Errorf("6.12: %v, want %v", got, want)
	}
}
