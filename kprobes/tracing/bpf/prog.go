package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// Limits and flags of BPF_PROG_LOAD.
const (
	maxInsns      = 1_000_000 // BPF_COMPLEXITY_LIMIT_INSNS
	maxMapsOfProg = 64        // MAX_USED_MAPS
	maxLicense    = 128

	progStrictAlignment = 1 << 0
	progAnyAlignment    = 1 << 1
	progTestRandom      = 1 << 2
	progTestState       = 1 << 3
	progSleepable       = 1 << 4
	progFlags           = progStrictAlignment | progAnyAlignment | progTestRandom | progTestState | progSleepable
)

// gplLicenses are the licenses of license_is_gpl_compatible.
var gplLicenses = []string{"GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL"}

// progLoad is BPF_PROG_LOAD.
func (s *System) progLoad(c Caller, a *attr) (Result, error) {
	count := a.u32(4)
	switch {
	case a.u32(44)&^progFlags != 0:
		return Result{}, syscall.EINVAL
	case count == 0 || count > maxInsns:
		return Result{}, syscall.E2BIG
	}
	name, err := a.name(48)
	if err != nil {
		return Result{}, err
	}
	license, err := readString(c, a.u64(16), maxLicense)
	if err != nil {
		return Result{}, err
	}
	p := &Prog{sys: s, kind: ProgType(a.u32(0)), name: name, refs: 1, gpl: slices.Contains(gplLicenses, license)}
	if _, known := programTypes[p.kind]; !known {
		return Result{}, fmt.Errorf("program type %d: %w", p.kind, syscall.EINVAL)
	}
	if a.u32(64) != 0 {
		if p.kind == ProgSchedCLS || p.kind == ProgXDP {
			return Result{}, fmt.Errorf("no network device executes programs: %w", syscall.EOPNOTSUPP)
		}
		return Result{}, fmt.Errorf("no network device executes programs of type %d: %w", p.kind, syscall.EINVAL)
	}
	if p.raw, err = read(c, a.u64(8), int(count)*insnSize); err != nil {
		return Result{}, err
	}
	if err := s.conf.Room(3 * len(p.raw)); err != nil {
		return Result{}, err
	}
	p.insns, p.tag, p.loaded = decode(p.raw), tag(p.raw), s.conf.Clock(clockBoottime)
	if err := p.checkAttach(c, a); err != nil {
		return Result{}, err
	}
	log, err := newLog(a.u32(24), a.u32(28), a.u64(32))
	if err != nil {
		return Result{}, err
	}
	if fd := a.u32(72); fd != 0 || a.u32(88) != 0 || a.u32(104) != 0 {
		btf, ok := c.Object(int(int32(fd))).(*BTF)
		if !ok {
			return Result{}, syscall.EBADF
		}
		p.btf = btf
	}
	if p.btf != nil {
		if p.btf.kernel && (a.u32(88) != 0 || a.u32(104) != 0) {
			return Result{}, fmt.Errorf("the kernel's own types for a program: %w", syscall.EACCES)
		}
		if p.funcs, err = readInfo(c, a.u32(76), a.u64(80), a.u32(88), funcInfoSize); err != nil {
			return Result{}, err
		}
		if p.lines, err = readInfo(c, a.u32(92), a.u64(96), a.u32(104), lineInfoSize); err != nil {
			return Result{}, err
		}
	}
	v := verifier{prog: p, v612: p.sys.conf.Verifier612, caller: c, log: log}
	log.room = s.conf.Room
	began := time.Now()
	err = v.verify(a)
	v.statistics(time.Since(began))
	if log.put(c) {
		err = fmt.Errorf("the log has no room: %w", syscall.ENOSPC)
	}
	if err != nil {
		return Result{}, err
	}
	p.verified = v.processed
	p.translate(v.starts)
	if s.conf.Prints != nil && slices.ContainsFunc(p.insns, insn.prints) {
		s.conf.Prints()
	}
	s.objects.Lock()
	defer s.objects.Unlock()
	for _, m := range p.maps {
		s.ref(m)
	}
	if p.btf != nil {
		s.ref(p.btf)
	}
	if p.attachProg != nil {
		s.ref(p.attachProg)
	}
	if p.looks() {
		s.looking.Add(1)
	}
	p.id = s.progs.add(p)
	return Result{Object: p}, nil
}

