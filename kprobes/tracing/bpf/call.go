package bpf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// Caller is the thread that calls bpf(2).
type Caller interface {
	// Read reads its memory. It fails with EFAULT.
	Read(addr uint64, b []byte) error
	// Write writes its memory when the call has ended, if it can be written.
	Write(addr uint64, b []byte)
	// Object returns what a descriptor refers to: what Result.Object of an earlier call was, a
	// *perf.Event, or nil.
	Object(fd int) any
	// ObjectOf returns what Object does, of the descriptor of another task. It fails with ENOENT if there is no such task.
	ObjectOf(pid, fd int) (any, error)
	// TaskOf returns the thread that a descriptor of pidfd_open(2) refers to. It fails with EBADF for another descriptor, and
	// with ENOENT if the thread has ended.
	TaskOf(fd int) (tid int32, err error)
	// FreeFD returns the lowest number from a first one that no descriptor has.
	FreeFD(first int) int
	// Access returns the flags with which a descriptor of a map was opened: that it is for reading, or for writing, only.
	Access(fd int) uint32
	// Pin makes the file that the call names be one of an object, to which it gets a reference.
	Pin(object any) error
	// Pinned returns the object of the file that the call names, with a reference, if it may be opened so.
	Pinned(access uint32) (any, error)
	// Task returns which task it is.
	Task() Task
}

// Task is a task that is not in a hit: its ids and name, and its task_struct, or 0 if it has none.
type Task struct {
	perf.IDs

	Comm string
	Addr uint64
}

// NewHit returns a hit in a task that is not in the kernel.
func NewHit(trap *abi.Trap, task Task) *Hit {
	trap.Task = task.Addr
	h := &Hit{Trap: trap, Ctx: trap.Regs.Bytes(), PID: task.PID, TID: task.TID, Comm: new([abi.TaskCommLen]byte)}
	copy(h.Comm[:abi.TaskCommLen-1], task.Comm)
	return h
}

// Result is the result of a call that has not failed.
type Result struct {
	Value int
	// Object is what the call returns a descriptor of, with a reference that Release gives back, or nil.
	Object any
	// Access is what Caller.Access has to return for the descriptor.
	Access uint32
	// Given are descriptors with fixed numbers that a program has made for the caller.
	Given []Given
}

// Given is a descriptor of the caller that is to refer to an object, with a reference that Release gives back.
type Given struct {
	FD     int
	Access uint32
	Object any
	Link   bool // a command has made it that makes a link
}

// Commands of bpf(2) (enum bpf_cmd).
const (
	cmdMapCreate = iota
	cmdMapLookup
	cmdMapUpdate
	cmdMapDelete
	cmdMapNextKey
	cmdProgLoad
	cmdObjPin
	cmdObjGet
	cmdProgAttach
	cmdProgDetach
	cmdProgTestRun
	cmdProgNextID
	cmdMapNextID
	cmdProgByID
	cmdMapByID
	cmdObjInfo
	cmdProgQuery
	cmdRawTracepointOpen
	cmdBTFLoad
	cmdBTFByID
	cmdTaskFDQuery
	cmdMapLookupAndDelete
	cmdMapFreeze
	cmdBTFNextID
	cmdMapLookupBatch
	cmdMapLookupAndDeleteBatch
	cmdMapUpdateBatch
	cmdMapDeleteBatch
	cmdLinkCreate
	cmdLinkUpdate
	cmdLinkByID
	cmdLinkNextID
	cmdEnableStats
	cmdIterCreate
	cmdLinkDetach
	cmdProgBindMap
)

// attrSize is sizeof(union bpf_attr) of 6.1, in bytes.
const attrSize = 144

// MaxAttr is how many bytes of an attr Call looks at; more than a page is E2BIG.
const MaxAttr = pageSize

// attr is union bpf_attr. Bytes that the caller has not given are 0.
type attr struct {
	b  [attrSize]byte
	at uint64 // where the caller has it
}

func (a *attr) u32(at int) uint32 { return binary.LittleEndian.Uint32(a.b[at:]) }
func (a *attr) u64(at int) uint64 { return binary.LittleEndian.Uint64(a.b[at:]) }
func (a *attr) fd(at int) int     { return int(int32(a.u32(at))) }

