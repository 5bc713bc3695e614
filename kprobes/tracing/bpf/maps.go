package bpf

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// MapType is enum bpf_map_type.
type MapType uint32

// The types of maps that exist here.
const (
	mapHash           MapType = 1
	mapArray          MapType = 2
	mapProgArray      MapType = 3
	mapPerfEventArray MapType = 4
	mapPerCPUHash     MapType = 5
	mapPerCPUArray    MapType = 6
	mapStackTrace     MapType = 7
	mapCgroupArray    MapType = 8
	mapLRUHash        MapType = 9
	mapLRUPerCPUHash  MapType = 10
	mapLPMTrie        MapType = 11
	mapArrayOfMaps    MapType = 12
	mapHashOfMaps     MapType = 13
	mapQueue          MapType = 22
	mapStack          MapType = 23
	mapRingbuf        MapType = 27
	mapTaskStorage    MapType = 29
	mapBloomFilter    MapType = 30
	mapUserRingbuf    MapType = 31
)

// Flags of maps (map_flags).
const (
	flagNoPrealloc   = 1 << 0
	flagNoCommonLRU  = 1 << 1
	flagNUMANode     = 1 << 2
	flagReadOnly     = 1 << 3 // for programs of user space
	flagWriteOnly    = 1 << 4
	flagStackBuildID = 1 << 5
	flagZeroSeed     = 1 << 6
	flagClone        = 1 << 9
	flagProgRead     = 1 << 7
	flagProgWrite    = 1 << 8
	flagMmapable     = 1 << 10
	flagInnerMap     = 1 << 12
)

// Flags of an update.
const (
	updateAny     = 0
	updateNoExist = 1
	updateExist   = 2
	updateLock    = 4
)

// maxMapBytes bounds the values of one map, maxMaps the number of maps, and maxTasks the tasks with storage of one map.
const (
	maxMapBytes = 512 << 20
	maxMaps     = 4096
	maxTasks    = 8192
)

// mapSpec is what BPF_MAP_CREATE says of a map.
type mapSpec struct {
	kind       MapType
	key, value int // bytes
	entries    int
	flags      uint32
	name       string
	extra      uint64
	btfID      uint32 // of its types, or 0
	btfKey     uint32
	btfValue   uint32
}

// Map is struct bpf_map. Its values lie in slots: an array's element i in slot i, a hash
// table's elements in slots that it takes and gives back. A per-CPU map has a slot of each
// element for each CPU. A program's pointer to a value is an address in the range that belongs to the
// map (mapBase), from which slot and offset follow.
//
// Everything in it is guarded by System.mem.
type Map struct {
	mapSpec
	sys    *System
	id     uint32
	index  int // which address range it has
	refs   int // descriptors, programs, pins and elements of other maps
	frozen atomic.Bool

	room   int // elements at most
	cpus   int // slots of an element
	stride int // bytes of a slot
	chunks [][]byte
	chunk  int // slots of a chunk

	// Hash tables, and tries, queues and stacks, which take slots, too.
	slots map[string]int // of the first slot of an element, in elements
	keys  []string       // by element
	used  []bool
	free  []int
	next  int // elements that have never been used start here

	recent int // the element that was found last
	old    []uint64
	tick   uint64 // LRU: counts uses, which old has of each element
	order  []int  // queue and stack: elements, oldest first

	btf      *BTF // its types, or nil
	lock     field
	timer    field
	kptrs    []kptr
	timers   map[int]*timer // by element
	users    atomic.Int32   // descriptors and pins: with the last one its timers end
	bloom    *bloom         // of a bloom filter
	draining bool           // the ring buffer of user space: a program reads its records
	inner    *mapSpec       // maps of maps: what each element is like
	meta     *Map           // the same for the verifier, which no program runs with
	held     []any          // prog array, perf event array, maps of maps: by element: *Prog, PerfOutput, *Map
	ring     *ringbuf
	memory   perf.Memory // of a map that user space can map
}

// perCPU reports whether each CPU has a value of its own.
func (k MapType) perCPU() bool {
	return k == mapPerCPUHash || k == mapPerCPUArray || k == mapLRUPerCPUHash
}

func (k MapType) hash() bool {
	switch k {
	case mapHash, mapPerCPUHash, mapLRUHash, mapLRUPerCPUHash, mapHashOfMaps:
		return true
	default:
	}
	return false
}