// readString reads a string of the caller's memory of less than most bytes, or as many of it.
func readString(c Caller, addr uint64, most int) (string, error) {
	var text []byte
	for len(text) < most-1 {
		n := min(most-1-len(text), int(pageSize-(addr+uint64(len(text)))%pageSize))
		b, err := read(c, addr+uint64(len(text)), n)
		if err != nil {
			return "", err
		}
		if end := bytes.IndexByte(b, 0); end >= 0 {
			return string(append(text, b[:end]...)), nil
		}
		text = append(text, b...)
	}
	return string(text), nil
}

// verifierLog is what the verifier says, in a buffer of the caller.
type verifierLog struct {
	level uint32
	size  int
	addr  uint64
	text  []byte

	insnEnd, insnLen int // where the line of the last instruction ends, and how long it is

	room  func(bytes int) error // fails if there is no memory; nil of the logs of types
	steps int                   // how often it was asked
}

// Levels of the log.
const (
	logLevel1 = 1
	logLevel2 = 2
	logStats  = 4
	maxLog    = (1<<32 - 1) >> 2
)

// newLog checks what BPF_PROG_LOAD says of its log. It fails with EINVAL.
func newLog(level, size uint32, addr uint64) (*verifierLog, error) {
	l := &verifierLog{level: level, size: int(size), addr: addr}
	if level == 0 && size == 0 && addr == 0 {
		return l, nil
	}
	if size < 128 || size > maxLog || level == 0 || addr == 0 || level&^(logLevel1|logLevel2|logStats) != 0 {
		return nil, syscall.EINVAL
	}
	return l, nil
}

// printf appends to the log, at any level.
func (l *verifierLog) printf(format string, args ...any) {
	if l.off() {
		return
	}
	const step = 1 << 20
	if n := len(l.text) / step; n > l.steps && l.room != nil {
		l.steps = n
		if l.room(step) != nil { // it is as full as the memory is
			l.size = len(l.text) + 1
			return
		}
	}
	l.text = fmt.Appendf(l.text, format, args...)
	l.text = l.text[:min(len(l.text), l.size-1)]
}

// detailed reports whether all paths are logged.
func (l *verifierLog) detailed() bool { return l.level&logLevel2 != 0 && !l.off() }

// detail appends to a log of level 2.
func (l *verifierLog) detail(format string, args ...any) {
	if l.detailed() {
		l.printf(format, args...)
	}
}

// off reports whether nothing more is logged: there is none, or it is full.
func (l *verifierLog) off() bool { return l.level == 0 || len(l.text) >= l.size-1 }

// reset forgets what was said after the first n bytes, unless the log is full.
func (l *verifierLog) reset(n int) {
	if !l.off() {
		l.text = l.text[:min(n, len(l.text))]
	}
}

// verbose reports whether each instruction is logged.
func (l *verifierLog) verbose() bool { return l.level&(logLevel1|logLevel2) != 0 && !l.off() }

// statistics ends the log with what following the program has cost.
func (v *verifier) statistics(took time.Duration) {
	l := v.log
	if l.level&logStats != 0 {
		l.printf("verification time %d usec\n", took.Microseconds())
		l.printf("stack depth %s\n", strings.Trim(strings.ReplaceAll(fmt.Sprint(v.depths), " ", "+"), "[]"))
	}
	l.printf("processed %d insns (limit %d) max_states_per_insn %d total_states %d peak_states %d mark_read %d\n",
		v.processed, maxInsns, v.statesOfInsn, v.totalStates, v.peakStates, v.longestRead)
}

