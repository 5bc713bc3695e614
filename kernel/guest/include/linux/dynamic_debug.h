// dynamic_debug.h: places that print when they are switched on. Layouts are 6.1's.
#ifndef _LINUX_DYNAMIC_DEBUG_H
#define _LINUX_DYNAMIC_DEBUG_H

#include <linux/types.h>

struct device;

// A _ddebug is one place in a module's section __dyndbg.
struct _ddebug {
	const char *modname, *function, *filename, *format;
	unsigned int lineno : 18, class_id : 6;
	unsigned int flags : 8; // _DPRINTK_FLAGS_*
	u64 key[2];		// of the branch around it
};
static_assert(sizeof(struct _ddebug) == 56, "struct _ddebug");

#define _DPRINTK_FLAGS_PRINT 1
#define _DPRINTK_FLAGS_INCL_MODNAME 2
#define _DPRINTK_FLAGS_INCL_FUNCNAME 4
#define _DPRINTK_FLAGS_INCL_LINENO 8
#define _DPRINTK_FLAGS_INCL_TID 16

void __dynamic_pr_debug(struct _ddebug *descriptor, const char *fmt, ...);
void __dynamic_dev_dbg(struct _ddebug *descriptor, const struct device *dev, const char *fmt, ...);

#endif
