/* bug.h: ud2 with an entry in __bug_table, as 6.1's relative form has it. */
#ifndef _LINUX_BUG_H
#define _LINUX_BUG_H
#include <linux/types.h>
#define BUGFLAG_WARNING	(1 << 0)
#define BUGFLAG_ONCE	(1 << 1)
#define BUGFLAG_DONE	(1 << 2)
#define BUGFLAG_NO_CUT_HERE	(1 << 3)
struct bug_entry {
	int bug_addr_disp, file_disp;
	unsigned short line, flags;
};
#define __BUG_INSN(flags) \
	__asm__ __volatile__("1:\tud2\n" \
		".pushsection __bug_table,\"aw\"\n" \
		"2:\t.long 1b - .\n\t.long %c0 - .\n\t.word %c1\n\t.word %c2\n" \
		"\t.org 2b+%c3\n.popsection" \
		: : "i"(__FILE__), "i"(__LINE__), "i"(flags), "i"(sizeof(struct bug_entry)))
#define BUG() do { __BUG_INSN(0); __builtin_unreachable(); } while (0)
#define BUG_ON(c) do { if (unlikely(c)) BUG(); } while (0)
#define __WARN_FLAGS(f) do { __BUG_INSN(BUGFLAG_WARNING | (f)); } while (0)
#define WARN_ON(c) ({ int __w = !!(c); if (unlikely(__w)) __WARN_FLAGS(0); unlikely(__w); })
#define WARN_ON_ONCE(c) ({ int __w = !!(c); if (unlikely(__w)) __WARN_FLAGS(BUGFLAG_ONCE); unlikely(__w); })
#define __WARN_printf(fmt, ...) do { __warn_printk(fmt, ##__VA_ARGS__); __WARN_FLAGS(BUGFLAG_NO_CUT_HERE); } while (0)
#define WARN(c, fmt, ...) ({ int __w = !!(c); if (unlikely(__w)) __WARN_printf(fmt, ##__VA_ARGS__); unlikely(__w); })
#define WARN_ONCE(c, fmt, ...) ({ static bool __already_done; int __w = !!(c); \
	if (unlikely(__w) && !__already_done) { __already_done = true; __WARN_printf(fmt, ##__VA_ARGS__); } unlikely(__w); })
#define VM_BUG_ON(c) do { } while (0)
int _printk(const char *fmt, ...);
void __warn_printk(const char *fmt, ...);
#endif
