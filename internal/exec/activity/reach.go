package activity

import (
	"encoding/binary"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/ftrace"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/module"
)

// A supervisor needs to report only those calls that can reach an armed probe. The
// guest's text tells which these are. The search starts at a probe and goes backwards:
// to the callers of its function, their callers, and so on up to the functions of
// system calls. It gives up, with "every call", where that is not certain: at a function
// whose address is used other than in a call or in sys_call_table, since anything may
// call it, and at a function without an fentry site, which may be assembly that other
// code falls or jumps into.

// optionalCalls are the numbers of the calls that may be omitted.
var optionalCalls = []uint64{
	abi.SysOpen, abi.SysOpenat, abi.SysOpenat2, abi.SysChdir, abi.SysSymlink, abi.SysSymlinkat, abi.SysUnlink, abi.SysUnlinkat,
	abi.SysMkdir, abi.SysMkdirat, abi.SysRmdir, abi.SysKill, abi.SysTkill, abi.SysTgkill, abi.SysCreat,
}

// Every means that all calls are wanted; 0 means none.
const Every = ^uint32(0)

// always is set in every other answer. It is the bit of the calls that change what is known of a thread that has a
// task, such as its name.
const always uint32 = 1

// lives is the bit of lifeCalls.
const lives uint32 = 1 << 31

// lifeCalls begin and end tasks, or give them a new program. They are omitted where nobody can see them: a
// task is made when its thread first makes a call that can be seen, and has a new program before its next one (renew).
var lifeCalls = []uint64{
	abi.SysFork, abi.SysVfork, abi.SysClone, abi.SysClone3, abi.SysExecve, abi.SysExecveat, abi.SysExit, abi.SysExitGroup,
}

// CallBit returns the bit of a call, by its number, in Options.State.
func CallBit(nr uint64) uint32 {
	if slices.Contains(lifeCalls, nr) {
		return lives
	}
	return always << (1 + slices.Index(optionalCalls, nr))
}

// reach holds the calls between the functions of an image.
type reach struct {
	starts  []uint64 // of functions, sorted
	names   []string
	callers [][]int
	open    []bool // may be called from anywhere
}

func newReach(m *image.Image) *reach {
	r := &reach{}
	var tables [2]abi.Range // tables of addresses that only known code calls
	for _, s := range m.Symbols {
		switch s.Name {
		case "sys_call_table":
			tables[0] = abi.Range{Start: s.Addr, End: s.Addr + s.Size}
		case "__start_mcount_loc":
			tables[1].Start = s.Addr
		case "__stop_mcount_loc":
			tables[1].End = s.Addr
		}
		if s.Addr < m.Text.Start || s.Addr >= m.Text.End {
			continue
		}
		if n := len(r.starts); n > 0 && r.starts[n-1] == s.Addr {
			r.open[n-1] = true // it has two names
			continue
		}
		r.starts, r.names = append(r.starts, s.Addr), append(r.names, s.Name)
		r.open = append(r.open, !strings.Contains(s.Name, ".cold") && !strings.HasPrefix(s.Name, workPrefix))
	}
	r.callers = make([][]int, len(r.starts))
	for _, site := range m.Mcount {
		if i := r.at(site); i >= 0 {
			r.open[i] = false
		}
	}
	for _, seg := range m.Segments {
		if seg.Perm&image.Exec != 0 {
			r.scanText(seg)
			continue
		}
		r.scanData(seg, tables)
	}
	return r
}

// at returns the function that contains an address, or -1.
func (r *reach) at(addr uint64) int {
	return sort.Search(len(r.starts), func(i int) bool { return r.starts[i] > addr }) - 1
}

// start returns the function that begins at an address, or -1.
func (r *reach) start(addr uint64) int {
	if i := r.at(addr); i >= 0 && r.starts[i] == addr {
		return i
	}
	return -1
}

// scanData marks the functions whose addresses are in the segment as open.
func (r *reach) scanData(seg image.Segment, tables [2]abi.Range) {
	for i := 0; i+4 <= len(seg.Data); i++ {
		at := seg.Addr + uint64(i)
		if slices.ContainsFunc(tables[:], func(t abi.Range) bool { return at >= t.Start && at < t.End }) {
			continue
		}
		if f := r.start(absolute(seg.Data[i:])); f >= 0 {
			r.open[f] = true
		}
	}
}

// absolute extends the lower half of a kernel address.
func absolute(b []byte) uint64 { return uint64(int64(int32(binary.LittleEndian.Uint32(b)))) }

