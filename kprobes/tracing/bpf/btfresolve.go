package bpf

import (
	"fmt"
	"syscall"
)

// btfSize is the result of resolving a type.
type btfSize struct {
	size       uint32 // in bytes, if the type has one
	has, known bool
	partial    bool     // it was not looked at as far as it would be for itself
	base       *btfType // the type without typedefs and qualifiers, or nil for void
}

// maxBTFDepth is MAX_RESOLVE_DEPTH: how many types may be needed at once to know one.
const maxBTFDepth = 32

// composite reports whether the type needs its elements' or members'.
func (t *btfType) composite() bool {
	return t.kind == btfArray || t.kind == btfStruct || t.kind == btfUnion
}

// resolve is btf_check_all_types: it checks what the types refer to.
func (c *btfCheck) resolve() error {
	c.sizes = make([]btfSize, len(c.types))
	for _, t := range c.types[1:] {
		if _, err := c.sizeOf(t, nil); err != nil {
			return err
		}
	}
	for _, t := range c.types[1:] {
		if err := c.signature(t); err != nil {
			return err
		}
	}
	return nil
}

// find returns the type of a number, or nil for void; ok is false if there is none.
func (c *btfCheck) find(id uint32) (t *btfType, ok bool) {
	if int(id) >= len(c.types) {
		return nil, false
	}
	return c.types[id], true
}

// to returns the size of a type that another one refers to. The caller has checked that it exists.
func (c *btfCheck) to(id uint32, path []uint32) (btfSize, error) {
	if c.types[id] == nil {
		return btfSize{}, nil
	}
	return c.sizeOf(c.types[id], path)
}

// sizeOf returns the size of a type, and checks what it needs for that. path are the types that wait for it. It fails with
// EEXIST if it is one of them, and with E2BIG if there are too many.
func (c *btfCheck) sizeOf(t *btfType, path []uint32) (btfSize, error) {
	if s := c.sizes[t.id]; s.known {
		return s, nil
	}
	for _, id := range path {
		switch waits := c.types[id]; {
		case id == t.id:
			return btfSize{}, c.unresolved(path[0], syscall.EEXIST)
		case t.kind == btfPtr && waits.composite():
			return btfSize{size: 8, has: true, partial: true, base: t}, nil // what it points to is not needed
		case t.composite() && waits.kind == btfPtr:
			return btfSize{size: t.size, has: true, partial: true, base: t}, nil
		}
	}
	if len(path) == maxBTFDepth {
		return btfSize{}, c.unresolved(path[0], syscall.E2BIG)
	}
	s, err := c.measure(t, append(path[:len(path):len(path)], t.id))
	if err != nil {
		return s, err
	}
	if !t.refers() {
		s.base = t
	}
	if !s.partial {
		s.known = true
		c.sizes[t.id] = s
	}
	return s, nil
}

// unresolved logs why the type that needed others cannot be resolved.
func (c *btfCheck) unresolved(first uint32, why syscall.Errno) error {
	if why == syscall.E2BIG {
		c.show(c.types[first], fmt.Sprintf("Exceeded max resolving depth:%d", maxBTFDepth))
	} else {
		c.show(c.types[first], "Loop detected")
	}
	return why
}

