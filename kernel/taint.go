package kernel

import "strings"

// taintLetters are 6.1's taint_flags, by bit. The first is G where it is not set.
const taintLetters = "PFSRMBUDAWCIOELKXTN"

// Taint is add_taint, by letter: "O" is a module of others, "E" an unsigned one,
// "P" one that is not free. Others than Linux's do nothing.
func (m *Machine) Taint(letter byte) {
	if i := strings.IndexByte(taintLetters, letter); i >= 0 {
		m.taints.Or(1 << i)
	}
}

// tainted is print_tainted, for the first line of a stack.
func (m *Machine) tainted() string {
	set := m.taints.Load()
	if set == 0 {
		return "Not tainted"
	}
	b := []byte(taintLetters)
	for i := range b {
		if set&(1<<i) == 0 {
			b[i] = ' '
		}
	}
	if b[0] == ' ' {
		b[0] = 'G'
	}
	return "Tainted: " + string(b)
}
