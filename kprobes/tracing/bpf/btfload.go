package bpf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"syscall"
)

// btfLoad is BPF_BTF_LOAD. It fails with E2BIG for types that are too large, and as btfCheck.check.
func (s *System) btfLoad(c Caller, a *attr) (Result, error) {
	const maxBTF = 16 << 20
	size := a.u32(16)
	if size > maxBTF {
		return Result{}, syscall.E2BIG
	}
	log, err := newLog(a.u32(24), a.u32(20), a.u64(8))
	if err != nil {
		return Result{}, err
	}
	log.size = min(log.size, maxBTF) // a name may be long, and be one of many types
	if err := s.conf.Room(8 * int(size)); err != nil {
		return Result{}, err
	}
	b, err := read(c, a.u64(0), int(size))
	if err != nil {
		return Result{}, err
	}
	check := btfCheck{data: b, log: log}
	err = check.check()
	if log.put(c) {
		err = syscall.ENOSPC
	}
	if err != nil {
		return Result{}, fmt.Errorf("BTF: %w", err)
	}
	check.log = nil
	t := &BTF{sys: s, data: b, types: &check, refs: 1}
	s.objects.Lock()
	t.id = s.btfs.add(t)
	s.objects.Unlock()
	return Result{Object: t}, nil
}

// Kinds of types (enum in uapi/linux/btf.h).
const (
	btfInt       = 1
	btfPtr       = 2
	btfArray     = 3
	btfStruct    = 4
	btfUnion     = 5
	btfEnum      = 6
	btfFwd       = 7
	btfTypedef   = 8
	btfVolatile  = 9
	btfConst     = 10
	btfRestrict  = 11
	btfFunc      = 12
	btfFuncProto = 13
	btfVar       = 14
	btfDatasec   = 15
	btfFloat     = 16
	btfDeclTag   = 17
	btfTypeTag   = 18
	btfEnum64    = 19
)

// Limits of BTF.
const (
	btfHeader  = 24      // bytes
	maxBTFType = 0xfffff // a type's number
	maxBTFName = 0xffffff
)

// btfKinds are the kinds of types: their names in the log, what follows a type, bytes: once, or for each member, and what
// is checked of it.
var btfKinds map[uint32]btfKind

type btfKind struct {
	name       string
	tail, each int
	check      func(c *btfCheck, t *btfType) error
	details    func(c *btfCheck, t *btfType) string
}

func init() {
	typeID := func(_ *btfCheck, t *btfType) string { return fmt.Sprintf("type_id=%d", t.size) }
	sized := func(_ *btfCheck, t *btfType) string { return fmt.Sprintf("size=%d vlen=%d", t.size, t.vlen) }
	modifier := btfKind{check: (*btfCheck).modifier, details: typeID}
	as := func(k btfKind, name string) btfKind { k.name = name; return k }
	aggregate := btfKind{each: 12, check: (*btfCheck).members, details: sized}
	enum := btfKind{each: 8, check: (*btfCheck).enum, details: sized}
	btfKinds = map[uint32]btfKind{
		btfInt: {name: "INT", tail: 4, check: (*btfCheck).integer, details: (*btfCheck).integerDetails},
		btfPtr: as(modifier, "PTR"), btfVolatile: as(modifier, "VOLATILE"), btfConst: as(modifier, "CONST"), btfRestrict: as(modifier, "RESTRICT"),
		btfTypedef: as(modifier, "TYPEDEF"), btfTypeTag: as(modifier, "TYPE_TAG"),
		btfArray: {name: "ARRAY", tail: 12, check: (*btfCheck).array, details: func(_ *btfCheck, t *btfType) string {
			return fmt.Sprintf("type_id=%d index_type_id=%d nr_elems=%d", t.word(0), t.word(4), t.word(8))
		}},
		btfStruct: as(aggregate, "STRUCT"), btfUnion: as(aggregate, "UNION"),
		btfEnum: as(enum, "ENUM"), btfEnum64: {name: "ENUM64", each: 12, check: (*btfCheck).enum, details: sized},
		btfFwd: {name: "FWD", check: (*btfCheck).forward, details: func(_ *btfCheck, t *btfType) string {
			if t.flag {
				return "union"
			}
			return "struct"
		}},
		btfFunc:      {name: "FUNC", check: (*btfCheck).function, details: typeID},
		btfFuncProto: {name: "FUNC_PROTO", each: 8, check: (*btfCheck).prototype, details: (*btfCheck).prototypeDetails},
		btfVar: {name: "VAR", tail: 4, check: (*btfCheck).variable, details: func(_ *btfCheck, t *btfType) string {
			return fmt.Sprintf("type_id=%d linkage=%d", t.size, t.word(0))
		}},
		btfDatasec: {name: "DATASEC", each: 12, check: (*btfCheck).section, details: sized},
		btfFloat:   {name: "FLOAT", check: (*btfCheck).float, details: func(_ *btfCheck, t *btfType) string { return fmt.Sprintf("size=%d", t.size) }},
		btfDeclTag: {name: "DECL_TAG", tail: 4, check: (*btfCheck).tag, details: func(_ *btfCheck, t *btfType) string {
			return fmt.Sprintf("type=%d component_idx=%d", t.size, int32(t.word(0)))
		}},
	}
}

