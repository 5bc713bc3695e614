package bpf

import (
	"bytes"
	"sync"
	"syscall"

	"github.com/cilium/ebpf/btf"
)

// kernelTypes are the kernel's own types, which are parsed when they are first needed.
type kernelTypes struct {
	*BTF
	once sync.Once
	spec *btf.Spec // nil if they cannot be parsed
}

// parsed returns the types, or nil if there are none.
func (t *kernelTypes) parsed() *btf.Spec {
	if t == nil {
		return nil
	}
	t.once.Do(func() { t.spec, _ = btf.LoadSpecFromReader(bytes.NewReader(t.data)) })
	return t.spec
}

// structure returns the named structure of the kernel, or nil if its types are not known.
func (t *kernelTypes) structure(name string) *btf.Struct {
	spec := t.parsed()
	if spec == nil {
		return nil
	}
	var s *btf.Struct
	if spec.TypeByName(name, &s) != nil {
		return nil
	}
	return s
}

// members returns the size and the members of a structure or union; ok is false for another type.
func members(t btf.Type) (name string, size uint32, all []btf.Member, ok bool) {
	switch t := t.(type) {
	case *btf.Struct:
		return t.Name, t.Size, t.Members, true
	case *btf.Union:
		return t.Name, t.Size, t.Members, true
	}
	return "", 0, nil, false
}

// field is btf_struct_walk: what a program reads that loads size bytes at an offset in a structure. to is what a
// pointer there points to, if that is a structure or union, and nil for a number.
func (v *verifier) field(t btf.Type, off, size uint32) (to btf.Type, err error) {
	const maxNesting = 64 // structures in structures
	for range maxNesting {
		inner, at, to, done, err := v.member(t, off, size)
		if err != nil || done {
			return to, err
		}
		t, off = inner, at
	}
	return nil, v.refuse(syscall.EINVAL, "structures are nested too deep")
}

// member finds the member of a structure at an offset. If that is a structure itself, inner is it, and at the offset
// there; otherwise done is true.
func (v *verifier) member(t btf.Type, off, size uint32) (inner btf.Type, at uint32, to btf.Type, done bool, err error) {
	name, whole, all, _ := members(t)
	if name == "" {
		name = "(anon)"
	}
	if off+size > whole {
		if inner, at := flexible(all, off); inner != nil {
			return inner, at, nil, false, nil
		}
		return nil, 0, nil, false, v.refuse(syscall.EACCES, "access beyond struct %s at off %d size %d", name, off, size)
	}
	for _, m := range all {
		from := m.Offset.Bytes()
		if off+size <= from {
			break
		}
		if m.BitfieldSize > 0 {
			if off*8 >= uint32(m.Offset+m.BitfieldSize) {
				continue
			}
			return nil, 0, nil, true, nil
		}
		if off < from {
			break
		}
		n, err := btf.Sizeof(m.Type)
		if err != nil {
			return nil, 0, nil, false, v.refuse(syscall.EINVAL, "Type '%s' has no size", m.Name)
		}
		end := from + uint32(n)
		if off >= end {
			continue
		}
		typ := btf.UnderlyingType(m.Type)
		for array, ok := typ.(*btf.Array); ok; array, ok = typ.(*btf.Array) {
			typ = btf.UnderlyingType(array.Type)
			if each, _ := btf.Sizeof(typ); each > 0 {
				from, n = from+(off-from)/uint32(each)*uint32(each), each
			}
		}
		if _, _, _, ok := members(typ); ok {
			return typ, off - from, nil, false, nil
		}
		if p, ok := typ.(*btf.Pointer); ok {
			if uint32(n) != size || off != from {
				return nil, 0, nil, false, v.refuse(syscall.EACCES, "cannot access ptr member %s with moff %d in struct %s with off %d size %d", m.Name, from, name, off, size)
			}
			target := btf.UnderlyingType(p.Target)
			if _, _, _, ok := members(target); ok {
				return nil, 0, target, true, nil
			}
		}
		if off+size > end {
			return nil, 0, nil, false, v.refuse(syscall.EACCES, "access beyond the end of member %s (mend:%d) in struct %s with off %d size %d", m.Name, end, name, off, size)
		}
		return nil, 0, nil, true, nil
	}
	return nil, 0, nil, false, v.refuse(syscall.EINVAL, "struct %s doesn't have field at offset %d", name, off)
}

// flexible returns the element of an array without length at the end of a structure, and the offset in it.
func flexible(all []btf.Member, off uint32) (btf.Type, uint32) {
	if len(all) == 0 {
		return nil, 0
	}
	last := all[len(all)-1]
	array, ok := btf.UnderlyingType(last.Type).(*btf.Array)
	if !ok || array.Nelems != 0 || off < last.Offset.Bytes() {
		return nil, 0
	}
	elem := btf.UnderlyingType(array.Type)
	if _, size, _, ok := members(elem); ok && size > 0 {
		return elem, (off - last.Offset.Bytes()) % size
	}
	return nil, 0
}

// structAccess is check_ptr_to_btf_access: a load from a structure of the kernel.
func (v *verifier) structAccess(p value, a access) (value, error) {
	r, off, size := a.reg, a.off, a.size
	name := p.to.TypeName()
	at := int64(p.off) + int64(off)
	switch {
	case at < 0:
		return value{}, v.refuse(syscall.EACCES, "R%d is ptr_%s invalid negative access: off=%d", r, name, at)
	case !p.isConst() || p.bits != 0:
		return value{}, v.refuse(syscall.EACCES, "R%d is ptr_%s invalid variable offset: off=%d, var_off=%s", r, name, at, v.bitsText(p.tnum))
	case a.write:
		return value{}, v.refuse(syscall.EACCES, "only read is supported")
	}
	to, err := v.field(p.to, uint32(at), uint32(size))
	switch {
	case err != nil:
		return value{}, err
	case to != nil:
		loaded := pointer(p.typ) // what may be gone leads to what may be gone
		loaded.to = to
		return loaded, nil
	}
	return unknown(), nil
}

// find returns the number of the kernel's type of a name and kind (BTF_KIND_).
func (t *kernelTypes) find(name string, kind uint32) (id btf.TypeID, ok bool) {
	spec := t.parsed()
	if spec == nil || name == "" {
		return 0, false
	}
	all, err := spec.AnyTypesByName(name)
	if err != nil {
		return 0, false
	}
	for _, typ := range all {
		if kindOf(typ) != kind {
			continue
		}
		if id, err := spec.TypeID(typ); err == nil {
			return id, true
		}
	}
	return 0, false
}

// kindOf returns the kind of a type that has a name.
func kindOf(t btf.Type) uint32 {
	switch t.(type) {
	case *btf.Int:
		return btfInt
	case *btf.Struct:
		return btfStruct
	case *btf.Union:
		return btfUnion
	case *btf.Enum:
		return btfEnum
	case *btf.Fwd:
		return btfFwd
	case *btf.Typedef:
		return btfTypedef
	case *btf.Func:
		return btfFunc
	case *btf.Var:
		return btfVar
	case *btf.Datasec:
		return btfDatasec
	case *btf.Float:
		return btfFloat
	}
	return 0
}