// ring reports whether the map is a ring buffer, which programs, or user space, write.
func (k MapType) ring() bool { return k == mapRingbuf || k == mapUserRingbuf }

func (k MapType) lru() bool { return k == mapLRUHash || k == mapLRUPerCPUHash }

func (k MapType) array() bool {
	switch k {
	case mapArray, mapPerCPUArray, mapProgArray, mapPerfEventArray, mapArrayOfMaps, mapStackTrace, mapCgroupArray:
		return true
	default:
	}
	return false
}

// holds reports whether the elements refer to objects, which have descriptors.
func (k MapType) holds() bool {
	switch k {
	case mapProgArray, mapPerfEventArray, mapArrayOfMaps, mapHashOfMaps, mapCgroupArray:
		return true
	default:
	}
	return false
}

// hasValues reports whether programs read and write the elements.
func (m *Map) hasValues() bool { return m.stride > 0 && !m.kind.holds() }

// allowedFlags has the flags that Linux takes for each type.
var allowedFlags = map[MapType]uint32{
	mapHash:           flagNoPrealloc | flagNUMANode | flagReadOnly | flagWriteOnly | flagZeroSeed | flagProgRead | flagProgWrite,
	mapPerCPUHash:     flagNoPrealloc | flagNUMANode | flagReadOnly | flagWriteOnly | flagZeroSeed | flagProgRead | flagProgWrite,
	mapLRUHash:        flagNoCommonLRU | flagNUMANode | flagReadOnly | flagWriteOnly | flagZeroSeed | flagProgRead | flagProgWrite,
	mapLRUPerCPUHash:  flagNoCommonLRU | flagNUMANode | flagReadOnly | flagWriteOnly | flagZeroSeed | flagProgRead | flagProgWrite,
	mapHashOfMaps:     flagNoPrealloc | flagNUMANode | flagReadOnly | flagWriteOnly | flagZeroSeed | flagProgRead | flagProgWrite,
	mapArray:          flagNUMANode | flagMmapable | flagReadOnly | flagWriteOnly | flagProgRead | flagProgWrite | flagInnerMap,
	mapPerCPUArray:    flagNUMANode | flagReadOnly | flagWriteOnly | flagProgRead | flagProgWrite,
	mapProgArray:      flagNUMANode | flagReadOnly | flagWriteOnly,
	mapPerfEventArray: flagNUMANode | flagReadOnly | flagWriteOnly | 1<<11, // PRESERVE_ELEMS
	mapArrayOfMaps:    flagNUMANode | flagReadOnly | flagWriteOnly | flagProgRead | flagProgWrite,
	mapStackTrace:     flagNUMANode | flagReadOnly | flagWriteOnly | flagStackBuildID,
	mapCgroupArray:    flagNUMANode | flagReadOnly | flagWriteOnly,
	mapLPMTrie:        flagNoPrealloc | flagNUMANode | flagReadOnly | flagWriteOnly | flagProgRead | flagProgWrite,
	mapQueue:          flagNUMANode | flagReadOnly | flagWriteOnly | flagProgRead | flagProgWrite,
	mapStack:          flagNUMANode | flagReadOnly | flagWriteOnly | flagProgRead | flagProgWrite,
	mapRingbuf:        flagNUMANode,
	mapUserRingbuf:    flagNUMANode,
	mapTaskStorage:    flagNoPrealloc | flagClone,
	mapBloomFilter:    flagNUMANode | flagZeroSeed | flagReadOnly | flagWriteOnly | flagProgRead | flagProgWrite,
}