// put writes the log. It reports whether it was cut off.
func (l *verifierLog) put(c Caller) (full bool) {
	if l.level == 0 {
		return false
	}
	c.Write(l.addr, append(l.text[:len(l.text):len(l.text)], 0))
	return l.off()
}

// objInfo is BPF_OBJ_GET_INFO_BY_FD.
func (s *System) objInfo(c Caller, a *attr) (Result, error) {
	object := c.Object(a.fd(0))
	given := int(a.u32(4))
	if given > pageSize {
		return Result{}, syscall.E2BIG
	}
	in, err := read(c, a.u64(8), given)
	if err != nil {
		return Result{}, err
	}
	var b []byte
	var full error // something else had no room
	switch o := object.(type) {
	case *Prog:
		b = o.info(c, in)
	case *Map:
		b = o.info()
	case *BTF:
		b, full = o.info(c, in)
	case *Link:
		b, err = o.describe(c, in)
		if err != nil {
			return Result{}, err
		}
	case nil:
		return Result{}, syscall.EBADFD
	default:
		return Result{}, syscall.EINVAL
	}
	if len(in) > len(b) && len(bytes.Trim(in[len(b):], "\x00")) > 0 {
		return Result{}, syscall.E2BIG
	}
	n := min(given, len(b))
	c.Write(a.at+4, binary.LittleEndian.AppendUint32(nil, uint32(n)))
	c.Write(a.u64(8), b[:n])
	return Result{}, full
}

// fields writes numbers at their offsets.
type fields []byte

func (f fields) u32(at int, v uint32) { binary.LittleEndian.PutUint32(f[at:], v) }
func (f fields) u64(at int, v uint64) { binary.LittleEndian.PutUint64(f[at:], v) }

// given reads a number of 4 bytes of what the caller has given, which may be shorter.
func given(in []byte, at int) uint32 {
	if len(in) < at+4 {
		return 0
	}
	return binary.LittleEndian.Uint32(in[at:])
}

func given64(in []byte, at int) uint64 { return uint64(given(in, at)) | uint64(given(in, at+4))<<32 }

// info is struct bpf_prog_info. What the caller has room for it gets.
func (p *Prog) info(c Caller, in []byte) []byte {
	f := make(fields, 232)
	f.u32(0, uint32(p.kind))
	f.u32(4, p.id)
	copy(f[8:], p.tag[:])
	f.u32(20, uint32(len(p.raw))) // xlated_prog_len
	if n, to := int(given(in, 20)), given64(in, 32); n > 0 && to != 0 {
		c.Write(to, p.xlated()[:min(n, len(p.raw))])
	}
	f.u64(32, given64(in, 32))
	f.u64(40, uint64(p.loaded))
	p.sys.objects.Lock()
	maps := slices.Clone(p.maps)
	p.sys.objects.Unlock()
	f.u32(52, uint32(len(maps)))
	if n, to := int(given(in, 52)), given64(in, 56); n > 0 && to != 0 {
		var ids []byte
		for _, m := range maps[:min(n, len(maps))] {
			ids = binary.LittleEndian.AppendUint32(ids, m.id)
		}
		c.Write(to, ids)
	}
	f.u64(56, given64(in, 56))
	copy(f[64:79], p.name)
	if p.gpl {
		f.u32(84, 1)
	}
	if p.btf != nil {
		f.u32(128, p.btf.id)
	}
	p.funcs.give(c, f, in, infoPlace{size: 132, at: 136, count: 144})
	p.lines.give(c, f, in, infoPlace{size: 172, at: 152, count: 148})
	f.u64(192, uint64(p.time.Load()))
	f.u64(200, p.ran.Load())
	f.u32(216, uint32(p.verified))
	if p.attachID != 0 {
		if p.attachProg != nil {
			f.u32(220, p.attachProg.btf.id)
		} else {
			f.u32(220, p.sys.types.id)
		}
		f.u32(224, p.attachID)
	}
	return f
}