// btfType is struct btf_type with what follows it.
type btfType struct {
	id, kind, vlen, name uint32
	size                 uint32 // or the type that it refers to
	flag                 bool
	tail                 []byte
}

func (t *btfType) word(at int) uint32 { return binary.LittleEndian.Uint32(t.tail[at:]) }

// refers reports whether the type has no size but the one of the type that it refers to.
func (t *btfType) refers() bool {
	switch t.kind {
	case btfTypedef, btfVolatile, btfConst, btfRestrict, btfTypeTag:
		return true
	}
	return false
}

// btfCheck checks types that a program has given, and says what is wrong with them as Linux does.
type btfCheck struct {
	data    []byte
	strings []byte
	types   []*btfType // by number; the first one is void
	log     *verifierLog
	sizes   []btfSize // by number, when they are resolved
}

// refuse logs what is wrong, without a newline as Linux does, and returns EINVAL.
func (c *btfCheck) refuse(format string, args ...any) error {
	c.log.printf(format, args...)
	return syscall.EINVAL
}

// nameAt returns a name in the words of the log.
func (c *btfCheck) nameAt(at uint32) string {
	switch {
	case at == 0:
		return "(anon)"
	case int(at) >= len(c.strings):
		return "(invalid-name-offset)"
	}
	text, _, _ := bytes.Cut(c.strings[at:], []byte{0})
	return string(text)
}

// show logs a type, and what is wrong with it, if anything is.
func (c *btfCheck) show(t *btfType, wrong string) {
	if c.log.off() {
		return
	}
	k := btfKinds[t.kind]
	line := fmt.Sprintf("[%d] %s %s %s", t.id, k.name, c.nameAt(t.name), k.details(c, t))
	if wrong != "" {
		line += " " + wrong
	}
	c.log.printf("%s\n", line)
}

// wrong logs a type with what is wrong with it.
func (c *btfCheck) wrong(t *btfType, why string) error {
	c.show(t, why)
	return syscall.EINVAL
}

// wrongBasic is wrong without the type's details.
func (c *btfCheck) wrongBasic(t *btfType, format string, args ...any) error {
	return c.refuse("[%d] %s %s %s\n", t.id, btfKinds[t.kind].name, c.nameAt(t.name), fmt.Sprintf(format, args...))
}

// check is btf_parse. It fails with EINVAL, ENOTSUPP for another version, flag or encoding, and E2BIG for a header with
// more than is known.
func (c *btfCheck) check() error {
	types, err := c.header()
	if err != nil {
		return err
	}
	if err := c.read(types); err != nil {
		return err
	}
	return c.resolve()
}

// header checks the header and the strings, and returns the section of the types.
func (c *btfCheck) header() ([]byte, error) {
	b := c.data
	if len(b) < 8 {
		return nil, c.refuse("hdr_len not found")
	}
	size := int(binary.LittleEndian.Uint32(b[4:]))
	switch {
	case size < 0 || len(b) < size:
		return nil, c.refuse("btf_header not found")
	case size > btfHeader && len(bytes.Trim(b[btfHeader:size], "\x00")) > 0:
		c.log.printf("Unsupported btf_header")
		return nil, syscall.E2BIG
	}
	var h [btfHeader]byte
	copy(h[:], b[:size])
	word := func(at int) int64 { return int64(binary.LittleEndian.Uint32(h[at:])) }
	magic, typeOff, typeLen, nameOff, nameLen := binary.LittleEndian.Uint16(h[:]), word(8), word(12), word(16), word(20)
	c.log.printf("magic: 0x%x\nversion: %d\nflags: 0x%x\nhdr_len: %d\ntype_off: %d\ntype_len: %d\nstr_off: %d\nstr_len: %d\nbtf_total_size: %d\n",
		magic, h[2], h[3], size, typeOff, typeLen, nameOff, nameLen, len(b))
	switch {
	case magic != 0xeb9f:
		return nil, c.refuse("Invalid magic")
	case h[2] != 1:
		c.log.printf("Unsupported version")
		return nil, errNotSupported
	case h[3] != 0:
		c.log.printf("Unsupported flags")
		return nil, errNotSupported
	case len(b) == size:
		return nil, c.refuse("No data")
	}
	if err := c.sections(int64(len(b)-size), [][2]int64{{typeOff, typeLen}, {nameOff, nameLen}}); err != nil {
		return nil, err
	}
	b = b[size:]
	c.strings = b[nameOff : nameOff+nameLen]
	switch {
	case nameOff+nameLen != int64(len(b)):
		return nil, c.refuse("String section is not at the end")
	case nameLen == 0 || nameLen-1 > maxBTFName || c.strings[0] != 0 || c.strings[nameLen-1] != 0:
		return nil, c.refuse("Invalid string section")
	case typeOff&3 != 0:
		return nil, c.refuse("Unaligned type_off")
	case typeLen == 0:
		return nil, c.refuse("No type found")
	}
	return b[typeOff : typeOff+typeLen], nil
}