func (c *btfCheck) measure(t *btfType, path []uint32) (btfSize, error) {
	switch t.kind {
	case btfInt, btfFloat, btfEnum, btfEnum64:
		return btfSize{size: t.size, has: true}, nil
	case btfPtr:
		to, ok := c.find(t.size)
		if !ok || to != nil && (to.kind == btfVar || to.kind == btfDatasec) {
			return btfSize{}, c.wrong(t, "Invalid type_id")
		}
		if to != nil && (to.kind == btfPtr || to.refers()) {
			if _, err := c.sizeOf(to, path); err != nil {
				return btfSize{}, err
			}
		}
		return btfSize{size: 8, has: true}, nil
	case btfTypedef, btfVolatile, btfConst, btfRestrict, btfTypeTag:
		if to, ok := c.find(t.size); !ok || to != nil && (to.kind == btfVar || to.kind == btfDatasec) {
			return btfSize{}, c.wrong(t, "Invalid type_id")
		}
		return c.to(t.size, path)
	case btfArray:
		return c.measureArray(t, path)
	case btfStruct, btfUnion:
		return btfSize{size: t.size, has: true}, c.resolveMembers(t, path)
	case btfVar:
		if to, ok := c.find(t.size); !ok || to == nil || to.kind == btfVar || to.kind == btfDatasec {
			return btfSize{}, c.wrong(t, "Invalid type_id")
		}
		s, err := c.to(t.size, path)
		if err == nil && !s.has {
			return s, c.wrong(t, "Invalid type_id")
		}
		return s, err
	case btfDatasec:
		return btfSize{size: t.size, has: true}, c.resolveSection(t, path)
	}
	return btfSize{}, nil
}

func (c *btfCheck) measureArray(t *btfType, path []uint32) (btfSize, error) {
	elem, index, n := t.word(0), t.word(4), t.word(8)
	if to, ok := c.find(index); !ok || to == nil {
		return btfSize{}, c.wrong(t, "Invalid index")
	}
	if by, err := c.to(index, path); err != nil {
		return btfSize{}, err
	} else if by.base == nil || by.base.kind != btfInt || !regularInt(by.base) {
		return btfSize{}, c.wrong(t, "Invalid index")
	}
	if to, ok := c.find(elem); !ok || to == nil {
		return btfSize{}, c.wrong(t, "Invalid elem")
	}
	each, err := c.to(elem, path)
	if err != nil {
		return btfSize{}, err
	}
	switch {
	case !each.has:
		return btfSize{}, c.wrong(t, "Invalid elem")
	case each.base.kind == btfInt && !regularInt(each.base):
		return btfSize{}, c.wrong(t, "Invalid array of int")
	case uint64(each.size)*uint64(n) > 1<<32-1:
		return btfSize{}, c.wrong(t, "Array size overflows U32_MAX")
	}
	return btfSize{size: each.size * n, has: true}, nil
}

// regularInt reports whether an integer is one that arrays may have: whole bytes, as many as its size.
func regularInt(t *btfType) bool {
	data := t.word(0)
	bits := data & 0xff
	switch bits / 8 {
	case 1, 2, 4, 8, 16:
		return bits%8 == 0 && data>>16&0xff == 0
	}
	return false
}

// resolveMembers checks the types of members, and that they fit.
func (c *btfCheck) resolveMembers(t *btfType, path []uint32) error {
	for n := range int(t.vlen) {
		m := t.member(n)
		wrong := ""
		if to, ok := c.find(m.typ); !ok || to == nil {
			wrong = "Invalid member"
		} else if s, err := c.to(m.typ, path); err != nil {
			return err
		} else if !s.has {
			wrong = "Invalid member"
		} else {
			wrong = t.fits(m, s)
		}
		if wrong != "" {
			c.show(t, "")
			c.showMember(t, m, wrong)
			return syscall.EINVAL
		}
	}
	return nil
}

// fits says what is wrong with a member of a type, or "".
func (t *btfType) fits(m btfMember, s btfSize) string {
	base, bits := s.base, uint64(s.size)*8
	if m.bits != 0 {
		switch {
		case base == nil || base.kind != btfInt && base.kind != btfEnum && base.kind != btfEnum64:
			return "Invalid member bitfield_size"
		case uint64(m.bits) > bits:
			return "Invalid member bitfield_size"
		}
		bits = uint64(m.bits)
	} else if base != nil && base.kind == btfInt && !t.flag {
		data := base.word(0)
		bits = uint64(data>>16&0xff) + uint64(data&0xff)
	} else if m.offset%8 != 0 && base != nil && base.kind == btfInt {
		return "Invalid member offset"
	} else if m.offset%8 != 0 {
		return "Member is not byte aligned"
	}
	if (uint64(m.offset)+bits+7)/8 > uint64(t.size) {
		return "Member exceeds struct_size"
	}
	return ""
}