// xlated returns the instructions as others see them: bpf_insn_prepare_dump. Maps have their numbers; a call of one of
// the program's functions, and a pointer to one, says which function of the program that is.
func (p *Prog) xlated() []byte {
	b := slices.Clone(p.raw)
	var starts []int // of functions
	for at, o := range p.ops {
		if o.length > 0 {
			starts = append(starts, at)
		}
	}
	function := func(at int) uint32 {
		n, _ := slices.BinarySearch(starts, at)
		return uint32(n)
	}
	for n, i := range p.insns {
		at := n * insnSize
		switch {
		case i.code == classJMP|jmpCALL && i.src == pseudoCall:
			binary.LittleEndian.PutUint16(b[at+2:], uint16(i.imm))
			binary.LittleEndian.PutUint32(b[at+4:], function(n+1+int(i.imm)))
		case i.wideLoad() && i.src == pseudoFunc:
			binary.LittleEndian.PutUint32(b[at+insnSize+4:], function(n+1+int(i.imm)))
		case i.wideLoad() && i.src != 0:
			direct := i.src == pseudoMapValue || i.src == pseudoMapIdxValue
			for _, m := range p.maps {
				if direct && m.kind == mapArray && p.wide[n]-m.address(0) < uint64(m.value) || !direct && p.wide[n] == m.pointer() {
					binary.LittleEndian.PutUint32(b[at+4:], m.id)
				}
			}
			kind := byte(pseudoMapFD)
			if direct {
				kind = pseudoMapValue
			}
			b[at+1] = b[at+1]&0xf | kind<<4
		}
	}
	return b
}

// infoTable are records of BPF_PROG_LOAD that say which function or line of the source an instruction is of.
type infoTable struct {
	records []byte
	size    int // of one, bytes
}

// Sizes of struct bpf_func_info and struct bpf_line_info, bytes, and of what a later kernel may have.
const (
	funcInfoSize = 8
	lineInfoSize = 16
	maxInfoSize  = 252
)

// readInfo reads such records. It fails with EINVAL for a size of another form, with E2BIG for records with more than is
// known.
func readInfo(c Caller, size uint32, at uint64, count uint32, known int) (t infoTable, err error) {
	switch {
	case count == 0:
		return t, nil
	case size < uint32(known) || size > maxInfoSize || size%4 != 0 || count > maxInsns:
		return t, fmt.Errorf("%d records of %d bytes: %w", count, size, syscall.EINVAL)
	}
	t.size = known
	for n := range uint64(count) {
		b, err := read(c, at+n*uint64(size), int(size))
		if err != nil {
			return t, err
		}
		if len(bytes.Trim(b[known:], "\x00")) > 0 {
			return t, fmt.Errorf("a record with more than is known: %w", syscall.E2BIG)
		}
		t.records = append(t.records, b[:known]...)
	}
	return t, nil
}

// infoPlace is where struct bpf_prog_info has the size of a record, the caller's room for them, and how many there are.
type infoPlace struct{ size, at, count int }

// give writes as many records as the caller has room for.
func (t infoTable) give(c Caller, f fields, in []byte, place infoPlace) {
	if t.size == 0 {
		return
	}
	count := uint32(len(t.records) / t.size)
	n, to := given(in, place.count), given64(in, place.at)
	if n > 0 && to != 0 {
		c.Write(to, t.records[:int(min(n, count))*t.size])
	}
	f.u32(place.size, uint32(t.size))
	f.u64(place.at, to)
	f.u32(place.count, count)
}

// info is struct bpf_map_info.
func (m *Map) info() []byte {
	f := make(fields, 88)
	f.u32(0, uint32(m.kind))
	f.u32(4, m.id)
	f.u32(8, uint32(m.key))
	f.u32(12, uint32(m.value))
	f.u32(16, uint32(m.entries))
	f.u32(20, m.flags)
	copy(f[24:39], m.name)
	f.u32(64, m.btfID)
	f.u32(68, m.btfKey)
	f.u32(72, m.btfValue)
	f.u64(80, m.extra)
	return f
}

