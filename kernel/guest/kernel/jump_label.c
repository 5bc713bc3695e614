/* jump_label.c: the table of patched branches. Only the machine writes text; keys
 * stay as linked. */
#include <linux/kernel.h>
#include <linux/jump_label.h>

extern struct jump_entry __start___jump_table[], __stop___jump_table[];
static int nr_jump_labels;

static unsigned long jump_entry_code(const struct jump_entry *e)
{
	return (unsigned long)&e->code + e->code;
}

static struct static_key *jump_entry_key(const struct jump_entry *e)
{
	return (struct static_key *)(((unsigned long)&e->key + e->key) & ~3UL);
}

static bool jump_entry_is_branch(const struct jump_entry *e)
{
	return ((unsigned long)&e->key + e->key) & 1;
}

/* A branch is a jump if its key's value and its likely side differ, as in 6.1. */
static bool jump_label_should_jump(const struct jump_entry *e)
{
	return static_key_enabled(jump_entry_key(e)) ^ jump_entry_is_branch(e);
}

/* Returns the entry whose instruction overlaps [start, end), or NULL. */
struct jump_entry *jump_label_find(unsigned long start, unsigned long end)
{
	struct jump_entry *e;

	for (e = __start___jump_table; e < __stop___jump_table; e++)
		if (jump_entry_code(e) < end && jump_entry_code(e) + 5 > start)
			return e;
	return NULL;
}

int jump_label_text_reserved(void *start, void *end)
{
	return jump_label_find((unsigned long)start, (unsigned long)end + 1) != NULL;
}

/* Checks that the text agrees with the keys. */
void __init jump_label_init(void)
{
	struct jump_entry *e;

	for (e = __start___jump_table; e < __stop___jump_table; e++, nr_jump_labels++) {
		u8 op = *(u8 *)jump_entry_code(e);

		BUG_ON(op != (jump_label_should_jump(e) ? 0xe9 : 0x0f));
	}
}
