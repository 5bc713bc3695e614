/*
 * jump_label.h: branches that are a nop or a jump, with an entry in __jump_table.
 * The branches of true keys are jumps in the image. The machine patches those of a key
 * that changes.
 */
#ifndef _LINUX_JUMP_LABEL_H
#define _LINUX_JUMP_LABEL_H
#include <linux/types.h>
struct static_key { atomic_t enabled; unsigned long type; };
struct static_key_true { struct static_key key; };
struct static_key_false { struct static_key key; };
struct jump_entry { s32 code, target; long key; };
#define JUMP_TYPE_FALSE 0UL
#define JUMP_TYPE_TRUE 1UL
#define DEFINE_STATIC_KEY_TRUE(n) struct static_key_true n = { { { 1 }, JUMP_TYPE_TRUE } }
#define DEFINE_STATIC_KEY_FALSE(n) struct static_key_false n = { { { 0 }, JUMP_TYPE_FALSE } }
#define DECLARE_STATIC_KEY_TRUE(n) extern struct static_key_true n
#define DECLARE_STATIC_KEY_FALSE(n) extern struct static_key_false n
#define JUMP_TABLE_ENTRY \
	".pushsection __jump_table,\"aw\"\n\t.balign 8\n" \
	"\t.long 1b - .\n\t.long %l[l_yes] - .\n\t.quad %c0 + %c1 - .\n.popsection\n"
static __always_inline bool arch_static_branch(struct static_key *const key, const bool branch)
{
	__asm__ goto("1:\n\t.byte 0x0f,0x1f,0x44,0x00,0x00\n" JUMP_TABLE_ENTRY
		     : : "i"(key), "i"(branch) : : l_yes);
	return false;
l_yes:
	return true;
}
static __always_inline bool arch_static_branch_jump(struct static_key *const key, const bool branch)
{
	__asm__ goto("1:\n\t.byte 0xe9\n\t.long %l[l_yes] - (. + 4)\n" JUMP_TABLE_ENTRY
		     : : "i"(key), "i"(branch) : : l_yes);
	return false;
l_yes:
	return true;
}
#define static_branch_likely(x) (__same_type(*(x), struct static_key_true) ? \
	!arch_static_branch(&(x)->key, true) : !arch_static_branch_jump(&(x)->key, true))
#define static_branch_unlikely(x) (__same_type(*(x), struct static_key_true) ? \
	arch_static_branch_jump(&(x)->key, false) : arch_static_branch(&(x)->key, false))
int static_key_count(struct static_key *key);
#define static_key_enabled(x) (static_key_count((struct static_key *)(x)) > 0)
void static_key_enable(struct static_key *key);
void static_key_disable(struct static_key *key);
bool static_key_slow_inc(struct static_key *key);
void static_key_slow_dec(struct static_key *key);
void jump_label_init(void);
#endif
