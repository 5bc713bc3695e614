// Package vmlinux reads a Linux kernel as a distribution ships it: a bzImage, an ELF vmlinux, or a
// Debian or RPM package, for x86-64. It unpacks the payload, finds the symbols in the kernel's own kallsyms
// tables (or takes them from a System.map), and patches the text as the kernel patches it at boot:
// return sites, fentry sites, alternatives, paravirt and static calls, jump labels.
//
// What Linux asks about an address before it sets a probe there is then answered by package image,
// for a file as for the guest. Nothing of the file is executed here. The file is untrusted: sizes are
// bounded, and all addresses are checked against the segments.
package vmlinux