// sections checks that the sections cover so many bytes, without overlap.
func (c *btfCheck) sections(size int64, all [][2]int64) error {
	if all[0][0] > all[1][0] {
		all[0], all[1] = all[1], all[0]
	}
	total := int64(0)
	for _, s := range all {
		switch {
		case s[0] < total:
			return c.refuse("Section overlap found")
		case s[0] > total:
			return c.refuse("Unsupported section found")
		case s[1] > size-total:
			return c.refuse("Total section length too long")
		}
		total += s[1]
	}
	if total != size {
		return c.refuse("Unsupported section found")
	}
	return nil
}

// read is btf_check_all_metas: it reads the types, and checks what each says of itself.
func (c *btfCheck) read(b []byte) error {
	const (
		typeSize = 12
		infoMask = 0x9f00ffff
	)
	c.types = []*btfType{nil}
	for len(b) > 0 {
		id := uint32(len(c.types))
		if len(b) < typeSize {
			return c.refuse("[%d] meta_left:%d meta_needed:%d", id, len(b), typeSize)
		}
		info := binary.LittleEndian.Uint32(b[4:])
		t := &btfType{id: id, name: binary.LittleEndian.Uint32(b), kind: info >> 24 & 0x1f, vlen: info & 0xffff, flag: info>>31 != 0, size: binary.LittleEndian.Uint32(b[8:])}
		k, known := btfKinds[t.kind]
		switch {
		case info&^infoMask != 0:
			return c.refuse("[%d] Invalid btf_info:%x", id, info)
		case !known:
			return c.refuse("[%d] Invalid kind:%d", id, t.kind)
		case int(t.name) >= len(c.strings):
			return c.refuse("[%d] Invalid name_offset:%d", id, t.name)
		}
		b = b[typeSize:]
		need := k.tail + k.each*int(t.vlen)
		if k.tail > 0 {
			need = k.tail
		}
		if len(b) < need {
			return c.wrongBasic(t, "meta_left:%d meta_needed:%d", len(b), need)
		}
		t.tail, b = b[:need], b[need:]
		if err := k.check(c, t); err != nil {
			return err
		}
		if len(c.types) > maxBTFType {
			c.log.printf("Exceeded max num of types")
			return syscall.E2BIG
		}
		c.types = append(c.types, t)
	}
	return nil
}

// plain checks that vlen and kind_flag are 0.
func (c *btfCheck) plain(t *btfType) error {
	switch {
	case t.vlen != 0:
		return c.wrong(t, "vlen != 0")
	case t.flag:
		return c.wrong(t, "Invalid btf_info kind_flag")
	}
	return nil
}

// identifier reports whether there is a name at an offset that C could have, or one with dots.
func (c *btfCheck) identifier(at uint32) bool {
	const most = 512 // KSYM_NAME_LEN
	if at == 0 || int(at) >= len(c.strings) {
		return false
	}
	name := c.strings[at:min(int(at)+most, len(c.strings))]
	for n, b := range name {
		switch {
		case b == 0:
			return n > 0
		case b == '_', 'a' <= b|0x20 && b|0x20 <= 'z', b == '.', n > 0 && '0' <= b && b <= '9':
		default:
			return false
		}
	}
	return false
}

// empty reports whether there is no name at an offset, which is one in the strings.
func (c *btfCheck) empty(at uint32) bool { return at == 0 || c.strings[at] == 0 }

