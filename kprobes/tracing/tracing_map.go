package tracing

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// tracingMap is tracing_map: the table of a histogram. All elements are allocated in
// advance, so that a hit allocates nothing; a key that finds no free element counts as
// a drop.
type tracingMap struct {
	seed    maphash.Seed
	keySize int
	sums    int // number of sums of each element
	vars    int
	texts   int // strings of mapTextSize bytes

	hits, drops atomic.Uint64

	mu    sync.Mutex // guards all below; held for one element, in handler context
	slots []mapSlot  // twice as many as there are elements
	used  int        // number of elements that have a key
	keys  []byte
	elts  []mapElt
}

// mapTextSize is STR_VAR_LEN_MAX: the room of a string, with its NUL.
const mapTextSize = 256

type mapSlot struct {
	hash uint64 // hash of the key; 0 marks a free slot
	elt  int32
}

// mapElt is tracing_map_elt.
type mapElt struct {
	sums []uint64
	vars []uint64
	set  []bool // which vars have a value
	text []byte
	comm comm // name of the task that created the element
}

// tracingMapBytes returns the size of such a table.
func tracingMapBytes(mapBits, keySize, sums, vars, texts int) int {
	element := 2*int(unsafe.Sizeof(mapSlot{})) + int(unsafe.Sizeof(mapElt{})) + keySize + 8*(sums+vars) + vars + texts*mapTextSize
	return element << mapBits
}

// newTracingMap creates a table of 1<<mapBits elements.
func newTracingMap(mapBits, keySize, sums, vars, texts int) *tracingMap {
	n := 1 << mapBits
	m := &tracingMap{seed: maphash.MakeSeed(), keySize: keySize, sums: sums, vars: vars, texts: texts}
	m.slots = make([]mapSlot, 2*n)
	m.keys = make([]byte, n*keySize)
	m.elts = make([]mapElt, n)
	words, set, text := make([]uint64, n*(sums+vars)), make([]bool, n*vars), make([]byte, n*texts*mapTextSize)
	for i := range m.elts {
		e := &m.elts[i]
		e.sums, words = words[:sums:sums], words[sums:]
		e.vars, words = words[:vars:vars], words[vars:]
		e.set, set = set[:vars:vars], set[vars:]
		e.text, text = text[:texts*mapTextSize:texts*mapTextSize], text[texts*mapTextSize:]
	}
	return m
}

// lookup returns the element of a key. With makeIt, it takes a free element for a new
// key, and counts a hit, or a drop if no element is free. The caller holds mu.
func (m *tracingMap) lookup(key []byte, makeIt bool) (e *mapElt, isNew bool) {
	hash := max(maphash.Bytes(m.seed, key[:m.keySize]), 1)
	for i := int(hash); ; i++ {
		i &= len(m.slots) - 1
		s := &m.slots[i]
		switch {
		case s.hash == hash && string(m.key(int(s.elt))) == string(key[:m.keySize]):
			if makeIt {
				m.hits.Add(1)
			}
			return &m.elts[s.elt], false
		case s.hash != 0:
			continue
		case !makeIt:
			return nil, false
		case m.used == len(m.elts):
			m.drops.Add(1)
			return nil, false
		}
		*s = mapSlot{hash, int32(m.used)}
		copy(m.key(m.used), key)
		e := &m.elts[m.used]
		m.used++
		m.hits.Add(1)
		return e, true
	}
}

func (m *tracingMap) key(elt int) []byte { return m.keys[elt*m.keySize : (elt+1)*m.keySize] }

// clear is tracing_map_clear.
func (m *tracingMap) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.elts[:m.used] {
		e := &m.elts[i]
		clear(e.sums)
		clear(e.vars)
		clear(e.set)
	}
	clear(m.slots)
	m.used = 0
	m.hits.Store(0)
	m.drops.Store(0)
}

// mapEntry is a copy of an element and its key.
type mapEntry struct {
	key []byte
	mapElt
}

// entries copies the contents of the table, the oldest element first. Hits may happen
// meanwhile; each element is copied under the lock.
func (m *tracingMap) entries() []mapEntry {
	var all []mapEntry
	for i := 0; ; i++ {
		m.mu.Lock()
		if i >= m.used {
			m.mu.Unlock()
			return all
		}
		e := &m.elts[i]
		all = append(all, mapEntry{slices.Clone(m.key(i)), mapElt{
			slices.Clone(e.sums), slices.Clone(e.vars), slices.Clone(e.set), slices.Clone(e.text), e.comm,
		}})
		m.mu.Unlock()
	}
}

// heapSort sorts like Linux's sort(): siftDown goes all the way down first and then up
// again, so that elements that compare as equal end in the same order as on Linux.
func heapSort[T any](a []T, compare func(x, y *T) int) {
	for i := len(a)/2 - 1; i >= 0; i-- {
		siftDown(a, i, compare, false)
	}
	for n := len(a) - 1; n > 0; n-- {
		a[0], a[n] = a[n], a[0]
		siftDown(a[:n], 0, compare, false)
	}
}

// heapSortTwo is heapSort as 6.12 does it: it removes the two largest elements at a
// time, the second of which is a child of the root.
func heapSortTwo[T any](a []T, compare func(x, y *T) int) {
	for i := len(a)/2 - 1; i >= 0; i-- {
		siftDown(a, i, compare, true)
	}
	n := len(a)
	for n > 3 {
		next := 1
		if compare(&a[1], &a[2]) <= 0 {
			next = 2
		}
		a[0], a[n-1] = a[n-1], a[0]
		a[next], a[n-2] = a[n-2], a[next]
		n -= 2
		if next < n {
			siftDown(a[:n], next, compare, true)
		}
		siftDown(a[:n], 0, compare, true)
	}
	if n > 1 {
		a[0], a[n-1] = a[n-1], a[0]
	}
	if n == 3 && compare(&a[0], &a[1]) > 0 {
		a[0], a[1] = a[1], a[0]
	}
}

// siftDown moves a[root] to its place in the heap below it. It follows the larger child
// down to the last level (of equal children the left one, or the right one if right is
// set) and then climbs back to the first element that is larger than a[root].
func siftDown[T any](a []T, root int, compare func(x, y *T) int, right bool) {
	leaf := root
	for 2*leaf+2 < len(a) {
		child := 2*leaf + 1
		if c := compare(&a[child], &a[child+1]); c < 0 || c == 0 && right {
			child++
		}
		leaf = child
	}
	if 2*leaf+1 < len(a) {
		leaf = 2*leaf + 1 // an only child
	}
	for leaf != root && compare(&a[root], &a[leaf]) >= 0 {
		leaf = (leaf - 1) / 2
	}
	for value := a[root]; ; leaf = (leaf - 1) / 2 {
		a[leaf], value = value, a[leaf]
		if leaf == root {
			return
		}
	}
}