// check is the map_alloc_check of each type. It fails with EINVAL for what no such map can be, and
// with E2BIG for sizes above Linux's limits.
func (m *mapSpec) check() error {
	const (
		maxKmalloc = 4 << 20  // KMALLOC_MAX_SIZE
		maxPerCPU  = 32 << 10 // PCPU_MIN_UNIT_SIZE
		maxStorage = 0xffa0   // BPF_LOCAL_STORAGE_MAX_VALUE_SIZE
		functions  = 15       // of a bloom filter, in map_extra
	)
	allowed, known := allowedFlags[m.kind]
	bad, big := false, false
	switch {
	case !known:
		return fmt.Errorf("map type %d: %w", m.kind, syscall.EINVAL)
	case m.flags&^allowed != 0, m.extra != 0 && (m.kind != mapBloomFilter || m.extra > functions),
		m.flags&flagReadOnly != 0 && m.flags&flagWriteOnly != 0,
		m.flags&flagProgRead != 0 && m.flags&flagProgWrite != 0:
		return fmt.Errorf("map flags %#x: %w", m.flags, syscall.EINVAL)
	case m.kind.ring():
		bad = m.key != 0 || m.value != 0 || m.entries == 0 || m.entries&(m.entries-1) != 0 || m.entries%pageSize != 0
		big = m.entries > maxMapBytes
	case m.kind == mapTaskStorage:
		bad = m.key != 4 || m.value == 0 || m.entries != 0 || m.flags&flagNoPrealloc == 0 || m.btfKey == 0 || m.btfValue == 0
		big = m.value > maxStorage
	case m.kind == mapQueue || m.kind == mapStack || m.kind == mapBloomFilter:
		bad = m.key != 0 || m.value == 0 || m.entries == 0
		big = m.value > maxKmalloc
	case m.kind == mapLPMTrie:
		bad = m.entries == 0 || m.flags&flagNoPrealloc == 0 || m.key < 5 || m.key > 4+256 || m.value == 0
		big = m.value > maxKmalloc-256
	case m.kind == mapStackTrace:
		size := m.frameSize()
		bad = m.key != 4 || m.entries == 0 || m.value < 8 || m.value%size != 0 || m.value/size > maxCallers
	case m.kind.hash():
		bad = m.key == 0 || m.value == 0 || m.entries == 0
		big = m.key+m.value >= maxKmalloc || m.kind.perCPU() && m.value > maxPerCPU
	default:
		bad = m.key != 4 || m.value == 0 || m.entries == 0 || m.kind.holds() && m.value != 4
		big = m.kind.perCPU() && m.value > maxPerCPU
	}
	switch {
	case bad:
		return fmt.Errorf("a map of type %d with keys of %d and values of %d bytes, %d entries: %w", m.kind, m.key, m.value, m.entries, syscall.EINVAL)
	case big:
		return fmt.Errorf("a map of type %d with keys of %d and values of %d bytes: %w", m.kind, m.key, m.value, syscall.E2BIG)
	}
	return nil
}

// newMap makes a map of a checked spec. It fails with ENOMEM above the memory budget.
func (s *System) newMap(spec mapSpec) (*Map, error) {
	m := &Map{mapSpec: spec, sys: s, cpus: 1, refs: 1, stride: (spec.value + 7) &^ 7, room: spec.entries}
	if spec.kind.perCPU() {
		m.cpus = s.conf.CPUs
	}
	if m.kind == mapStackTrace {
		m.stride += 8 // the number of frames
	}
	total := int64(m.stride) * int64(m.cpus) * int64(m.entries)
	if spec.kind.hash() || spec.kind == mapLPMTrie {
		total += int64(spec.key+64) * int64(m.entries)
	}
	switch {
	case spec.kind.ring():
		total = int64(m.entries)
	case spec.kind == mapBloomFilter:
		total = bloomBits(spec.entries, spec.extra) / 8
	case spec.kind == mapTaskStorage:
		m.room = maxTasks // memory is asked for as tasks get their values
	}
	if total > maxMapBytes {
		return nil, fmt.Errorf("a map of %d bytes: %w", total, syscall.ENOMEM)
	}
	if err := s.conf.Room(int(total)); err != nil {
		return nil, err
	}
	switch {
	case spec.kind == mapBloomFilter:
		m.bloom = newBloom(spec.entries, spec.extra)
	case spec.kind.ring():
		ring, err := newRingbuf(s, spec.entries, spec.kind == mapUserRingbuf)
		if err != nil {
			return nil, err
		}
		m.ring = ring
	case spec.flags&flagMmapable != 0:
		if err := m.share(int(total)); err != nil {
			return nil, err
		}
		m.users.Store(1)
		return m, nil
	case spec.kind == mapHashOfMaps:
		m.slots = map[string]int{}
	case m.kind.holds():
		m.held = make([]any, m.entries)
	case !m.kind.array():
		m.slots = map[string]int{}
	}
	if m.stride > 0 {
		m.chunk = max(1, 1<<16/m.stride)
	}
	m.users.Store(1)
	return m, nil
}

// discard gives memory back that user space can map.
func (m *Map) discard() {
	if m.ring != nil {
		m.ring.memory.Close()
		m.ring.b = nil
	}
	if m.memory != nil {
		m.memory.Close()
		m.chunks = nil
	}
}