// resolveSection checks the variables of a section.
func (c *btfCheck) resolveSection(t *btfType, path []uint32) error {
	resolved := func(id uint32) bool { return int(id) < len(c.sizes) && c.sizes[id].known }
	for n := range int(t.vlen) {
		typ, offset, size := t.word(12*n), t.word(12*n+4), t.word(12*n+8)
		wrong, before := "", resolved(typ) // Linux does not come back to one that it resolves now
		if v, ok := c.find(typ); !ok || v == nil || v.kind != btfVar {
			wrong = "Not a VAR kind member"
		} else if s, err := c.to(typ, path); err != nil {
			return err
		} else if before && size < s.size {
			wrong = "Invalid size"
		}
		if wrong != "" {
			c.show(t, "")
			c.log.printf("\t type_id=%d offset=%d size=%d %s\n", typ, offset, size, wrong)
			return syscall.EINVAL
		}
	}
	return nil
}

// signature checks what functions and tags refer to.
func (c *btfCheck) signature(t *btfType) error {
	switch t.kind {
	case btfFunc:
		if to, ok := c.find(t.size); !ok || to == nil || to.kind != btfFuncProto {
			return c.wrong(t, "Invalid type_id")
		}
		return c.parameterNames(t, c.types[t.size])
	case btfFuncProto:
		if t.size != 0 {
			if to, ok := c.find(t.size); !ok || to == nil {
				return c.wrong(t, "Invalid return type")
			}
			if s, err := c.to(t.size, nil); err != nil || !s.has && s.base != nil {
				return c.wrong(t, "Invalid return type")
			}
		}
		return c.parameters(t)
	case btfDeclTag:
		return c.tagged(t)
	}
	return nil
}

// parameterNames checks that the parameters of a function have names.
func (c *btfCheck) parameterNames(f, proto *btfType) error {
	for n := range int(proto.vlen) {
		if name, typ := proto.word(8*n), proto.word(8*n+4); name == 0 && typ != 0 {
			return c.wrong(f, fmt.Sprintf("Invalid arg#%d", n+1))
		}
	}
	return nil
}

func (c *btfCheck) parameters(t *btfType) error {
	for n := range int(t.vlen) {
		name, typ := t.word(8*n), t.word(8*n+4)
		if n == int(t.vlen)-1 && typ == 0 {
			if name != 0 {
				return c.wrong(t, fmt.Sprintf("Invalid arg#%d", n+1))
			}
			return nil
		}
		to, ok := c.find(typ)
		switch {
		case !ok || to == nil, name != 0 && !c.identifier(name):
			return c.wrong(t, fmt.Sprintf("Invalid arg#%d", n+1))
		}
		if s, err := c.to(typ, nil); err != nil || !s.has {
			return c.wrong(t, fmt.Sprintf("Invalid arg#%d", n+1))
		}
	}
	return nil
}

// tagged checks what a tag is of.
func (c *btfCheck) tagged(t *btfType) error {
	component := int32(t.word(0))
	to, ok := c.find(t.size)
	if !ok || to == nil {
		return c.wrong(t, "Invalid type_id")
	}
	count := uint32(0)
	switch to.kind {
	case btfStruct, btfUnion:
		count = to.vlen
	case btfFunc:
		if proto, ok := c.find(to.size); ok && proto != nil {
			count = proto.vlen
		}
	case btfVar, btfTypedef:
		if component != -1 {
			return c.wrong(t, "Invalid component_idx")
		}
	default:
		return c.wrong(t, "Invalid type_id")
	}
	if component != -1 && uint32(component) >= count {
		return c.wrong(t, "Invalid component_idx")
	}
	return nil
}
