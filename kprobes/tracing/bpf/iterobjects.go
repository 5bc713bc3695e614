package bpf

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"

	"github.com/cilium/ebpf/btf"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Where a program of an iterator sees what is not in the kernel's memory. Maps are where they are for all programs.
const (
	iterMetaAddr = 0xfffffc0000000000 // struct bpf_iter_meta
	iterSeqAddr  = 0xfffffc0000001000 // struct seq_file
	progBase     = 0xfffffd0000000000 // programs, a page for each: struct bpf_prog, and from auxAt on its struct bpf_prog_aux
	auxAt        = 1024
	nameAt       = 3072 // and from here on the name of what it is attached to
)

// pointer returns what programs see as the program itself.
func (p *Prog) pointer() uint64 { return progBase + uint64(p.id)<<objShift }

// iterObjects is the kernel's memory with the objects of bpf(2) that an iterator shows, as the kernel's types say they look like.
type iterObjects struct {
	kernel abi.Memory // nil if there is none
	types  *kernelTypes
	shapes map[string]map[string]place // members by the names of structures and their own
	blocks []block
}

// place is where a member of a structure is, bytes.
type place struct{ at, size int }

// block is memory with an object.
type block struct {
	addr uint64
	b    []byte
}

func newIterObjects(t *kernelTypes) *iterObjects {
	return &iterObjects{types: t, shapes: map[string]map[string]place{}}
}

// begin forgets all objects.
func (m *iterObjects) begin(kernel abi.Memory) { m.kernel, m.blocks = kernel, m.blocks[:0] }

// shape returns where the members of a structure are, also of structures and unions without a name in it.
func (m *iterObjects) shape(name string) map[string]place {
	if s, ok := m.shapes[name]; ok {
		return s
	}
	s := map[string]place{}
	if t := m.types.structure(name); t != nil {
		s[""] = place{size: int(t.Size)}
		addMembers(s, t.Members, 0)
	}
	m.shapes[name] = s
	return s
}

func addMembers(s map[string]place, all []btf.Member, from int) {
	for _, f := range all {
		at := from + int(f.Offset.Bytes())
		if _, _, inner, ok := members(btf.UnderlyingType(f.Type)); ok && f.Name == "" {
			addMembers(s, inner, at)
			continue
		}
		if size, err := btf.Sizeof(f.Type); err == nil && f.BitfieldSize == 0 && f.Name != "" {
			s[f.Name] = place{at, size}
		}
	}
}

// object is a structure that is being filled.
type object struct {
	b     []byte
	shape map[string]place
}

// object adds a structure at an address.
func (m *iterObjects) object(name string, addr uint64) object {
	o := object{shape: m.shape(name)}
	o.b = make([]byte, o.shape[""].size)
	m.blocks = append(m.blocks, block{addr, o.b})
	return o
}

// set writes a number, if the structure has the member and it is not larger than a number.
func (o object) set(member string, v uint64) {
	if p, ok := o.shape[member]; ok && p.size <= 8 && p.at+p.size <= len(o.b) {
		copy(o.b[p.at:p.at+p.size], binary.LittleEndian.AppendUint64(nil, v))
	}
}

// text writes bytes.
func (o object) text(member string, b []byte) {
	if p, ok := o.shape[member]; ok && p.at+p.size <= len(o.b) {
		copy(o.b[p.at:p.at+p.size], b)
	}
}

func (o object) flag(member string, is bool) {
	if is {
		o.set(member, 1)
	}
}

func (m *iterObjects) meta(session, number uint64) {
	o := m.object("bpf_iter_meta", iterMetaAddr)
	o.set("seq", iterSeqAddr)
	o.set("session_id", session)
	o.set("seq_num", number)
	q := m.object("seq_file", iterSeqAddr)
	q.set("size", iterBuffer)
}

// aMap adds a struct bpf_map. The iterator has a reference of its own to it.
func (m *iterObjects) aMap(of *Map) {
	o := m.object("bpf_map", of.pointer())
	of.sys.objects.Lock()
	refs := of.refs
	of.sys.objects.Unlock()
	o.set("refcnt", uint64(refs+1))
	o.set("usercnt", uint64(of.users.Load()))
	o.set("map_type", uint64(of.kind))
	o.set("key_size", uint64(of.key))
	o.set("value_size", uint64(of.value))
	o.set("max_entries", uint64(of.entries))
	o.set("map_extra", of.extra)
	o.set("map_flags", uint64(of.flags))
	o.set("id", uint64(of.id))
	o.set("btf_key_type_id", uint64(of.btfKey))
	o.set("btf_value_type_id", uint64(of.btfValue))
	o.text("name", []byte(of.name))
	o.flag("frozen", of.frozen.Load())
}

