// Package tracingmap is kernel/trace/tracing_map.c: the table of a histogram, from keys to
// elements of sums, variables and strings, all of which are allocated in advance; and
// sort(), which decides how elements that compare as equal are listed.
//
// It knows keys as bytes. It does not know events, fields, or what is summed.
package tracingmap

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Map is tracing_map: the table of a histogram. All elements are allocated in
// advance, so that a hit allocates nothing; a key that finds no free element counts as
// a drop.
type Map struct {
	seed    maphash.Seed
	keySize int
	sums    int // number of sums of each element
	vars    int
	texts   int // strings of TextSize bytes

	Hits  atomic.Uint64 // look-ups that found or made an element
	Drops atomic.Uint64 // look-ups that found no free element for a new key

	mu    sync.Mutex // guards all below; held for one element, in handler context
	slots []slot     // twice as many as there are elements
	used  int        // number of elements that have a key
	keys  []byte
	elts  []Elt
}

// TextSize is STR_VAR_LEN_MAX: the room of a string, with its NUL.
const TextSize = 256

type slot struct {
	hash uint64 // hash of the key; 0 marks a free slot
	elt  int32
}

// Elt is tracing_map_elt: what is stored for a key.
type Elt struct {
	Sums []uint64
	Vars []uint64
	Set  []bool // which vars have a value
	Text []byte
	Comm [abi.TaskCommLen]byte // name of the task that created the element
}

// Bytes returns the size of such a table.
func Bytes(mapBits, keySize, sums, vars, texts int) int {
	element := 2*int(unsafe.Sizeof(slot{})) + int(unsafe.Sizeof(Elt{})) + keySize + 8*(sums+vars) + vars + texts*TextSize
	return element << mapBits
}

// New creates a table of 1<<mapBits elements with keys of keySize bytes. Each element has
// so many sums, variables and strings.
func New(mapBits, keySize, sums, vars, texts int) *Map {
	n := 1 << mapBits
	m := &Map{seed: maphash.MakeSeed(), keySize: keySize, sums: sums, vars: vars, texts: texts}
	m.slots = make([]slot, 2*n)
	m.keys = make([]byte, n*keySize)
	m.elts = make([]Elt, n)
	words, set, text := make([]uint64, n*(sums+vars)), make([]bool, n*vars), make([]byte, n*texts*TextSize)
	for i := range m.elts {
		e := &m.elts[i]
		e.Sums, words = words[:sums:sums], words[sums:]
		e.Vars, words = words[:vars:vars], words[vars:]
		e.Set, set = set[:vars:vars], set[vars:]
		e.Text, text = text[:texts*TextSize:texts*TextSize], text[texts*TextSize:]
	}
	return m
}

// Lookup returns the element of a key. With makeIt, it takes a free element for a new
// key, and counts a hit, or a drop if no element is free. The caller holds the lock. It
// runs in handler context and allocates nothing.
func (m *Map) Lookup(key []byte, makeIt bool) (e *Elt, isNew bool) {
	hash := max(maphash.Bytes(m.seed, key[:m.keySize]), 1)
	for i := int(hash); ; i++ {
		i &= len(m.slots) - 1
		s := &m.slots[i]
		switch {
		case s.hash == hash && string(m.key(int(s.elt))) == string(key[:m.keySize]):
			if makeIt {
				m.Hits.Add(1)
			}
			return &m.elts[s.elt], false
		case s.hash != 0:
			continue
		case !makeIt:
			return nil, false
		case m.used == len(m.elts):
			m.Drops.Add(1)
			return nil, false
		}
		*s = slot{hash, int32(m.used)}
		copy(m.key(m.used), key)
		e := &m.elts[m.used]
		m.used++
		m.Hits.Add(1)
		return e, true
	}
}

// Lock guards the elements and what Lookup returns. It may be taken in handler context,
// for one element, with no other lock below it.
func (m *Map) Lock() { m.mu.Lock() }

// Unlock ends a Lock.
func (m *Map) Unlock() { m.mu.Unlock() }

func (m *Map) key(elt int) []byte { return m.keys[elt*m.keySize : (elt+1)*m.keySize] }

// Clear is tracing_map_clear.
func (m *Map) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.elts[:m.used] {
		e := &m.elts[i]
		clear(e.Sums)
		clear(e.Vars)
		clear(e.Set)
	}
	clear(m.slots)
	m.used = 0
	m.Hits.Store(0)
	m.Drops.Store(0)
}

// Entry is a copy of an element and its key.
type Entry struct {
	Key []byte
	Elt
}

// Entries copies the contents of the table, the oldest element first. Hits may happen
// meanwhile; each element is copied under the lock.
func (m *Map) Entries() []Entry {
	var all []Entry
	for i := 0; ; i++ {
		m.mu.Lock()
		if i >= m.used {
			m.mu.Unlock()
			return all
		}
		e := &m.elts[i]
		all = append(all, Entry{slices.Clone(m.key(i)), Elt{
			slices.Clone(e.Sums), slices.Clone(e.Vars), slices.Clone(e.Set), slices.Clone(e.Text), e.Comm,
		}})
		m.mu.Unlock()
	}
}

// TextAt returns the room of string i, TextSize bytes.
func (e *Elt) TextAt(i int) []byte { return e.Text[i*TextSize : (i+1)*TextSize] }
