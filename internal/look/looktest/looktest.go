// Package looktest has files of machine/ as the tests of package look and of the commands that show them read them.
package looktest

// PatchedText is machine/text/vfs_read of a kernel and of a module: instructions, and what stood where they are patched.
const PatchedText = `vfs_read:
* ffffffff81021f40  +0x0    e8 3b e1 fd 5e                 callq 0xffffffffe0000080  # was: 0f 1f 44 00 00 nopl (%rax,%rax)
  ffffffff81021f45  +0x5    41 55                          push %r13
  ffffffff81021f47  +0x7    48 b8 00 f0 ff ff ff 7f 00 00  mov $0x7ffffffff000,%rax
* ffffffff81021f51  +0x11   e9 b7 e0 fd 5e ec 08           jmpq 0xffffffffe0000010  # was: 48 89 d3 mov %rdx,%rbx; 48 83 ec 08 sub $0x8,%rsp
* ffffffff81021f58  +0x18   cc                             int3  # was: c3 ret

vfs_read: [mine]
  ffffffffc0000000  +0x0    c3                             ret
`

// PatchedCopies is machine/copies/vfs_read with it: the slots and detours of these probes.
const PatchedCopies = `vfs_read:
+0x0 armed yes flags [FTRACE] carried ftrace
+0x11 armed yes flags [OPTIMIZED] carried boost
+0x11 slot
  ffffffffe0000000  +0x0    48 89 d3                       mov %rdx,%rbx
  ffffffffe0000003  +0x3    cc                             int3
+0x11 copied
  ffffffffe000006e  +0x0    48 89 d3                       mov %rdx,%rbx

vfs_read: [mine]
+0x0 armed no flags [DISABLED] carried ret
`