// share puts all values into memory that user space can map.
func (m *Map) share(size int) error {
	memory, err := m.sys.conf.Memory()
	if err != nil {
		return err
	}
	b, err := memory.Grow((size + pageSize - 1) &^ (pageSize - 1))
	if err != nil {
		memory.Close()
		return err
	}
	m.memory, m.chunks, m.chunk = memory, [][]byte{b}, m.entries
	return nil
}

// slot returns the bytes of a slot, without the padding.
func (m *Map) slot(n int) []byte {
	at := n % m.chunk * m.stride
	return m.grown(n / m.chunk)[at : at+m.stride : at+m.stride]
}

// constant returns size bytes at an offset of an array's first element.
func (m *Map) constant(off, size int) uint64 {
	m.sys.mem.Lock()
	defer m.sys.mem.Unlock()
	var b [8]byte
	copy(b[:size], m.slot(0)[off:])
	return binary.LittleEndian.Uint64(b[:])
}

// grown returns a chunk of slots, and makes it when it is used first.
func (m *Map) grown(n int) []byte {
	for len(m.chunks) <= n {
		m.chunks = append(m.chunks, nil)
	}
	if m.chunks[n] == nil {
		m.chunks[n] = make([]byte, m.chunk*m.stride)
	}
	return m.chunks[n]
}

// address returns where programs see a slot.
func (m *Map) address(slot int) uint64 {
	return mapBase + uint64(m.index)<<mapShift + uint64(slot)*uint64(m.stride)
}

// find returns the element of a key, or -1.
func (m *Map) find(key []byte) int {
	switch {
	case m.kind.array():
		i := binary.LittleEndian.Uint32(key)
		if uint64(i) >= uint64(m.entries) {
			return -1
		}
		return int(i)
	case m.kind == mapLPMTrie:
		return m.longest(key)
	}
	n, ok := m.place(key)
	if !ok {
		return -1
	}
	if m.kind.lru() {
		m.tick++
		m.old[n] = m.tick
	}
	return n
}

// place returns the element of a key in a hash table. A program mostly looks for the same one as before.
func (m *Map) place(key []byte) (n int, ok bool) {
	if n = m.recent; n < len(m.keys) && m.used[n] && m.keys[n] == string(key) {
		return n, true
	}
	if n, ok = m.slots[string(key)]; ok {
		m.recent = n
	}
	return n, ok
}

// insert returns the element of a key, which it takes if there is none yet. It fails with EEXIST and
// ENOENT as flags say, and with E2BIG when the map is full.
func (m *Map) insert(key []byte, flags uint64) (int, error) {
	if m.kind.array() {
		i := binary.LittleEndian.Uint32(key)
		switch {
		case uint64(i) >= uint64(m.entries):
			return -1, syscall.E2BIG
		case flags == updateNoExist:
			return -1, syscall.EEXIST
		}
		return int(i), nil
	}
	given := key // a trie shows a prefix with the bits after it as it was given last
	if m.kind == mapLPMTrie {
		key = m.masked(key)
	}
	n, ok := m.place(key)
	switch {
	case ok && flags == updateNoExist:
		return -1, syscall.EEXIST
	case !ok && flags == updateExist:
		return -1, syscall.ENOENT
	case ok:
		if m.kind == mapLPMTrie {
			m.keys[n] = string(given)
		}
		if m.kind.lru() {
			m.tick++
			m.old[n] = m.tick
		}
		return n, nil
	}
	n, err := m.take()
	if err != nil {
		return -1, err
	}
	m.keys[n] = string(given)
	m.slots[string(key)] = n
	return n, nil
}

// take returns an element that is not in use. A full LRU table gives up what was not used
// for longest.
func (m *Map) take() (int, error) {
	if m.kind == mapTaskStorage && (len(m.free) == 0 && m.next == m.room || m.sys.conf.Room(m.stride) != nil) {
		return -1, syscall.ENOMEM
	}
	if len(m.free) == 0 && m.next == m.room {
		if !m.kind.lru() {
			if m.kind == mapLPMTrie {
				return -1, syscall.ENOSPC
			}
			return -1, syscall.E2BIG
		}
		oldest := 0
		for i, at := range m.old {
			if at < m.old[oldest] {
				oldest = i
			}
		}
		m.remove(oldest)
	}
	var n int
	if last := len(m.free) - 1; last >= 0 {
		n, m.free = m.free[last], m.free[:last]
	} else {
		n = m.next
		m.next++
		m.keys, m.used, m.old = append(m.keys, ""), append(m.used, false), append(m.old, 0)
		if m.kind == mapHashOfMaps {
			m.held = append(m.held, nil)
		}
	}
	m.used[n] = true
	m.tick++
	m.old[n] = m.tick
	for cpu := range m.cpus {
		clear(m.slot(n*m.cpus + cpu))
	}
	return n, nil
}

