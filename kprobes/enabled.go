package kprobes

import "syscall"

// ParseEnabled is kstrtobool, which reads what is written to kprobes/enabled:
// one byte decides, and after an o a second one. EINVAL for anything else.
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

// at is data[i], or 0 behind the end.
func at(data []byte, i int) byte {
	if i < len(data) {
		return data[i]
	}
	return 0
}