func (c *btfCheck) integer(t *btfType) error {
	data := t.word(0)
	bits, encoding := data>>16&0xff+data&0xff, data>>24
	if err := c.plain(t); err != nil {
		return err
	}
	switch {
	case data&^0x0fffffff != 0:
		return c.wrongBasic(t, "Invalid int_data:%x", data)
	case bits > 128:
		return c.wrong(t, "nr_bits exceeds 128")
	case (bits+7)/8 > t.size:
		return c.wrong(t, "nr_bits exceeds type_size")
	case encoding > 2 && encoding != 4:
		c.show(t, "Unsupported encoding")
		return errNotSupported
	}
	c.show(t, "")
	return nil
}

func (c *btfCheck) integerDetails(t *btfType) string {
	data := t.word(0)
	encoding, known := map[uint32]string{0: "(none)", 1: "SIGNED", 2: "CHAR", 4: "BOOL"}[data>>24]
	if !known {
		encoding = "UNKN"
	}
	return fmt.Sprintf("size=%d bits_offset=%d nr_bits=%d encoding=%s", t.size, data>>16&0xff, data&0xff, encoding)
}

func (c *btfCheck) modifier(t *btfType) error {
	if err := c.plain(t); err != nil {
		return err
	}
	named := t.name == 0
	switch t.kind {
	case btfTypedef:
		named = c.identifier(t.name)
	case btfTypeTag:
		named = !c.empty(t.name)
	}
	switch {
	case t.size > maxBTFType:
		return c.wrong(t, "Invalid type_id")
	case !named:
		return c.wrong(t, "Invalid name")
	}
	c.show(t, "")
	return nil
}

func (c *btfCheck) forward(t *btfType) error {
	switch {
	case t.vlen != 0:
		return c.wrong(t, "vlen != 0")
	case t.size != 0:
		return c.wrong(t, "type != 0")
	case !c.identifier(t.name):
		return c.wrong(t, "Invalid name")
	}
	c.show(t, "")
	return nil
}

func (c *btfCheck) array(t *btfType) error {
	if t.name != 0 {
		return c.wrong(t, "Invalid name")
	}
	if err := c.plain(t); err != nil {
		return err
	}
	elem, index := t.word(0), t.word(4)
	switch {
	case t.size != 0:
		return c.wrong(t, "size != 0")
	case elem == 0 || elem > maxBTFType:
		return c.wrong(t, "Invalid elem")
	case index == 0 || index > maxBTFType:
		return c.wrong(t, "Invalid index")
	}
	c.show(t, "")
	return nil
}

// btfMember is one member of a structure or union.
type btfMember struct{ name, typ, offset, bits uint32 }

func (t *btfType) member(n int) btfMember {
	m := btfMember{name: t.word(12 * n), typ: t.word(12*n + 4), offset: t.word(12*n + 8)}
	if t.flag {
		m.offset, m.bits = m.offset&0xffffff, m.offset>>24
	}
	return m
}

// showMember logs a member, and what is wrong with it.
func (c *btfCheck) showMember(t *btfType, m btfMember, wrong string) {
	if c.log.off() {
		return
	}
	line := fmt.Sprintf("\t%s type_id=%d", c.nameAt(m.name), m.typ)
	if t.flag {
		line += fmt.Sprintf(" bitfield_size=%d", m.bits)
	}
	line += fmt.Sprintf(" bits_offset=%d", m.offset)
	if wrong != "" {
		line += " " + wrong
	}
	c.log.printf("%s\n", line)
}

func (c *btfCheck) members(t *btfType) error {
	if t.name != 0 && !c.identifier(t.name) {
		return c.wrong(t, "Invalid name")
	}
	c.show(t, "")
	last := uint32(0)
	for n := range int(t.vlen) {
		m := t.member(n)
		wrong := ""
		switch {
		case int(m.name) >= len(c.strings):
			wrong = fmt.Sprintf("Invalid member name_offset:%d", m.name)
		case m.name != 0 && !c.identifier(m.name):
			wrong = "Invalid name"
		case m.typ == 0 || m.typ > maxBTFType:
			wrong = "Invalid type_id"
		case t.kind == btfUnion && m.offset != 0, last > m.offset:
			wrong = "Invalid member bits_offset"
		case (uint64(m.offset)+7)/8 > uint64(t.size):
			wrong = "Member bits_offset exceeds its struct size"
		}
		c.showMember(t, m, wrong)
		if wrong != "" {
			return syscall.EINVAL
		}
		last = m.offset
	}
	return nil
}

