package bpf

import (
	"fmt"
	"syscall"
)

// funcOf returns the function of a number, or nil.
func (c *btfCheck) funcOf(id uint32) *btfType {
	if t, ok := c.find(id); ok && t != nil && t.kind == btfFunc {
		return t
	}
	return nil
}

// sized returns the type of a number without typedefs and qualifiers, and its size in bytes; ok is false if it has none.
func (c *btfCheck) sized(id uint32) (t *btfType, size int, ok bool) {
	if id == 0 || int(id) >= len(c.types) {
		return nil, 0, false
	}
	s := c.sizes[id]
	return s.base, int(s.size), s.has && s.base != nil
}

// isWord reports whether the type is an integer of 32 bits.
func (t *btfType) isWord() bool {
	return t.kind == btfInt && t.word(0)&0xff == 32 && t.word(0)>>16&0xff == 0
}

// checkTypes is map_check_btf: whether the types that a map was made with are those of its keys and values.
func (m *Map) checkTypes() error {
	if m.btf == nil {
		return nil
	}
	types := m.btf.types
	var key *btfType
	if m.btfKey != 0 {
		t, size, ok := types.sized(m.btfKey)
		if !ok || size != m.key {
			return fmt.Errorf("a type for keys of %d bytes: %w", m.key, syscall.EINVAL)
		}
		key = t
	}
	if _, size, ok := types.sized(m.btfValue); !ok || size != m.value {
		return fmt.Errorf("a type for values of %d bytes: %w", m.value, syscall.EINVAL)
	}
	if m.kind == mapTaskStorage && !key.isWord() {
		return fmt.Errorf("a type for descriptors of tasks: %w", syscall.EINVAL)
	}
	return nil
}