// name reads a name of 16 bytes. It fails with EINVAL for one without end or with characters that
// are no letters, digits, '_' or '.'.
func (a *attr) name(at int) (string, error) {
	text, _, ended := bytes.Cut(a.b[at:at+16], []byte{0})
	for _, c := range text {
		if !ended || c != '_' && c != '.' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return "", syscall.EINVAL
		}
	}
	if !ended {
		return "", syscall.EINVAL
	}
	return string(text), nil
}

// command is one of the commands: what it does, and where its fields in attr end; what follows has to
// be 0.
type command struct {
	end int
	do  func(s *System, c Caller, a *attr) (Result, error)
}

var commands map[uint32]command

func init() {
	commands = map[uint32]command{
		cmdMapCreate:               {72, (*System).mapCreate},
		cmdMapLookup:               {32, (*System).mapLookup},
		cmdMapUpdate:               {32, (*System).mapUpdate},
		cmdMapDelete:               {16, (*System).mapDelete},
		cmdMapNextKey:              {24, (*System).mapNextKey},
		cmdProgLoad:                {140, (*System).progLoad},
		cmdProgTestRun:             {76, (*System).testRun},
		cmdProgNextID:              {12, func(s *System, c Caller, a *attr) (Result, error) { return nextID(c, s, &s.progs, a) }},
		cmdMapNextID:               {12, func(s *System, c Caller, a *attr) (Result, error) { return nextID(c, s, &s.maps, a) }},
		cmdBTFNextID:               {12, func(s *System, c Caller, a *attr) (Result, error) { return nextID(c, s, &s.btfs, a) }},
		cmdLinkNextID:              {12, func(s *System, c Caller, a *attr) (Result, error) { return nextID(c, s, &s.links, a) }},
		cmdProgByID:                {4, func(s *System, _ Caller, a *attr) (Result, error) { return byID(s, &s.progs, a) }},
		cmdMapByID:                 {12, func(s *System, _ Caller, a *attr) (Result, error) { return byID(s, &s.maps, a) }},
		cmdBTFByID:                 {4, func(s *System, _ Caller, a *attr) (Result, error) { return byID(s, &s.btfs, a) }},
		cmdLinkByID:                {4, func(s *System, _ Caller, a *attr) (Result, error) { return byID(s, &s.links, a) }},
		cmdObjPin:                  {16, (*System).objPin},
		cmdObjGet:                  {16, (*System).objGet},
		cmdObjInfo:                 {16, (*System).objInfo},
		cmdRawTracepointOpen:       {12, (*System).rawTracepointOpen},
		cmdTaskFDQuery:             {queryEnd, (*System).taskFDQuery},
		cmdBTFLoad:                 {28, (*System).btfLoad},
		cmdMapLookupAndDelete:      {32, (*System).mapLookupAndDelete},
		cmdMapFreeze:               {4, (*System).mapFreeze},
		cmdMapLookupBatch:          {56, func(s *System, c Caller, a *attr) (Result, error) { return s.lookupBatch(c, a, false) }},
		cmdMapLookupAndDeleteBatch: {56, func(s *System, c Caller, a *attr) (Result, error) { return s.lookupBatch(c, a, true) }},
		cmdMapUpdateBatch:          {56, (*System).updateBatch},
		cmdMapDeleteBatch:          {56, (*System).deleteBatch},
		cmdLinkCreate:              {64, (*System).linkCreate},
		cmdLinkUpdate:              {16, (*System).linkUpdate},
		cmdIterCreate:              {8, (*System).iterCreate},
		cmdLinkDetach:              {4, (*System).linkDetach},
		cmdEnableStats:             {4, (*System).enableStats},
		cmdProgBindMap:             {12, (*System).progBindMap},
	}
}

// Call is bpf(2) with a command and an attr of size bytes at an address. It fails with EINVAL for
// commands that there are not, with E2BIG for a size above a page or for bytes after the attr that are not 0,
// and otherwise with Linux's errnos.
func (s *System) Call(c Caller, cmd uint32, addr uint64, size uint32) (Result, error) {
	if size > MaxAttr {
		return Result{}, fmt.Errorf("an attr of %d bytes: %w", size, syscall.E2BIG)
	}
	b := make([]byte, size)
	if err := c.Read(addr, b); err != nil {
		return Result{}, err
	}
	a := attr{at: addr}
	if n := copy(a.b[:], b); len(bytes.Trim(b[n:], "\x00")) > 0 {
		return Result{}, fmt.Errorf("an attr with fields that are not known: %w", syscall.E2BIG)
	}
	do, known := commands[cmd]
	switch {
	case !known:
		return Result{}, fmt.Errorf("command %d: %w", cmd, syscall.EINVAL)
	case len(bytes.Trim(a.b[do.end:], "\x00")) > 0:
		return Result{}, fmt.Errorf("command %d with fields that are not its own: %w", cmd, syscall.EINVAL)
	}
	return do.do(s, c, &a)
}