// info is struct bpf_btf_info. It fails with ENOSPC if the name has no room.
func (t *BTF) info(c Caller, in []byte) (info []byte, full error) {
	f := make(fields, 32)
	f.u64(0, given64(in, 0))
	f.u32(8, uint32(len(t.data)))
	if n, to := int(given(in, 8)), given64(in, 0); n > 0 && to != 0 {
		c.Write(to, t.data[:min(n, len(t.data))])
	}
	f.u32(12, t.id)
	f.u64(16, given64(in, 16))
	f.u32(24, uint32(len(t.name)))
	if to, n := given64(in, 16), int(given(in, 24)); to != 0 && n > 0 {
		text := append([]byte(t.name), 0)
		if n < len(text) {
			text, full = append(text[:n-1:n-1], 0), syscall.ENOSPC
		}
		c.Write(to, text)
	}
	if t.kernel {
		f.u32(28, 1)
	}
	return f, full
}

// describe is struct bpf_link_info.
func (l *Link) describe(c Caller, in []byte) ([]byte, error) {
	f := make(fields, 48)
	f.u32(0, l.kind)
	f.u32(4, l.id)
	l.sys.objects.Lock()
	f.u32(8, l.prog.id)
	l.sys.objects.Unlock()
	switch l.kind {
	case linkRawTracepoint:
		return f, l.describeName(c, in, f)
	case linkIter:
		switch l.iter.tasks {
		case oneThread:
			f.u32(32, l.iter.id)
		case oneProcess:
			f.u32(36, l.iter.id)
		}
		return f, l.describeName(c, in, f)
	case linkTracing:
		f.u32(16, l.prog.attachType)
		f.u32(20, l.prog.targetObject())
		f.u32(24, l.prog.attachID)
	}
	return f, nil
}

// describeName tells the name of a raw tracepoint, or of an iterator's target. It fails with ENOSPC if that has no room.
func (l *Link) describeName(c Caller, in []byte, f fields) error {
	to, room := given64(in, 16), int(given(in, 24))
	if to == 0 != (room == 0) {
		return syscall.EINVAL
	}
	text := append([]byte(l.name), 0)
	f.u64(16, to)
	f.u32(24, uint32(len(text)))
	switch {
	case to == 0:
	case room < len(text):
		c.Write(to, append(text[:room-1:room-1], 0))
		return syscall.ENOSPC
	default:
		c.Write(to, text)
	}
	return nil
}

// attachPerfEvent is BPF_PERF_EVENT of BPF_LINK_CREATE.
const attachPerfEvent = 41

func (s *System) linkCreate(c Caller, a *attr) (Result, error) {
	p, ok := c.Object(a.fd(0)).(*Prog)
	if !ok {
		return Result{}, badObject(c.Object(a.fd(0)))
	}
	if p.kind == ProgTracing {
		if p.attachType == traceIter && a.u32(8) == traceIter {
			return s.attachIter(c, a, p)
		}
		if a.u32(8) != p.attachType || a.u32(4) != 0 || a.u32(16) != 0 || a.u32(12) != 0 {
			return Result{}, syscall.EINVAL
		}
		return s.attachTracing(p, a.u64(24))
	}
	if p.kind == ProgKprobe && a.u32(8) == traceKprobeMulti {
		return s.linkKprobeMulti(c, a, p)
	}
	if a.u32(8) != attachPerfEvent {
		return Result{}, fmt.Errorf("attach type %d: %w", a.u32(8), syscall.EINVAL)
	}
	if a.u32(12) != 0 {
		return Result{}, syscall.EINVAL
	}
	e, ok := c.Object(a.fd(4)).(*perf.Event)
	if !ok {
		return Result{}, syscall.EBADF // perf_event_get, also of another file
	}
	detach, err := s.AttachPerf(e, p, a.u64(16))
	if err != nil {
		return Result{}, err
	}
	return s.newLink(&Link{kind: linkPerfEvent, prog: p, detach: detach}), nil
}

