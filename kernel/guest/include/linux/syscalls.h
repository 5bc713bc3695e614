/*
 * syscalls.h: SYSCALL_DEFINEn(name, ...) defines __x64_sys_name, which takes its
 * arguments from pt_regs, and __do_sys_name, which does the work. With arguments, that
 * is an inline function on Linux, and so has no fentry site.
 */
#ifndef _LINUX_SYSCALLS_H
#define _LINUX_SYSCALLS_H
#include <asm/ptrace.h>
#include <linux/types.h>
/* A file redefines it for those that are not inlined in Debian's kernel. */
#define __SYSCALL_INLINE __always_inline
#define __SYSCALL_OUTLINE noinline __noclone
#define __SYSCALL_HEAD(name) long __x64_sys_##name(const struct pt_regs *regs)
#define SYSCALL_DEFINE0(name) \
	static __SYSCALL_INLINE long __do_sys_##name(const struct pt_regs *__unused_regs); __SYSCALL_HEAD(name); \
	long __x64_sys_##name(const struct pt_regs *__unused) { return __do_sys_##name(__unused); } \
	static __SYSCALL_INLINE long __do_sys_##name(const struct pt_regs *__unused __maybe_unused)
#define SYSCALL_DEFINE1(name, t1, a1) \
	static notrace __SYSCALL_INLINE long __do_sys_##name(t1 a1); __SYSCALL_HEAD(name); \
	__SYSCALL_HEAD(name) { return __do_sys_##name((t1)regs->di); } \
	static notrace __SYSCALL_INLINE long __do_sys_##name(t1 a1)
#define SYSCALL_DEFINE2(name, t1, a1, t2, a2) \
	static notrace __SYSCALL_INLINE long __do_sys_##name(t1 a1, t2 a2); __SYSCALL_HEAD(name); \
	__SYSCALL_HEAD(name) { return __do_sys_##name((t1)regs->di, (t2)regs->si); } \
	static notrace __SYSCALL_INLINE long __do_sys_##name(t1 a1, t2 a2)
#define SYSCALL_DEFINE3(name, t1, a1, t2, a2, t3, a3) \
	static notrace __SYSCALL_INLINE long __do_sys_##name(t1 a1, t2 a2, t3 a3); __SYSCALL_HEAD(name); \
	__SYSCALL_HEAD(name) { return __do_sys_##name((t1)regs->di, (t2)regs->si, (t3)regs->dx); } \
	static notrace __SYSCALL_INLINE long __do_sys_##name(t1 a1, t2 a2, t3 a3)
#define SYSCALL_DEFINE4(name, t1, a1, t2, a2, t3, a3, t4, a4) \
	static notrace __SYSCALL_INLINE long __do_sys_##name(t1 a1, t2 a2, t3 a3, t4 a4); __SYSCALL_HEAD(name); \
	__SYSCALL_HEAD(name) { return __do_sys_##name((t1)regs->di, (t2)regs->si, (t3)regs->dx, (t4)regs->r10); } \
	static notrace __SYSCALL_INLINE long __do_sys_##name(t1 a1, t2 a2, t3 a3, t4 a4)
#define SYSCALL_DEFINE5(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5) \
	static notrace __SYSCALL_INLINE long __do_sys_##name(t1 a1, t2 a2, t3 a3, t4 a4, t5 a5); __SYSCALL_HEAD(name); \
	__SYSCALL_HEAD(name) { return __do_sys_##name((t1)regs->di, (t2)regs->si, (t3)regs->dx, (t4)regs->r10, (t5)regs->r8); } \
	static notrace __SYSCALL_INLINE long __do_sys_##name(t1 a1, t2 a2, t3 a3, t4 a4, t5 a5)
#define SYSCALL_DEFINE6(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5, t6, a6) \
	static notrace __SYSCALL_INLINE long __do_sys_##name(t1 a1, t2 a2, t3 a3, t4 a4, t5 a5, t6 a6); __SYSCALL_HEAD(name); \
	__SYSCALL_HEAD(name) { return __do_sys_##name((t1)regs->di, (t2)regs->si, (t3)regs->dx, (t4)regs->r10, (t5)regs->r8, (t6)regs->r9); } \
	static notrace __SYSCALL_INLINE long __do_sys_##name(t1 a1, t2 a2, t3 a3, t4 a4, t5 a5, t6 a6)
#define __NR_syscalls 451
#include <asm/unistd_64.h>
typedef long (*sys_call_ptr_t)(const struct pt_regs *);
extern sys_call_ptr_t sys_call_table[];
#endif