func (s *System) mapCreate(c Caller, a *attr) (Result, error) {
	name, err := a.name(28)
	if err != nil {
		return Result{}, err
	}
	m := mapSpec{
		kind: MapType(a.u32(0)), key: int(a.u32(4)), value: int(a.u32(8)), entries: int(a.u32(12)), flags: a.u32(16),
		name: name, extra: a.u64(64), btfKey: a.u32(52), btfValue: a.u32(56),
	}
	if m.btfKey != 0 && m.btfValue == 0 {
		return Result{}, fmt.Errorf("a type of the key and none of the value: %w", syscall.EINVAL)
	}
	if m.key > 1<<30 || m.value > 1<<30 || m.entries > 1<<31 {
		return Result{}, syscall.E2BIG
	}
	if err := m.check(); err != nil {
		return Result{}, err
	}
	if a.u32(44) != 0 {
		if m.kind == mapHash || m.kind == mapArray {
			return Result{}, fmt.Errorf("no network device has maps: %w", syscall.EOPNOTSUPP)
		}
		return Result{}, fmt.Errorf("no network device has maps of type %d: %w", m.kind, syscall.EINVAL)
	}
	var inner *mapSpec
	var meta *Map
	if m.kind == mapArrayOfMaps || m.kind == mapHashOfMaps {
		of, err := mapOf(c, a.fd(20))
		if err != nil {
			return Result{}, err
		}
		if of.inner != nil {
			return Result{}, syscall.EINVAL
		}
		if of.lock.has() {
			return Result{}, fmt.Errorf("maps with a lock in a map: %w", errNotSupported)
		}
		spec := of.mapSpec
		inner = &spec
		meta = &Map{mapSpec: spec, sys: s, cpus: 1, stride: (spec.value + 7) &^ 7, timer: of.timer, kptrs: of.kptrs}
	}
	var btf *BTF
	if m.btfValue != 0 || m.btfKey != 0 {
		var ok bool
		object := c.Object(a.fd(48))
		if btf, ok = object.(*BTF); !ok {
			return Result{}, badObject(object)
		}
		if btf.kernel {
			return Result{}, syscall.EACCES
		}
		m.btfID = btf.id
	}
	made, err := s.newMap(m)
	if err != nil {
		return Result{}, err
	}
	made.inner, made.meta, made.btf = inner, meta, btf
	if err := made.checkTypes(); err != nil {
		made.discard()
		return Result{}, err
	}
	if err := s.addMap(made); err != nil {
		made.discard()
		return Result{}, err
	}
	return Result{Object: made}, nil
}

// mapOf returns the map of a descriptor.
func mapOf(c Caller, fd int) (*Map, error) {
	switch m := c.Object(fd).(type) {
	case *Map:
		return m, nil
	case nil:
		return nil, syscall.EBADF
	}
	return nil, syscall.EINVAL
}

// read reads n bytes of the caller's memory.
func read(c Caller, addr uint64, n int) ([]byte, error) {
	b := make([]byte, n)
	return b, c.Read(addr, b)
}

// element reads the map, the key (nil for a queue) of a command on an element.
func element(c Caller, a *attr, fd int) (m *Map, key []byte, err error) {
	if m, err = mapOf(c, fd); err != nil {
		return nil, nil, err
	}
	if m.key == 0 {
		if a.u64(8) != 0 {
			return nil, nil, syscall.EINVAL
		}
		return m, nil, nil
	}
	key, err = read(c, a.u64(8), m.key)
	return m, key, err
}

// keyOf returns the map's own key for a key of user space. For the storage of tasks user space passes a descriptor of
// a task.
func (m *Map) keyOf(c Caller, key []byte) ([]byte, error) {
	if m.kind != mapTaskStorage {
		return key, nil
	}
	tid, err := c.TaskOf(int(int32(binary.LittleEndian.Uint32(key))))
	if err != nil {
		return nil, fmt.Errorf("the storage of a task: %w", err)
	}
	return taskKey(tid), nil
}