// aProg adds a struct bpf_prog, and the one of the program that it is for.
func (m *iterObjects) aProg(p *Prog) {
	o := m.object("bpf_prog", p.pointer())
	o.set("type", uint64(p.kind))
	o.set("expected_attach_type", uint64(p.attachType))
	o.set("len", uint64(len(p.insns)))
	o.text("tag", p.tag[:])
	o.set("aux", p.pointer()+auxAt)
	aux := m.object("bpf_prog_aux", p.pointer()+auxAt)
	p.sys.objects.Lock()
	refs, maps := p.refs, len(p.maps)
	p.sys.objects.Unlock()
	aux.set("refcnt", uint64(refs+1))
	aux.set("used_map_cnt", uint64(maps))
	aux.set("id", uint64(p.id))
	aux.set("attach_btf_id", uint64(p.attachID))
	aux.set("load_time", uint64(p.loaded))
	aux.set("verified_insns", uint64(p.verified))
	aux.text("name", []byte(p.name))
	aux.flag("sleepable", p.sleepable)
	if p.target != nil {
		aux.set("attach_func_name", p.pointer()+nameAt)
		m.blocks = append(m.blocks, block{p.pointer() + nameAt, append([]byte(p.target.name), 0)})
	}
	if p.attachProg != nil {
		aux.set("dst_prog", p.attachProg.pointer())
		m.aProg(p.attachProg) // which is for no program itself
	}
}

// own returns n bytes of an object, or as many as there are.
func (m *iterObjects) own(addr uint64, n int) []byte {
	for _, k := range m.blocks {
		if at := addr - k.addr; addr >= k.addr && at < uint64(len(k.b)) {
			return k.b[at:min(at+uint64(n), uint64(len(k.b)))]
		}
	}
	return nil
}

// ReadAt implements abi.Memory.
func (m *iterObjects) ReadAt(addr uint64, p []byte) error {
	if b := m.own(addr, len(p)); b != nil {
		clear(p[copy(p, b):])
		return nil
	}
	if m.kernel == nil || addr >= stackBase && addr < progBase+1<<40 {
		return fmt.Errorf("nothing at %#x: %w", addr, syscall.EFAULT)
	}
	return m.kernel.ReadAt(addr, p)
}

// ReadU64 implements abi.Memory.
func (m *iterObjects) ReadU64(addr uint64) (uint64, error) {
	var b [8]byte
	err := m.ReadAt(addr, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// WriteAt implements abi.Memory: programs write no memory of the kernel.
func (m *iterObjects) WriteAt(uint64, []byte) error { return syscall.EFAULT }

// WriteU64 implements abi.Memory.
func (m *iterObjects) WriteU64(uint64, uint64) error { return syscall.EFAULT }

// maxListed bounds how many tasks are listed: PID_MAX_LIMIT.
const maxListed = 1 << 22

// allTasks returns the kernel's tasks in the order of their ids: for_each_process_thread. Who ends meanwhile may be missing.
func (s *System) allTasks() []iterTask {
	all := []iterTask{}
	m, task, signal := s.conf.Kernel, s.types.offsets("task_struct"), s.types.offsets("signal_struct")
	if m == nil || s.conf.Probes == nil || !task.have("tasks", "thread_node", "signal", "pid", "tgid") || !signal.have("thread_head") {
		return all
	}
	first := s.conf.Probes.Function("init_task")
	if first == 0 {
		return all
	}
	around(m, first+task["tasks"], maxListed, func(at uint64) {
		head, err := m.ReadU64(at - task["tasks"] + task["signal"])
		if err != nil {
			return
		}
		around(m, head+signal["thread_head"], maxListed-len(all), func(at uint64) {
			at -= task["thread_node"]
			var ids [2][4]byte
			if m.ReadAt(at+task["pid"], ids[0][:]) == nil && m.ReadAt(at+task["tgid"], ids[1][:]) == nil {
				all = append(all, iterTask{binary.LittleEndian.Uint32(ids[0][:]), binary.LittleEndian.Uint32(ids[1][:]), at})
			}
		})
	})
	if s.conf.EndedTasks != nil {
		ended := s.conf.EndedTasks()
		all = slices.DeleteFunc(all, func(t iterTask) bool { return slices.Contains(ended, t.addr) })
	}
	slices.SortFunc(all, func(a, b iterTask) int { return cmp.Compare(a.tid, b.tid) })
	return slices.CompactFunc(all, func(a, b iterTask) bool { return a.tid == b.tid })
}

// around calls visit for the entries of a list of the kernel, at most so many, that begins at an address.
func around(m abi.Memory, head uint64, most int, visit func(at uint64)) {
	for at, n := head, 0; n < most; n++ {
		next, err := m.ReadU64(at)
		if err != nil || next == head || next == 0 {
			return
		}
		at = next
		visit(at)
	}
}

// offsets are the places of a structure's members, bytes.
type offsets map[string]uint64

func (t *kernelTypes) offsets(name string) offsets {
	o := offsets{}
	for member, p := range newIterObjects(t).shape(name) {
		o[member] = uint64(p.at)
	}
	return o
}

func (o offsets) have(all ...string) bool {
	return !slices.ContainsFunc(all, func(name string) bool { _, ok := o[name]; return !ok })
}
