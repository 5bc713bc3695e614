// Package guest holds the kernels that the machine boots: freestanding C and
// assembly, built with `make guest` into ELFs that are checked in, so that
// building this program needs no C compiler.
//
// What the guest is: Linux's names, signatures, call chains and, for what tools
// look at, structure layouts, in our own text; a scheduler, memory, files, a
// loopback network and the library functions, small, but at work. Its calls to
// the machine are those of package abi.
package guest

import _ "embed"

//go:embed vmlinux-6.1
var vmlinux61 []byte

// Image gives the ELF of the guest that stands for a release of Linux ("6.1",
// or "6.1.0-50-amd64"), or nil when there is none. The bytes are shared: they
// must not be written.
func Image(release string) []byte {
	const v = "6.1"
	if release == v || len(release) > len(v) && release[:len(v)+1] == v+"." {
		return vmlinux61
	}
	return nil
}