// scanText finds calls and jumps, and marks the functions whose addresses are loaded as
// open. It looks at each byte, so it needs no decoder: bytes that only look like a call
// add a caller that does not exist, which does no harm.
func (r *reach) scanText(seg image.Segment) {
	for i := 0; i+4 <= len(seg.Data); i++ {
		next := seg.Addr + uint64(i) + 4
		to := next + uint64(int64(int32(binary.LittleEndian.Uint32(seg.Data[i:]))))
		jumps := i > 0 && (seg.Data[i-1] == 0xe8 || seg.Data[i-1] == 0xe9) ||
			i > 1 && seg.Data[i-2] == 0x0f && seg.Data[i-1]&0xf0 == 0x80
		from := r.at(next - 5)
		if f := r.start(absolute(seg.Data[i:])); f >= 0 {
			r.open[f] = true
		}
		if !jumps {
			// What is neither a call nor a jump has a ModRM byte that says "relative to
			// the next instruction" before the distance.
			if f := r.start(to); f >= 0 && i > 0 && seg.Data[i-1]&0xc7 == 0x05 {
				r.open[f] = true
			}
			continue
		}
		if f := r.at(to); f >= 0 && to < seg.Addr+uint64(len(seg.Data)) && f != from {
			if from < 0 {
				r.open[f] = true
			} else if !slices.Contains(r.callers[f], from) {
				r.callers[f] = append(r.callers[f], from)
			}
		}
	}
}

// workPrefix starts the names of the functions that SYSCALL_DEFINE makes for the work of a
// call. Those with arguments are inline on Linux, and so have no fentry site.
const workPrefix = "__do_sys_"

// syscallPrefix starts the names of the functions of system calls.
const syscallPrefix = "__x64_sys_"

// from returns the system calls that can reach an address; ok is false if that is not known.
func (r *reach) from(addr uint64) (calls []string, ok bool) {
	f := r.at(addr)
	if f < 0 {
		return nil, false
	}
	seen := map[int]bool{f: true}
	for queue := []int{f}; len(queue) > 0; queue = queue[1:] {
		f := queue[0]
		if r.open[f] {
			return nil, false
		}
		if name, is := strings.CutPrefix(r.names[f], syscallPrefix); is {
			calls = append(calls, name)
		}
		for _, c := range r.callers[f] {
			if !seen[c] {
				seen[c] = true
				queue = append(queue, c)
			}
		}
	}
	return calls, true
}

// watchedCalls are the calls that somebody could see.
type watchedCalls struct {
	told     uint32  // bits of CallBit, Every or 0
	mirrored callSet // whatever can be mirrored
}

var everyCall = func() watchedCalls {
	w := watchedCalls{told: Every}
	for i := range w.mirrored {
		w.mirrored[i] = ^uint64(0)
	}
	return w
}()

// seen finds out which calls somebody could see.
type seen struct {
	machine Machine
	probes  Probes
	tracer  Tracer
	loaded  func() []module.Info
	sites   *ftrace.Sites

	elsewhere bool // no probe is in the guest

	mu        sync.Mutex   // taken before the probes' locks
	reach     *reach       // created when a probe is first armed
	reached   watchedCalls // the result of armedCalls until an address is armed or disarmed
	reachedAt uint64       // probes.ArmedChanges at that time
}

func newSeen(c Config) *seen {
	return &seen{machine: c.Machine, probes: c.Probes, tracer: c.Tracer, loaded: c.Loaded, sites: c.Sites, elsewhere: c.Elsewhere}
}

// anything reports whether anybody could see what the guest does.
func (s *seen) anything() bool {
	return s.probes.Armed() > 0 || s.tracer.Listening() || s.sites.Listening()
}

// wanted returns the calls that somebody could see.
func (s *seen) wanted() watchedCalls {
	if !s.anything() {
		return watchedCalls{}
	}
	if s.elsewhere {
		return watchedCalls{told: s.perfTold()}
	}
	if s.machine.Sites().Listening() || s.tracer.ListeningElsewhere() || len(s.loaded()) > 0 {
		return everyCall
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if changes := s.probes.ArmedChanges(); changes != s.reachedAt {
		s.reached, s.reachedAt = s.armedCalls(), changes
	}
	w := s.reached
	w.told |= s.perfTold()
	return w
}

// perfTold are the calls that perf follows, even if no probe of its events is armed.
func (s *seen) perfTold() uint32 {
	if s.tracer.Perf().Any() {
		return always | lives
	}
	return 0
}

// callBits returns a function from a call's name to its bits. A file that a reported
// call opens is also closed again.
func callBits(names []string) func(name string) uint32 {
	bits := map[string]uint32{}
	for nr, name := range names {
		bits[name] = CallBit(uint64(nr))
	}
	return func(name string) uint32 {
		if name == "close" {
			return bits["open"] | bits["openat"] | bits["openat2"] | bits["creat"]
		}
		return bits[name]
	}
}

// armedCalls requires mu.
func (s *seen) armedCalls() watchedCalls {
	if s.reach == nil {
		s.reach = newReach(s.machine.Image())
	}
	names := s.machine.Syscalls()
	bits := callBits(names)
	all := watchedCalls{told: always}
	for _, addr := range s.probes.ArmedAt() {
		calls, ok := s.reach.from(addr)
		if !ok {
			return everyCall
		}
		for _, name := range calls {
			all.told |= bits(name)
			all.mirrored.add(uint64(slices.Index(names, name)))
		}
	}
	return all
}
