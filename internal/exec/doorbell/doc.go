// Package doorbell has a program tell its tracer of chosen system calls and of no others.
//
// A tracer that resumes a thread by PTRACE_SYSCALL stops it at each call, seen or not. A
// seccomp filter that returns RET_TRACE stops it at chosen numbers, but makes these calls fail
// with ENOSYS when there is no tracer, or one that knows nothing of them, such as strace(1).
// So neither can be left in a program.
//
// Instead, syscall instructions of the program's text are replaced by jumps to code that is
// mapped beside it. That code rings for chosen calls: it makes a call of the number Base + nr,
// which exists on no kernel, and at which a filter stops the thread for its tracer. The tracer
// puts nr in its place (Ring), and the host's kernel makes the call. Where there is no tracer
// the number fails with ENOSYS and has no other effect; the code then makes the call itself.
// So a program whose tracer has gone, has been killed, or is another one goes on as ever.
//
// What a text has is found once for each file (Read): its syscall instructions with the
// instructions around them, by disassembly from the starts of its functions. A file in which
// one cannot be replaced is refused, since its calls would not be seen.
//
// The code uses rcx and r11, which a syscall instruction changes anyway, and 136 bytes of the
// stack below the red zone, only where it rings, the number is not a constant, and the call cannot return on another stack.
package doorbell

// Base is added to the number of a call that is to be traced. No architecture and no kernel has
// a system call of such a number.
const Base = 0x6b8000

// Calls is how many numbers there are above Base.
const Calls = 512

// Ring returns the number of the call that a thread rings for by a call nr.
func Ring(nr uint64) (call uint64, ok bool) { return nr - Base, nr-Base < Calls }

// Set is a set of numbers of calls below Calls.
type Set [Calls / 8]byte

// Add adds a number. A larger one than there are is ignored.
func (s *Set) Add(nr uint64) {
	if nr < Calls {
		s[nr/8] |= 1 << (nr % 8)
	}
}

// Has reports whether a number is in the set.
func (s *Set) Has(nr uint64) bool { return nr < Calls && s[nr/8]>>(nr%8)&1 != 0 }

// Union returns the numbers of both sets.
func (s *Set) Union(of *Set) Set {
	all := *s
	for i, b := range of {
		all[i] |= b
	}
	return all
}

// Both returns the numbers that are in both sets.
func (s *Set) Both(of *Set) Set {
	all := *s
	for i, b := range of {
		all[i] &= b
	}
	return all
}

// Within reports whether all numbers of the set are in another one.
func (s *Set) Within(of *Set) bool {
	for i, b := range s {
		if b&^of[i] != 0 {
			return false
		}
	}
	return true
}