// remove gives an element of a hash table back.
func (m *Map) remove(n int) {
	m.freeSpecial(n)
	key := m.keys[n]
	if m.kind == mapLPMTrie {
		key = string(m.masked([]byte(key)))
	}
	delete(m.slots, key)
	m.keys[n], m.used[n] = "", false
	m.free = append(m.free, n)
}

// update is map_update_elem of a program on a CPU, or, with cpu < 0, of user space, which gives
// values for all CPUs.
func (m *Map) update(key, value []byte, flags uint64, cpu int) error {
	if flags&updateLock != 0 && m.lock.has() {
		flags &^= updateLock // nothing runs while a value is written
	}
	if flags > updateExist {
		return syscall.EINVAL
	}
	switch m.kind {
	case mapQueue, mapStack, mapBloomFilter:
		return m.push(value, flags)
	case mapRingbuf, mapUserRingbuf:
		return errNotSupported
	case mapStackTrace:
		return syscall.EINVAL
	default:
	}
	if m.kind.holds() {
		return syscall.EINVAL
	}
	n, err := m.insert(key, flags)
	if err != nil {
		return err
	}
	m.freeSpecial(n)
	if cpu >= 0 {
		at := n * m.cpus
		if m.cpus > 1 {
			at += cpu
		}
		m.copyValue(m.slot(at)[:m.value], value)
		return nil
	}
	for c := range m.cpus {
		m.copyValue(m.slot(n*m.cpus + c)[:m.value], value[min(c*m.stride, len(value)):])
	}
	return nil
}

// delete is map_delete_elem. It fails with ENOENT, and with EINVAL for arrays.
func (m *Map) delete(key []byte) error {
	switch {
	case m.kind == mapStackTrace:
		n := m.find(key)
		if n < 0 || binary.LittleEndian.Uint64(m.slot(n)) == 0 {
			return syscall.ENOENT
		}
		clear(m.slot(n))
		return nil
	case m.kind == mapQueue || m.kind == mapStack || m.kind.array():
		return syscall.EINVAL
	case m.kind == mapBloomFilter:
		return syscall.EOPNOTSUPP
	case m.kind.ring():
		return errNotSupported
	case m.kind == mapLPMTrie:
		key = m.masked(key)
	}
	n, ok := m.slots[string(key)]
	if !ok {
		return syscall.ENOENT
	}
	m.remove(n)
	return nil
}

// read returns the value of an element as user space reads it: for all CPUs one after another, each
// a multiple of 8 bytes.
func (m *Map) read(n int) []byte {
	if m.kind == mapStackTrace {
		b := m.slot(n)
		return append([]byte{}, b[8:8+m.value]...)
	}
	if m.cpus == 1 {
		b := make([]byte, m.value)
		m.copyValue(b, m.slot(n))
		return b
	}
	b := make([]byte, m.cpus*m.stride)
	for cpu := range m.cpus {
		m.copyValue(b[cpu*m.stride:(cpu+1)*m.stride], m.slot(n*m.cpus+cpu))
	}
	return b
}

// userValue is how many bytes user space gives and gets for a value.
func (m *Map) userValue() int {
	if m.kind.perCPU() {
		return m.stride * m.cpus
	}
	return m.value
}

