package module

import (
	"debug/elf"
	"encoding/binary"
	"slices"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// info writes struct load_info (kernel/guest/kernel/module/internal.h) with what it refers
// to: it is at address at, of which it returns the contents. The guest fills in struct module
// from it.
func (m *module) info(o *object, uses []uint64, at uint64) []byte {
	w := infoWriter{at: at, b: make([]byte, infoLen)}
	headers, names := w.sections(o)
	list := []uint64{m.desc, headers, uint64(len(o.sections)), names, w.text(o.args)}
	for _, text := range []string{m.version, m.srcversion} {
		if text == "" {
			list = append(list, 0)
		} else {
			list = append(list, w.text(text))
		}
	}
	percpu := uint64(0)
	if s := o.section(percpuSection); s != nil {
		percpu = s.Size
	}
	kallsyms := uint64(0)
	if len(o.all.index) > 0 {
		kallsyms = m.at[o.all.area].start + o.kallsyms
	}
	list = append(list, taintBits(m.taints), m.percpu, percpu, kallsyms)
	list = append(list, o.kallsymsWords(&m.at, &o.core)...)
	list = append(list, w.put(words(uses...)), uint64(len(uses)))
	for a := range m.at {
		list = append(list, m.at[a].start, m.at[a].pages()*abi.PageSize)
	}
	copy(w.b, words(list...))
	return w.b
}

// infoLen is the size of struct load_info in bytes.
const infoLen = 8 * (17 + 2*uint64(areas))

// infoWriter collects what the struct refers to.
type infoWriter struct {
	at uint64 // the address of b
	b  []byte
}

// put appends p, aligned to eight bytes, and returns its address.
func (w *infoWriter) put(p []byte) uint64 {
	w.b = append(w.b, make([]byte, -len(w.b)&7)...)
	addr := w.at + uint64(len(w.b))
	w.b = append(w.b, p...)
	return addr
}

func (w *infoWriter) text(s string) uint64 { return w.put(append([]byte(s), 0)) }

// sections writes the section headers with the addresses of what is loaded, and the names of
// the sections. As on Linux, only what is in the module's memory has SHF_ALLOC.
func (w *infoWriter) sections(o *object) (headers, names uint64) {
	var all, text []byte
	for i := range o.sections {
		s := &o.sections[i]
		flags := s.Flags &^ elf.SHF_ALLOC
		if s.addr != 0 && s.Name != percpuSection {
			flags |= elf.SHF_ALLOC
		}
		all = binary.LittleEndian.AppendUint32(all, uint32(len(text)))
		all = binary.LittleEndian.AppendUint32(all, uint32(s.Type))
		all = append(all, words(uint64(flags), s.addr, s.Offset, s.Size)...)
		all = binary.LittleEndian.AppendUint32(all, s.Link)
		all = binary.LittleEndian.AppendUint32(all, s.Info)
		all = append(all, words(s.Addralign, s.Entsize)...)
		text = append(append(text, s.Name...), 0)
	}
	return w.put(all), w.put(text)
}

// usesOf returns the addresses of the struct modules of those that m uses.
func (l *Loader) usesOf(m *module) []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []uint64
	for _, u := range m.uses {
		if u.desc != 0 {
			list = append(list, u.desc)
		}
	}
	return slices.Clip(list)
}
