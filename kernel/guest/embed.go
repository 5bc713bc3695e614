// Package guest embeds the kernels that the machine boots: freestanding C and
// assembly, built with `make guest` into ELF files that are checked in, so that
// building this program needs no C compiler.
//
// The guest has Linux's names, signatures, call chains and, where tools depend on
// them, structure layouts, but its own code: a small but working scheduler, memory
// management, files, a loopback network and library functions. Its hypercalls are
// package abi's.
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

//go:embed vmlinux-6.1.btf
var raw61 []byte

//go:embed vmlinux-6.12.btf
var raw612 []byte

// images are the guests that are built, by the name of the release whose source they have.
var images = map[string]struct{ kernel, types, raw []byte }{
	"2.6":  {kernel: vmlinux26},
	"4.15": {kernel: vmlinux415},
	"5.10": {kernel: vmlinux510},
	"6.1":  {kernel: vmlinux61, raw: raw61},
	"6.12": {kernel: vmlinux612, types: btf612, raw: raw612},
}

// BTF returns the types of a guest's functions, for kernel/btf, or nil if its kernel
// has none. The text must not be modified.
func BTF(release string) []byte { return images[release].types }

// RawBTF returns all types of a guest as Linux shows them in /sys/kernel/btf/vmlinux, or nil if its
// kernel has none. The bytes must not be modified.
func RawBTF(release string) []byte { return images[release].raw }

// Image returns the guest's ELF file for a release of Linux ("6.1", or
// "6.1.0-50-amd64"), or nil if there is none. All are built from one source. Those of
// 5.10 and 6.12 have that release's arguments, calls and records of static events
// where it matters; in 6.12's, targets of indirect calls begin with endbr64. Those of
// 2.6 and 4.15 differ from 6.1's in do_fork's arguments, %p, and the functions that
// cannot be probed. The bytes must not be modified.
func Image(release string) []byte {
	for name, image := range images {
		if release == name || strings.HasPrefix(release, name+".") {
			return image.kernel
		}
	}
	return nil
}

//go:embed headers.tar.gz
var headersArchive []byte

// Headers returns the archive of what modules are built with: the guest's headers in
// include, and the Makefiles of kbuild. The bytes must not be modified.
func Headers() []byte { return headersArchive }