// after returns the key that follows another one, or the first, if key is nil or not in the map.
// It fails with ENOENT at the end.
func (m *Map) after(key []byte) ([]byte, error) {
	switch {
	case m.kind == mapStackTrace:
		next := 0
		if key != nil {
			if i := int(binary.LittleEndian.Uint32(key)); i < m.entries {
				next = i + 1
			}
		}
		for ; next < m.entries; next++ {
			if len(m.chunks) > next/m.chunk && m.chunks[next/m.chunk] != nil && binary.LittleEndian.Uint64(m.slot(next)) != 0 {
				return binary.LittleEndian.AppendUint32(nil, uint32(next)), nil
			}
		}
		return nil, syscall.ENOENT
	case m.kind.array():
		next := uint32(0)
		if key != nil {
			if i := binary.LittleEndian.Uint32(key); uint64(i) < uint64(m.entries) {
				next = i + 1
			}
		}
		if uint64(next) >= uint64(m.entries) {
			return nil, syscall.ENOENT
		}
		return binary.LittleEndian.AppendUint32(nil, next), nil
	case m.kind == mapBloomFilter:
		return nil, syscall.EOPNOTSUPP
	case m.kind.ring() || m.kind == mapTaskStorage:
		return nil, errNotSupported
	case m.slots == nil || m.kind == mapQueue || m.kind == mapStack:
		return nil, syscall.EINVAL
	case m.kind == mapLPMTrie:
		return m.prefixAfter(key)
	}
	from := 0
	if key != nil {
		if n, ok := m.slots[string(key)]; ok {
			from = n + 1
		}
	}
	for ; from < len(m.used); from++ {
		if m.used[from] {
			return []byte(m.keys[from]), nil
		}
	}
	return nil, syscall.ENOENT
}

// push is map_push_elem of a queue, a stack or a bloom filter. BPF_EXIST lets a full one drop its oldest.
func (m *Map) push(value []byte, flags uint64) error {
	if m.bloom != nil {
		if flags != updateAny {
			return syscall.EINVAL
		}
		m.bloom.add(value)
		return nil
	}
	if flags != updateAny && flags != updateExist {
		return syscall.EINVAL
	}
	if len(m.order) == m.entries {
		if flags != updateExist {
			return syscall.E2BIG
		}
		m.used[m.order[0]] = false
		m.free = append(m.free, m.order[0])
		m.order = m.order[1:]
	}
	n, err := m.take()
	if err != nil {
		return err
	}
	copy(m.slot(n)[:m.value], value)
	m.order = append(m.order, n)
	return nil
}

// pop is map_pop_elem, or map_peek_elem. It fails with ENOENT when there is nothing.
func (m *Map) pop(peek bool) ([]byte, error) {
	if len(m.order) == 0 {
		return nil, syscall.ENOENT
	}
	at := 0
	if m.kind == mapStack {
		at = len(m.order) - 1
	}
	n := m.order[at]
	value := m.read(n)
	if !peek {
		m.order = append(m.order[:at:at], m.order[at+1:]...)
		m.used[n] = false
		m.free = append(m.free, n)
	}
	return value, nil
}

// masked returns a trie's key without the bits after its prefix.
func (m *Map) masked(key []byte) []byte {
	key = append([]byte{}, key...)
	bits := int(binary.LittleEndian.Uint32(key))
	for i := range key[4:] {
		switch left := bits - 8*i; {
		case left <= 0:
			key[4+i] = 0
		case left < 8:
			key[4+i] &= ^byte(0) << (8 - left)
		}
	}
	return key
}

// longest returns the element of a trie with the longest prefix of a key, or -1.
func (m *Map) longest(key []byte) int {
	bits := min(binary.LittleEndian.Uint32(key), uint32(8*(m.key-4)))
	try := append([]byte{}, key...)
	for n := int(bits); n >= 0; n-- {
		binary.LittleEndian.PutUint32(try, uint32(n))
		if i, ok := m.slots[string(m.masked(try))]; ok {
			return i
		}
	}
	return -1
}

// prefixAfter is trie_get_next_key: prefixes come by their bits, and one after those that it covers.
func (m *Map) prefixAfter(key []byte) ([]byte, error) {
	var after []byte
	if key != nil && binary.LittleEndian.Uint32(key) <= uint32(8*(m.key-4)) {
		if _, ok := m.slots[string(m.masked(key))]; ok {
			after = m.masked(key)
		}
	}
	var next []byte
	at := -1
	for masked, n := range m.slots {
		p := []byte(masked)
		if (after == nil || comparePrefixes(after, p) < 0) && (next == nil || comparePrefixes(p, next) < 0) {
			next, at = p, n
		}
	}
	if at < 0 {
		return nil, syscall.ENOENT
	}
	return []byte(m.keys[at]), nil
}

// comparePrefixes orders two keys of a trie, whose bits after the prefix are 0.
func comparePrefixes(a, b []byte) int {
	la, lb := int(binary.LittleEndian.Uint32(a)), int(binary.LittleEndian.Uint32(b))
	for n := range min(la, lb) {
		at, bit := 4+n/8, byte(0x80)>>(n%8)
		if x, y := a[at]&bit, b[at]&bit; x != y {
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(lb, la)
}
