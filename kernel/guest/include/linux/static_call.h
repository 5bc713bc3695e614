/*
 * static_call.h: calls through a trampoline __SCT__name. Each site has an entry in
 * .static_call_sites. The machine patches both when the function changes.
 */
#ifndef _LINUX_STATIC_CALL_H
#define _LINUX_STATIC_CALL_H
#include <linux/types.h>
struct static_call_key { void *func; unsigned long type; };
struct static_call_site { s32 addr, key; };
#define STATIC_CALL_TRAMP(name) __PASTE(__SCT__, name)
#define STATIC_CALL_KEY(name) __PASTE(__SCK__, name)
#define DECLARE_STATIC_CALL(name, func) \
	extern struct static_call_key __SCK__##name; \
	extern __typeof__(func) __SCT__##name
#define __DEFINE_TRAMP(name, insns) \
	__asm__(".pushsection .static_call.text,\"ax\"\n.balign 16,0xcc\n.globl __SCT__" #name "\n" \
		".type __SCT__" #name ",@function\n__SCT__" #name ":\n\t" insns "\n\tint3\n" \
		".size __SCT__" #name ", . - __SCT__" #name "\n.popsection\n")
#define DEFINE_STATIC_CALL(name, _func) \
	DECLARE_STATIC_CALL(name, _func); \
	struct static_call_key __SCK__##name = { .func = _func, .type = 1 }; \
	__DEFINE_TRAMP(name, ".byte 0xe9\n\t.long " #_func " - (. + 4)")
/* Nothing is called; all registers are kept. */
#define DEFINE_STATIC_CALL_NOP(name) \
	extern struct static_call_key __SCK__##name; \
	struct static_call_key __SCK__##name = { .type = 1 }; \
	__DEFINE_TRAMP(name, "ret")
#define DEFINE_STATIC_CALL_RET0(name, _func) \
	DECLARE_STATIC_CALL(name, _func); \
	struct static_call_key __SCK__##name = { .func = __static_call_return0, .type = 1 }; \
	__DEFINE_TRAMP(name, "xor %eax,%eax\n\tret")
long __static_call_return0(void);
void __static_call_update(struct static_call_key *key, void *tramp, void *func);
#ifdef MODULE
/* Modules have the trampolines, and not the keys that a site's entry names. */
#define static_call0(name) __SCT__##name()
#else
/* A call without arguments at a site in the table. Its value is the function's
 * result. */
#define static_call0(name) ({ long __sc_ret; \
	register unsigned long __sc_sp __asm__("rsp"); \
	__asm__ __volatile__("1:\tcall __SCT__" #name "\n" \
		".pushsection .static_call_sites,\"aw\"\n\t.balign 4\n" \
		"\t.long 1b - .\n\t.long __SCK__" #name " - .\n.popsection" \
		: "=a"(__sc_ret), "+r"(__sc_sp) : \
		: "rdi", "rsi", "rdx", "rcx", "r8", "r9", "r10", "r11", "memory", "cc"); __sc_ret; })
#endif
#endif
