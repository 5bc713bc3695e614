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

// checkTypes is map_check_btf: whether the types that a map was made with fit its keys and values.
func (m *Map) checkTypes() error {
	if m.btf == nil {
		return nil
	}
	types := m.btf.types
	var key *btfType // nil for void
	if m.btfKey != 0 {
		t, size, ok := types.sized(m.btfKey)
		if !ok || size != m.key {
			return fmt.Errorf("a type for keys of %d bytes: %w", m.key, syscall.EINVAL)
		}
		key = t
	}
	check := keyChecks[m.kind]
	if key == nil && check == nil {
		return fmt.Errorf("no type for the keys of a map of type %d: %w", m.kind, syscall.EINVAL)
	}
	value, size, ok := types.sized(m.btfValue)
	if !ok || size != m.value {
		return fmt.Errorf("a type for values of %d bytes: %w", m.value, syscall.EINVAL)
	}
	if err := m.checkSpecial(value); err != nil {
		return err
	}
	if check == nil {
		return nil
	}
	if err := check(m, key, value); err != nil {
		return fmt.Errorf("a type for the keys of a map of type %d: %w", m.kind, err)
	}
	return nil
}

// keyChecks is map_check_btf of the types of maps that have it. The type of the key is nil for void.
var keyChecks = map[MapType]func(m *Map, key, value *btfType) error{
	mapArray: arrayTypes, mapPerCPUArray: arrayTypes,
	mapPerfEventArray: noTypes, mapStackTrace: noTypes, mapCgroupArray: noTypes, mapArrayOfMaps: noTypes,
	mapTaskStorage: wordKey,
	mapBloomFilter: func(_ *Map, key, _ *btfType) error {
		if key != nil {
			return syscall.EINVAL
		}
		return nil
	},
	mapLPMTrie: func(_ *Map, key, _ *btfType) error {
		if key == nil || key.kind != btfStruct {
			return syscall.EINVAL
		}
		return nil
	},
}

func noTypes(*Map, *btfType, *btfType) error { return errNotSupported }

// wordKey accepts keys that are integers of 32 bits.
func wordKey(_ *Map, key, _ *btfType) error {
	if key == nil || !key.isWord() {
		return syscall.EINVAL
	}
	return nil
}

// arrayTypes is array_map_check_btf: an array of one value has no type of the key if that is a section.
func arrayTypes(m *Map, key, value *btfType) error {
	if key != nil {
		return wordKey(m, key, value)
	}
	if m.kind != mapArray || m.entries != 1 || value.kind != btfDatasec {
		return syscall.EINVAL
	}
	return nil
}