// badObject is the error of a descriptor that refers to something else.
func badObject(object any) syscall.Errno {
	if object == nil {
		return syscall.EBADF
	}
	return syscall.EINVAL
}

// AttachPerf attaches a program to an event of perf_event_open(2): PERF_EVENT_IOC_SET_BPF. It fails with
// EINVAL if the program is not for such an event, with EEXIST if the event has a program already. The
// program keeps no reference.
func (s *System) AttachPerf(e *perf.Event, p *Prog, cookie uint64) (detach func(), err error) {
	a, ok := e.Source().(Attacher)
	if !ok {
		return nil, syscall.EINVAL
	}
	undo, err := a.AttachProgram(e, Attached{Prog: p, Cookie: cookie})
	if err != nil {
		return nil, err
	}
	s.objects.Lock()
	other := s.onEvents[e]
	if other == nil {
		if s.onEvents == nil {
			s.onEvents = map[*perf.Event]*Prog{}
		}
		s.onEvents[e] = p
	}
	s.objects.Unlock()
	if other != nil {
		undo()
		return nil, fmt.Errorf("an event with a program: %w", syscall.EEXIST)
	}
	return func() {
		undo()
		s.objects.Lock()
		defer s.objects.Unlock()
		delete(s.onEvents, e)
	}, nil
}

// Attacher is a perf.Source to which programs can be attached.
type Attacher interface {
	// AttachProgram has a program run at each hit of what e counts, until detach is called; then
	// it runs no more.
	AttachProgram(e *perf.Event, a Attached) (detach func(), err error)
}

// ErrType is the error of a program of a type that is not for the event.
var ErrType = fmt.Errorf("a program of another type: %w", syscall.EINVAL)

func (s *System) linkUpdate(c Caller, a *attr) (Result, error) {
	flags := a.u32(8)
	if flags&^updateReplace != 0 {
		return Result{}, syscall.EINVAL
	}
	l, ok := c.Object(a.fd(0)).(*Link)
	if !ok {
		return Result{}, badObject(c.Object(a.fd(0)))
	}
	fds := []int{a.fd(4)}
	if flags&updateReplace != 0 {
		fds = append(fds, a.fd(12))
	}
	programs := [2]*Prog{}
	for n, fd := range fds {
		if programs[n], ok = c.Object(fd).(*Prog); !ok {
			return Result{}, badObject(c.Object(fd))
		}
	}
	if l.kind != linkIter || flags&updateReplace == 0 && a.u32(12) != 0 {
		return Result{}, syscall.EINVAL // other links of tracing are not updated
	}
	return Result{}, s.replaceIter(l, programs[0], programs[1])
}

// linkDetach is BPF_LINK_DETACH: links of tracing do not have it.
func (s *System) linkDetach(c Caller, a *attr) (Result, error) {
	if _, ok := c.Object(a.fd(0)).(*Link); !ok {
		return Result{}, badObject(c.Object(a.fd(0)))
	}
	return Result{}, syscall.EOPNOTSUPP
}

// updateReplace is BPF_F_REPLACE: an update names the program that the link has.
const updateReplace = 1 << 2

// progBindMap has a program keep a map that it does not use.
func (s *System) progBindMap(c Caller, a *attr) (Result, error) {
	p, ok := c.Object(a.fd(0)).(*Prog)
	if !ok {
		return Result{}, badObject(c.Object(a.fd(0)))
	}
	m, err := mapOf(c, a.fd(4))
	if err != nil || a.u32(8) != 0 {
		return Result{}, errors.Join(err, syscall.EINVAL)
	}
	s.objects.Lock()
	defer s.objects.Unlock()
	if !slices.Contains(p.maps, m) {
		p.maps = append(p.maps, m)
		s.ref(m)
	}
	return Result{}, nil
}