// lookup returns the value of a key as user space sees it. The caller holds mem.
func (m *Map) lookup(key []byte) ([]byte, error) {
	switch m.kind {
	case mapPerfEventArray, mapRingbuf, mapUserRingbuf, mapCgroupArray:
		return nil, errNotSupported
	case mapQueue, mapStack:
		return m.pop(true)
	default:
	}
	n := m.find(key)
	if n < 0 || m.kind == mapStackTrace && binary.LittleEndian.Uint64(m.slot(n)) == 0 {
		return nil, syscall.ENOENT
	}
	if m.kind.holds() {
		switch o := m.held[n].(type) {
		case *Map:
			return binary.LittleEndian.AppendUint32(nil, o.id), nil
		case *Prog:
			return binary.LittleEndian.AppendUint32(nil, o.id), nil
		}
		return nil, syscall.ENOENT
	}
	return m.read(n), nil
}

func (s *System) mapLookup(c Caller, a *attr) (Result, error) {
	if a.u64(24)&^updateLock != 0 {
		return Result{}, syscall.EINVAL
	}
	m, key, err := element(c, a, a.fd(0))
	switch {
	case err != nil:
		return Result{}, err
	case m.access(c, a.fd(0))&flagWriteOnly != 0:
		return Result{}, syscall.EPERM
	case a.u64(24)&updateLock != 0 && !m.lock.has():
		return Result{}, syscall.EINVAL
	}
	if m.bloom != nil {
		return Result{}, s.peekBloom(c, m, a.u64(16))
	}
	if key, err = m.keyOf(c, key); err != nil {
		return Result{}, err
	}
	s.mem.Lock()
	defer s.mem.Unlock()
	value, err := m.lookup(key)
	if err != nil {
		return Result{}, err
	}
	c.Write(a.u64(16), value)
	return Result{}, nil
}

// peekBloom reads a value of user space and looks it up in a bloom filter.
func (s *System) peekBloom(c Caller, m *Map, at uint64) error {
	value, err := read(c, at, m.value)
	if err != nil {
		return err
	}
	s.mem.Lock()
	defer s.mem.Unlock()
	if !m.bloom.has(value) {
		return syscall.ENOENT
	}
	return nil
}

// mapLookupAndDelete works on hash tables, queues and stacks.
func (s *System) mapLookupAndDelete(c Caller, a *attr) (Result, error) {
	if a.u64(24)&^updateLock != 0 {
		return Result{}, syscall.EINVAL
	}
	m, key, err := element(c, a, a.fd(0))
	switch {
	case err != nil:
		return Result{}, err
	case m.access(c, a.fd(0))&(flagReadOnly|flagWriteOnly) != 0:
		return Result{}, syscall.EPERM
	case a.u64(24) != 0 && !m.lock.has():
		return Result{}, syscall.EINVAL
	}
	s.mem.Lock()
	defer s.mem.Unlock()
	var value []byte
	switch {
	case m.kind == mapQueue || m.kind == mapStack:
		value, err = m.pop(false)
	case m.kind.hash() && !m.kind.holds():
		if value, err = m.lookup(key); err == nil {
			err = m.delete(key)
		}
	default:
		err = errNotSupported
	}
	if err != nil {
		return Result{}, err
	}
	c.Write(a.u64(16), value)
	return Result{}, nil
}

func (s *System) mapUpdate(c Caller, a *attr) (Result, error) {
	m, key, err := element(c, a, a.fd(0))
	switch {
	case err != nil:
		return Result{}, err
	case m.access(c, a.fd(0))&flagReadOnly != 0 || m.frozen.Load():
		return Result{}, syscall.EPERM
	case a.u64(24)&updateLock != 0 && !m.lock.has():
		return Result{}, syscall.EINVAL
	}
	value, err := read(c, a.u64(16), m.userValue())
	if err != nil {
		return Result{}, err
	}
	if key, err = m.keyOf(c, key); err != nil {
		return Result{}, err
	}
	return Result{}, s.store(c, m, key, value, a.u64(24))
}

// store updates an element. In a map whose elements refer to objects the value is a descriptor.
func (s *System) store(c Caller, m *Map, key, value []byte, flags uint64) error {
	if !m.kind.holds() {
		s.mem.Lock()
		defer s.mem.Unlock()
		return m.update(key, value, flags, -1)
	}
	object, err := m.element(c.Object(int(int32(binary.LittleEndian.Uint32(value)))))
	if err != nil {
		return err
	}
	if m.kind.array() && flags != updateAny {
		return syscall.EINVAL
	}
	return s.exchange(func() (before any, err error) {
		n, err := m.insert(key, flags)
		if err != nil {
			return nil, err
		}
		before, m.held[n] = m.held[n], object
		s.ref(object)
		return before, nil
	})
}

