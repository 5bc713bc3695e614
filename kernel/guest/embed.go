// Package guest holds the kernels that the machine boots: freestanding C and
// assembly, built with `make guest` into ELFs that are checked in, so that
// building this program needs no C compiler.
//
// What the guest is: Linux's names, signatures, call chains and, for what tools
// look at, structure layouts, in our own text; a scheduler, memory, files, a
// loopback network and the library functions, small, but at work. Its calls to
// the machine are those of package abi.
package guest

import (
	_ "embed"
	"strings"
)

//go:embed vmlinux-2.6
var vmlinux26 []byte

//go:embed vmlinux-4.15
var vmlinux415 []byte

//go:embed vmlinux-5.10
var vmlinux510 []byte

//go:embed vmlinux-6.1
var vmlinux61 []byte

//go:embed vmlinux-6.12
var vmlinux612 []byte

//go:embed btf-6.12
var btf612 []byte

// BTF returns the types of a guest's functions, for kernel/btf, or nil when its kernel
// has none. It must not be written.
func BTF(release string) []byte {
	if release == "6.12" {
		return btf612
	}
	return nil
}

// Image returns the ELF of the guest that stands for a release of Linux ("6.1",
// or "6.1.0-50-amd64"), or nil when there is none. They are of one source: 5.10's
// and 6.12's have that release's arguments, calls and records of static events as
// far as it matters, and in 6.12's what can be called by its address begins with
// endbr64. 2.6's and 4.15's are 6.1's but for do_fork's arguments, %p, and what
// kprobes refuse. The bytes are shared: they must not be
// written.
func Image(release string) []byte {
	for name, image := range map[string][]byte{"2.6": vmlinux26, "4.15": vmlinux415, "5.10": vmlinux510, "6.1": vmlinux61, "6.12": vmlinux612} {
		if release == name || strings.HasPrefix(release, name+".") {
			return image
		}
	}
	return nil
}
