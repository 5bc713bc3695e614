// dynamic_debug.h: places that print when they are switched on. Layouts are Linux's.
#ifndef _LINUX_DYNAMIC_DEBUG_H
#define _LINUX_DYNAMIC_DEBUG_H

#include <linux/types.h>
#include <linux/jump_label.h>

struct device;
struct module;

// A _ddebug is one place in a module's section __dyndbg.
struct _ddebug {
	const char *modname, *function, *filename, *format;
#if GUEST_LINUX >= 601 || !defined(GUEST_LINUX)
	unsigned int lineno : 18, class_id : 6;
#define _DPRINTK_CLASS_DFLT 63
#else
	unsigned int lineno : 18;
#endif
	unsigned int flags : 8; // _DPRINTK_FLAGS_*
	union {
		struct static_key_true dd_key_true;
		struct static_key_false dd_key_false;
	} key; // of the branch around it
} __aligned(8);
static_assert(sizeof(struct _ddebug) == 56, "struct _ddebug");

#define _DPRINTK_FLAGS_NONE 0
#define _DPRINTK_FLAGS_PRINT 1
#define _DPRINTK_FLAGS_INCL_MODNAME 2
#define _DPRINTK_FLAGS_INCL_FUNCNAME 4
#define _DPRINTK_FLAGS_INCL_LINENO 8
#define _DPRINTK_FLAGS_INCL_TID 16

void __dynamic_pr_debug(struct _ddebug *descriptor, const char *fmt, ...);
void __dynamic_dev_dbg(struct _ddebug *descriptor, const struct device *dev, const char *fmt, ...);

#ifdef _DPRINTK_CLASS_DFLT
#define DYNAMIC_DEBUG_CLASS .class_id = _DPRINTK_CLASS_DFLT,
#else
#define DYNAMIC_DEBUG_CLASS
#endif
#ifdef DEBUG
#define DYNAMIC_DEBUG_STATE .flags = _DPRINTK_FLAGS_PRINT, .key.dd_key_true = { { { 1 }, JUMP_TYPE_TRUE } }
#define DYNAMIC_DEBUG_BRANCH(d) static_branch_likely(&(d).key.dd_key_true)
#else
#define DYNAMIC_DEBUG_STATE .flags = _DPRINTK_FLAGS_NONE, .key.dd_key_false = { { { 0 }, JUMP_TYPE_FALSE } }
#define DYNAMIC_DEBUG_BRANCH(d) static_branch_unlikely(&(d).key.dd_key_false)
#endif

#define DEFINE_DYNAMIC_DEBUG_METADATA(name, fmt) \
	static struct _ddebug __section("__dyndbg") __used name = { .modname = KBUILD_MODNAME, .function = __func__, \
		.filename = __FILE__, .format = (fmt), .lineno = __LINE__, DYNAMIC_DEBUG_CLASS DYNAMIC_DEBUG_STATE }

#define _dynamic_func_call(fmt, func, ...) do { \
	DEFINE_DYNAMIC_DEBUG_METADATA(__ddebug_place, fmt); \
	if (DYNAMIC_DEBUG_BRANCH(__ddebug_place)) \
		func(&__ddebug_place, ##__VA_ARGS__); \
} while (0)
#define dynamic_pr_debug(fmt, ...) _dynamic_func_call(fmt, __dynamic_pr_debug, pr_fmt(fmt), ##__VA_ARGS__)
#define dynamic_dev_dbg(dev, fmt, ...) _dynamic_func_call(fmt, __dynamic_dev_dbg, dev, fmt, ##__VA_ARGS__)
#define dynamic_hex_dump(prefix, type, row, group, buf, len, ascii) do { \
	DEFINE_DYNAMIC_DEBUG_METADATA(__ddebug_place, __builtin_constant_p(prefix) ? (prefix) : "hexdump"); \
	if (DYNAMIC_DEBUG_BRANCH(__ddebug_place)) \
		print_hex_dump(KERN_DEBUG, prefix, type, row, group, buf, len, ascii); \
} while (0)

int ddebug_add_module(struct _ddebug *tab, unsigned int n, struct module *mod);
void ddebug_remove_module(const struct module *mod);
int ddebug_dyndbg_module_param_cb(char *param, char *val, const char *modname);

#endif