// exchange calls do, which changes what an element refers to, and gives back what it referred to before.
func (s *System) exchange(do func() (before any, err error)) error {
	s.objects.Lock()
	s.mem.Lock()
	before, err := do()
	s.mem.Unlock()
	ends := s.unref(before)
	s.objects.Unlock()
	for _, end := range ends {
		end()
	}
	return err
}

// element returns what an element of a map may refer to. It fails with EBADF, and with EINVAL for
// another kind of object.
func (m *Map) element(object any) (any, error) {
	if m.kind == mapCgroupArray {
		return nil, fmt.Errorf("no descriptor here is of a cgroup: %w", syscall.EBADF)
	}
	switch o := object.(type) {
	case nil:
		return nil, syscall.EBADF
	case *Prog:
		if m.kind == mapProgArray {
			return o, nil
		}
	case *perf.Event:
		if m.kind == mapPerfEventArray {
			return o, nil
		}
	case *Map:
		if m.inner == nil {
			break
		}
		i := m.inner
		if o.timer.has() != m.meta.timer.has() || o.timer.has() && o.timer.off != m.meta.timer.off || len(o.kptrs) != len(m.meta.kptrs) {
			break
		}
		if o.kind == i.kind && o.key == i.key && o.value == i.value && o.flags == i.flags && (o.entries == i.entries || i.flags&flagInnerMap != 0 || !i.kind.array()) {
			return o, nil
		}
	}
	return nil, syscall.EINVAL
}

func (s *System) mapDelete(c Caller, a *attr) (Result, error) {
	m, key, err := element(c, a, a.fd(0))
	switch {
	case err != nil:
		return Result{}, err
	case m.access(c, a.fd(0))&flagReadOnly != 0 || m.frozen.Load():
		return Result{}, syscall.EPERM
	}
	if key, err = m.keyOf(c, key); err != nil {
		return Result{}, err
	}
	return Result{}, s.drop(m, key)
}

// drop deletes an element.
func (s *System) drop(m *Map, key []byte) error {
	if !m.kind.holds() {
		s.mem.Lock()
		defer s.mem.Unlock()
		return m.delete(key)
	}
	return s.exchange(func() (before any, err error) {
		n := m.find(key)
		switch {
		case n < 0 && m.kind.array():
			return nil, syscall.E2BIG
		case n < 0 || m.held[n] == nil:
			return nil, syscall.ENOENT
		}
		before, m.held[n] = m.held[n], nil
		if m.slots != nil {
			m.remove(n)
		}
		return before, nil
	})
}

func (s *System) mapNextKey(c Caller, a *attr) (Result, error) {
	m, err := mapOf(c, a.fd(0))
	if err != nil {
		return Result{}, err
	}
	if m.access(c, a.fd(0))&flagWriteOnly != 0 {
		return Result{}, syscall.EPERM
	}
	var key []byte
	if a.u64(8) != 0 {
		if m.key == 0 {
			return Result{}, syscall.EINVAL
		}
		if key, err = read(c, a.u64(8), m.key); err != nil {
			return Result{}, err
		}
	}
	s.mem.Lock()
	defer s.mem.Unlock()
	next, err := m.after(key)
	if err != nil {
		return Result{}, err
	}
	c.Write(a.u64(16), next)
	return Result{}, nil
}

// Offsets of the fields of the batch commands.
const (
	batchIn    = 0
	batchOut   = 8
	batchKeys  = 16
	batchVals  = 24
	batchCount = 32
	batchFD    = 36
	batchFlags = 40
	maxBatch   = 1 << 20
)

// batch checks a batch command. put tells the caller how many elements were done.
func batch(c Caller, a *attr) (m *Map, count int, put func(n int), err error) {
	m, err = mapOf(c, a.fd(batchFD))
	if err != nil {
		return nil, 0, nil, err
	}
	switch {
	case a.u64(batchFlags)&^updateLock != 0 || a.u64(batchFlags) != 0 && !m.lock.has() || a.u64(48) != 0:
		err = syscall.EINVAL
	case !m.kind.hash() && m.kind != mapArray && m.kind != mapPerCPUArray && m.kind != mapLPMTrie || m.kind.holds():
		err = errNotSupported
	}
	return m, min(int(a.u32(batchCount)), maxBatch), func(n int) { c.Write(a.at+batchCount, binary.LittleEndian.AppendUint32(nil, uint32(n))) }, err
}

