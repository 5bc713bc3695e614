package kprobes

import (
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/release"
)

// ParseEnabled parses a write to kprobes/enabled, with EINVAL for what is neither on nor off.
func (k *Kprobes) ParseEnabled(data []byte) (bool, error) {
	if !k.has[release.EnabledWords] {
		switch at(data, 0) {
		case 't', 'T', 'f', 'F', 'o', 'O':
			return false, errf(syscall.EINVAL, "%.8q is neither on nor off", data)
		}
	}
	return ParseEnabled(data)
}

// ParseEnabled is kstrtobool, which parses a write to kprobes/enabled: the first byte
// decides, and after an o the second. Anything else is EINVAL.
func ParseEnabled(data []byte) (bool, error) {
	switch at(data, 0) {
	case 'y', 'Y', 't', 'T', '1':
		return true, nil
	case 'n', 'N', 'f', 'F', '0':
		return false, nil
	case 'o', 'O':
		switch at(data, 1) {
		case 'n', 'N':
			return true, nil
		case 'f', 'F':
			return false, nil
		}
	}
	return false, errf(syscall.EINVAL, "%.8q is neither on nor off", data)
}

// at returns data[i], or 0 past the end.
func at(data []byte, i int) byte {
	if i < len(data) {
		return data[i]
	}
	return 0
}
