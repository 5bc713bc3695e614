package bpf

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// format is bpf_bprintf_prepare and bstr_printf. It fails with EINVAL for what Linux does not take: a
// character that is not printed, a conversion that is not known, more conversions than arguments.
func (r *run) format(text string, args []uint64) (string, error) {
	var out strings.Builder
	next := func() (uint64, bool) {
		if len(args) == 0 {
			return 0, false
		}
		v := args[0]
		args = args[1:]
		return v, true
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c >= 0x80 || c < ' ' && c != '\n' && c != '\t' && c != '\r' && c != '\v' && c != '\f' {
			return "", syscall.EINVAL
		}
		if c != '%' {
			out.WriteByte(c)
			continue
		}
		i++
		if i < len(text) && text[i] == '%' {
			out.WriteByte('%')
			continue
		}
		from := i
		for i < len(text) && strings.IndexByte("0+- ", text[i]) >= 0 {
			i++
		}
		for i < len(text) && text[i] >= '0' && text[i] <= '9' {
			i++
		}
		width := text[from:i]
		if i == len(text) || len(width) > 4 {
			return "", syscall.EINVAL
		}
		v, ok := next()
		if !ok {
			return "", syscall.EINVAL
		}
		switch text[i] {
		case 'p':
			n, s, err := r.pointer(text[i+1:], v)
			if err != nil {
				return "", err
			}
			i += n
			fmt.Fprintf(&out, "%"+width+"s", s)
			continue
		case 's':
			fmt.Fprintf(&out, "%"+width+"s", r.stringAt(v, eitherSpace))
			continue
		case 'c':
			fmt.Fprintf(&out, "%"+width+"s", string([]byte{byte(v)}))
			continue
		}
		size := 4
		for range 2 {
			if i < len(text) && text[i] == 'l' {
				size = 8
				i++
			}
		}
		if i == len(text) {
			return "", syscall.EINVAL
		}
		if size == 4 {
			v = uint64(uint32(v))
		}
		switch text[i] {
		case 'd', 'i':
			n := int64(v)
			if size == 4 {
				n = int64(int32(v))
			}
			fmt.Fprintf(&out, "%"+width+"d", n)
		case 'u':
			fmt.Fprintf(&out, "%"+width+"d", v)
		case 'x', 'X':
			fmt.Fprintf(&out, "%"+width+text[i:i+1], v)
		default:
			return "", syscall.EINVAL
		}
	}
	return out.String(), nil
}

// pointer formats what follows a %p, and returns how many characters of the format belong to it.
func (r *run) pointer(rest string, v uint64) (int, string, error) {
	two := rest[:min(2, len(rest))]
	switch {
	case two == "ks":
		return 2, r.stringAt(v, kernelSpace), nil
	case two == "us":
		return 2, r.stringAt(v, userSpace), nil
	case strings.HasPrefix(rest, "x"), strings.HasPrefix(rest, "K"):
		return 1, fmt.Sprintf("%016x", v), nil
	case strings.HasPrefix(rest, "s"), strings.HasPrefix(rest, "S"), strings.HasPrefix(rest, "B"):
		if r.sys.conf.Symbol == nil {
			return 1, fmt.Sprintf("%#x", v), nil
		}
		return 1, r.sys.conf.Symbol(v, rest[0]), nil
	case two == "i4", two == "I4":
		b := [4]byte{}
		_ = r.hit.Trap.Mem.ReadAt(v, b[:])
		if own := r.bytes(v, 4); own != nil {
			copy(b[:], own)
		}
		return 2, netip.AddrFrom4(b).String(), nil
	case two == "i6", two == "I6":
		b := [16]byte{}
		_ = r.hit.Trap.Mem.ReadAt(v, b[:])
		if own := r.bytes(v, 16); own != nil {
			copy(b[:], own)
		}
		return 2, netip.AddrFrom16(b).String(), nil
	case rest == "" || strings.IndexByte(" \n\t\r\v\f.,:;!?()[]{}<>/\\'\"-+=*&|^~@#$%_", rest[0]) >= 0:
		if r.sys.conf.HashPtr == nil {
			return 0, fmt.Sprintf("%016x", v), nil
		}
		return 0, fmt.Sprintf("%016x", r.sys.conf.HashPtr(v)), nil
	}
	return 0, "", syscall.EINVAL
}

// stringAt reads a string of at most 512 bytes; what cannot be read is empty.
func (r *run) stringAt(addr uint64, from space) string {
	var b []byte
	for len(b) < 511 {
		at := addr + uint64(len(b))
		var c [1]byte
		if own := r.own(at, 1); own != nil && from != userSpace {
			c[0] = own[0]
		} else if !from.allows(at, 1) || r.hit.Trap.Mem.ReadAt(at, c[:]) != nil {
			return ""
		}
		if c[0] == 0 {
			break
		}
		b = append(b, c[0])
	}
	return string(b)
}