func (c *btfCheck) enum(t *btfType) error {
	switch {
	case t.size > 8 || t.size == 0 || t.size&(t.size-1) != 0:
		return c.wrong(t, "Unexpected size")
	case t.name != 0 && !c.identifier(t.name):
		return c.wrong(t, "Invalid name")
	}
	c.show(t, "")
	each := btfKinds[t.kind].each
	for n := range int(t.vlen) {
		name := t.word(each * n)
		switch {
		case int(name) >= len(c.strings):
			return c.refuse("\tInvalid name_offset:%d", name)
		case !c.identifier(name):
			return c.wrong(t, "Invalid name")
		}
		if c.log.off() {
			continue
		}
		value := uint64(t.word(each*n + 4))
		if each == 12 {
			value |= uint64(t.word(each*n+8)) << 32
		} else if t.flag {
			value = uint64(int64(int32(value)))
		}
		if t.flag {
			c.log.printf("\t%s val=%d\n", c.nameAt(name), int64(value))
		} else {
			c.log.printf("\t%s val=%d\n", c.nameAt(name), value)
		}
	}
	return nil
}

func (c *btfCheck) function(t *btfType) error {
	const global = 1 // BTF_FUNC_GLOBAL, after static
	switch {
	case !c.identifier(t.name):
		return c.wrong(t, "Invalid name")
	case t.vlen > global:
		return c.wrong(t, "Invalid func linkage")
	case t.flag:
		return c.wrong(t, "Invalid btf_info kind_flag")
	}
	c.show(t, "")
	return nil
}

func (c *btfCheck) prototype(t *btfType) error {
	switch {
	case t.name != 0:
		return c.wrong(t, "Invalid name")
	case t.flag:
		return c.wrong(t, "Invalid btf_info kind_flag")
	}
	c.show(t, "")
	return nil
}

func (c *btfCheck) prototypeDetails(t *btfType) string {
	var args []string
	for n := range int(t.vlen) {
		name, typ := t.word(8*n), t.word(8*n+4)
		if n == int(t.vlen)-1 && typ == 0 {
			args = append(args, "vararg")
			break
		}
		args = append(args, fmt.Sprintf("%d %s", typ, c.nameAt(name)))
	}
	if len(args) == 0 {
		args = []string{"void"}
	}
	return fmt.Sprintf("return=%d args=(%s)", t.size, strings.Join(args, ", "))
}

func (c *btfCheck) variable(t *btfType) error {
	const allocated = 1 // BTF_VAR_GLOBAL_ALLOCATED, after static
	if err := c.plain(t); err != nil {
		return err
	}
	switch {
	case !c.identifier(t.name):
		return c.wrong(t, "Invalid name")
	case t.size == 0 || t.size > maxBTFType:
		return c.wrong(t, "Invalid type_id")
	case t.word(0) > allocated:
		return c.wrong(t, "Linkage not supported")
	}
	c.show(t, "")
	return nil
}

func (c *btfCheck) section(t *btfType) error {
	switch {
	case t.size == 0:
		return c.wrong(t, "size == 0")
	case t.flag:
		return c.wrong(t, "Invalid btf_info kind_flag")
	case !c.identifier(t.name):
		return c.wrong(t, "Invalid name")
	}
	c.show(t, "")
	end, sum := uint64(0), uint64(0)
	for n := range int(t.vlen) {
		typ, offset, size := t.word(12*n), t.word(12*n+4), t.word(12*n+8)
		wrong := ""
		switch {
		case typ == 0 || typ > maxBTFType:
			wrong = " Invalid type_id"
		case uint64(offset) < end || offset >= t.size:
			wrong = " Invalid offset"
		case size == 0 || size > t.size:
			wrong = " Invalid size"
		case uint64(offset)+uint64(size) > uint64(t.size):
			wrong = " Invalid offset+size"
		}
		c.log.printf("\t type_id=%d offset=%d size=%d%s\n", typ, offset, size, wrong)
		if wrong != "" {
			return syscall.EINVAL
		}
		end = uint64(offset) + uint64(size)
		sum += uint64(size)
	}
	if uint64(t.size) < sum {
		return c.wrong(t, "Invalid btf_info size")
	}
	return nil
}

func (c *btfCheck) float(t *btfType) error {
	if err := c.plain(t); err != nil {
		return err
	}
	switch t.size {
	case 2, 4, 8, 12, 16:
		c.show(t, "")
		return nil
	}
	return c.wrong(t, "Invalid type_size")
}

func (c *btfCheck) tag(t *btfType) error {
	if c.empty(t.name) {
		return c.wrong(t, "Invalid value")
	}
	if err := c.plain(t); err != nil {
		return err
	}
	if int32(t.word(0)) < -1 {
		return c.wrong(t, "Invalid component_idx")
	}
	c.show(t, "")
	return nil
}