// lookupBatch is generic_map_lookup_batch: the position between calls is the last key.
func (s *System) lookupBatch(c Caller, a *attr, remove bool) (Result, error) {
	m, count, put, err := batch(c, a)
	switch {
	case err != nil:
		return Result{}, err
	case m.access(c, a.fd(batchFD))&flagWriteOnly != 0 || remove && (m.access(c, a.fd(batchFD))&flagReadOnly != 0 || m.frozen.Load()):
		return Result{}, syscall.EPERM
	case remove && !m.kind.hash():
		return Result{}, errNotSupported
	case count == 0:
		return Result{}, nil
	}
	var key []byte
	if a.u64(batchIn) != 0 {
		if key, err = read(c, a.u64(batchIn), m.key); err != nil {
			return Result{}, err
		}
	}
	s.mem.Lock()
	defer s.mem.Unlock()
	var keys, values []byte
	n := 0
	for ; n < count; n++ {
		next, err2 := m.after(key)
		if err2 != nil {
			err = err2
			break
		}
		value, err2 := m.lookup(next)
		if err2 != nil {
			err = err2
			break
		}
		key = next
		keys, values = append(keys, next...), append(values, value...)
	}
	if remove {
		for i := range n {
			_ = m.delete(keys[i*m.key : (i+1)*m.key])
		}
		if err == nil && len(m.slots) == 0 {
			err = syscall.ENOENT
		}
	} else if err == nil && m.kind.hash() { // an array's last batch does not say so
		if _, end := m.after(key); end != nil {
			err = syscall.ENOENT
		}
	}
	put(n)
	c.Write(a.u64(batchKeys), keys)
	c.Write(a.u64(batchVals), values)
	if key != nil {
		c.Write(a.u64(batchOut), key)
	}
	return Result{}, err
}

func (s *System) updateBatch(c Caller, a *attr) (Result, error) {
	return s.eachOfBatch(c, a, func(m *Map, key, value []byte) error {
		return s.store(c, m, key, value, a.u64(batchFlags))
	}, true)
}

func (s *System) deleteBatch(c Caller, a *attr) (Result, error) {
	return s.eachOfBatch(c, a, func(m *Map, key, _ []byte) error { return s.drop(m, key) }, false)
}

// eachOfBatch does something with each of a batch's keys, and their values.
func (s *System) eachOfBatch(c Caller, a *attr, do func(m *Map, key, value []byte) error, values bool) (Result, error) {
	m, count, put, err := batch(c, a)
	switch {
	case err != nil:
		return Result{}, err
	case m.access(c, a.fd(batchFD))&flagReadOnly != 0 || m.frozen.Load():
		return Result{}, syscall.EPERM
	}
	size := m.userValue()
	n := 0
	for ; n < count && err == nil; n++ {
		var key, value []byte
		if key, err = read(c, a.u64(batchKeys)+uint64(n*m.key), m.key); err != nil {
			break
		}
		if values {
			if value, err = read(c, a.u64(batchVals)+uint64(n*size), size); err != nil {
				break
			}
		}
		if err = do(m, key, value); err != nil {
			break
		}
	}
	put(n)
	return Result{}, err
}

func (s *System) mapFreeze(c Caller, a *attr) (Result, error) {
	m, err := mapOf(c, a.fd(0))
	if err != nil {
		return Result{}, err
	}
	if m.frozen.Swap(true) {
		return Result{}, syscall.EBUSY
	}
	return Result{}, nil
}

// nextID is bpf_obj_get_next_id.
func nextID[T any](c Caller, s *System, t *table[T], a *attr) (Result, error) {
	s.objects.Lock()
	id, ok := t.after(a.u32(0))
	s.objects.Unlock()
	if !ok {
		return Result{}, syscall.ENOENT
	}
	c.Write(a.at+4, binary.LittleEndian.AppendUint32(nil, id))
	return Result{}, nil
}

func byID[T any](s *System, t *table[T], a *attr) (Result, error) {
	s.objects.Lock()
	defer s.objects.Unlock()
	object, ok := t.all[a.u32(0)]
	if !ok {
		return Result{}, syscall.ENOENT
	}
	s.ref(object)
	if m, ok := any(object).(*Map); ok {
		m.users.Add(1)
	}
	return Result{Object: object}, nil
}
