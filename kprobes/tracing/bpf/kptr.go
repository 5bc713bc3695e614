package bpf

import (
	"syscall"

	"github.com/cilium/ebpf/btf"
)

// kptr is a pointer to a structure of the kernel in the values of a map: a member whose type has the tag "kptr". It has no
// reference: what it points to may be gone. (6.1 has pointers with references, "kptr_ref", only for structures that have a
// function to release them, and the emulated kernel has none.)
type kptr struct {
	off int
	to  *btf.Struct
}

const (
	kptrSize = 8
	maxKptrs = 8 // BPF_MAP_VALUE_OFF_MAX
)

// findKptrs returns the pointers in values of a type: btf_parse_kptrs. If one of them cannot be, there are none.
func (m *Map) findKptrs(value *btfType) (all []kptr) {
	types := m.btf.types
	ok := eachField(types, value, func(typ, off uint32) bool {
		to, is, ok := kptrTarget(types, typ)
		if !is || !ok {
			return ok
		}
		target := m.sys.types.structure(to)
		if target == nil || off%kptrSize != 0 || len(all) == maxKptrs {
			return false
		}
		all = append(all, kptr{int(off), target})
		return true
	})
	if !ok {
		return nil
	}
	return all
}

// kptrTarget returns the name of the structure that a tagged pointer points to; ok is false for a pointer with another tag, with
// several, with a reference, or to something else: btf_find_kptr.
func kptrTarget(c *btfCheck, id uint32) (name string, is, ok bool) {
	t, _ := c.find(id)
	if t != nil && t.kind == btfVolatile {
		t, _ = c.find(t.size)
	}
	if t == nil || t.kind != btfPtr {
		return "", false, true
	}
	tag, _ := c.find(t.size)
	if tag == nil || tag.kind != btfTypeTag {
		return "", false, true
	}
	if to, _ := c.find(tag.size); to != nil && to.kind == btfTypeTag || c.nameOf(tag) != "kptr" {
		return "", true, false
	}
	base, _ := c.find(tag.size)
	for range len(c.types) {
		if base == nil || !base.refers() {
			break
		}
		base, _ = c.find(base.size)
	}
	if base == nil || base.kind != btfStruct {
		return "", true, false
	}
	return c.nameOf(base), true, true
}

// kptrAt returns the pointer at an offset of a value, or nil.
func (m *Map) kptrAt(off int64) *kptr {
	for n := range m.kptrs {
		if int64(m.kptrs[n].off) == off {
			return &m.kptrs[n]
		}
	}
	return nil
}

// kptrRange is the part of check_map_access about pointers in a value: an access to the bytes from lo up to hi has to be to
// one pointer and no other byte, or to none.
func (v *verifier) kptrRange(p value, lo, hi int64, helper bool) error {
	for _, k := range p.m.kptrs {
		at := int64(k.off)
		switch {
		case lo >= at+kptrSize || at >= hi:
			continue
		case helper:
			return v.refuse(syscall.EACCES, "kptr cannot be accessed indirectly by helper")
		case !p.isConst():
			return v.refuse(syscall.EACCES, "kptr access cannot have variable offset")
		case at != lo:
			return v.refuse(syscall.EACCES, "kptr access misaligned expected=%d off=%d", at, lo)
		case hi-lo != kptrSize:
			return v.refuse(syscall.EACCES, "kptr access size must be BPF_DW")
		}
	}
	return nil
}

// kptrStore is check_map_kptr_access of a store: i is the instruction, and stored what it stores.
func (v *verifier) kptrStore(k *kptr, i insn, stored *value) error {
	null := stored.typ == regScalar && stored.isConst() && stored.bits == 0
	target := k.to.Name
	switch {
	case i.mode() != modeMEM:
		return v.refuse(syscall.EACCES, "kptr in map can only be accessed using BPF_MEM instruction mode")
	case null:
		return nil
	case i.class() == classST:
		return v.refuse(syscall.EACCES, "BPF_ST imm must be 0 when storing to kptr at off=%d", k.off)
	}
	name := v.typeName(stored.typ)
	switch stored.typ {
	case regStruct, regUntrusted, regUntrustedOrNull:
		if stored.to == nil {
			return nil
		}
		name += stored.to.TypeName()
		if stored.to.TypeName() == target && stored.off == 0 && stored.isConst() && stored.bits == 0 {
			return nil
		}
	default:
	}
	return v.refuse(syscall.EACCES, "invalid kptr access, R%d type=%s expected=%s%s or %s%s", i.src, name, v.typeName(regStruct), target, v.typeName(regUntrusted), target)
}

// kptrArgument is process_kptr_func: bpf_kptr_xchg wants a pointer with a reference, and no map has one.
func (v *verifier) kptrArgument(p value, r uint8) error {
	at := int64(p.bits) + int64(p.off)
	switch {
	case p.typ != regMapValue:
		return v.refuse(syscall.EACCES, "R%d type=%s expected=%s", r, v.typeName(p.typ), v.typeName(regMapValue))
	case !p.isConst():
		return v.refuse(syscall.EACCES, "R%d doesn't have constant offset. kptr has to be at the constant offset", r)
	case p.m.btf == nil:
		return v.refuse(syscall.EACCES, "map '%s' has to have BTF in order to use bpf_kptr_xchg", p.m.name)
	case len(p.m.kptrs) == 0:
		return v.refuse(syscall.EACCES, "map '%s' has no valid kptr", p.m.name)
	case p.m.kptrAt(at) == nil:
		return v.refuse(syscall.EACCES, "off=%d doesn't point to kptr", at)
	}
	return v.refuse(syscall.EACCES, "off=%d kptr isn't referenced kptr", at)
}
