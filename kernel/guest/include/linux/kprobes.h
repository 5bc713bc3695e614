/* kprobes.h: what must not be probed. */
#ifndef _LINUX_KPROBES_H
#define _LINUX_KPROBES_H
#include <linux/compiler.h>
#ifndef __ASSEMBLY__
/* One address in _kprobe_blacklist; the range is the symbol's. */
#define NOKPROBE_SYMBOL(fname) \
	static unsigned long __used __section("_kprobe_blacklist") \
		_kbl_addr_##fname = (unsigned long)fname
struct pt_regs;
int kprobe_int3_handler(struct pt_regs *regs);
#endif
#endif
