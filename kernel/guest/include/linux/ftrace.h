/*
 * ftrace.h: functions that are called when others are entered. The layouts are those of
 * 6.1. The machine keeps the filters and patches the text (kernel/ftrace).
 */
#ifndef _LINUX_FTRACE_H
#define _LINUX_FTRACE_H
#include <linux/bits.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/ptrace.h>
#include <linux/trace_recursion.h>
#include <linux/types.h>

struct ftrace_ops;
struct ftrace_hash;

/* cs is 0 when only some registers were saved. */
struct ftrace_regs {
	struct pt_regs regs;
};

static __always_inline struct pt_regs *ftrace_get_regs(struct ftrace_regs *fregs)
{
	return fregs && fregs->regs.cs ? &fregs->regs : NULL;
}
#define ftrace_instruction_pointer_set(fregs, _ip) do { (fregs)->regs.ip = (_ip); } while (0)

typedef void (*ftrace_func_t)(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs);

enum {
	FTRACE_OPS_FL_ENABLED = BIT(0),
	FTRACE_OPS_FL_DYNAMIC = BIT(1),
	FTRACE_OPS_FL_SAVE_REGS = BIT(2),
	FTRACE_OPS_FL_SAVE_REGS_IF_SUPPORTED = BIT(3),
	FTRACE_OPS_FL_RECURSION = BIT(4),
	FTRACE_OPS_FL_STUB = BIT(5),
	FTRACE_OPS_FL_INITIALIZED = BIT(6),
	FTRACE_OPS_FL_DELETED = BIT(7),
	FTRACE_OPS_FL_ADDING = BIT(8),
	FTRACE_OPS_FL_REMOVING = BIT(9),
	FTRACE_OPS_FL_MODIFYING = BIT(10),
	FTRACE_OPS_FL_ALLOC_TRAMP = BIT(11),
	FTRACE_OPS_FL_IPMODIFY = BIT(12),
	FTRACE_OPS_FL_PID = BIT(13),
	FTRACE_OPS_FL_RCU = BIT(14),
	FTRACE_OPS_FL_TRACE_ARRAY = BIT(15),
	FTRACE_OPS_FL_PERMANENT = BIT(16),
	FTRACE_OPS_FL_DIRECT = BIT(17),
};

struct ftrace_ops_hash {
	struct ftrace_hash *notrace_hash, *filter_hash;
	struct mutex regex_lock;
};

struct ftrace_ops {
	ftrace_func_t func;
	struct ftrace_ops *next;
	unsigned long flags;
	void *private;
	ftrace_func_t saved_func;
	struct ftrace_ops_hash local_hash;
	struct ftrace_ops_hash *func_hash;
	struct ftrace_ops_hash old_hash;
	unsigned long trampoline, trampoline_size;
	struct list_head list;
	void *ops_func;
};
static_assert(offsetof(struct ftrace_ops, flags) == 16, "struct ftrace_ops");
static_assert(offsetof(struct ftrace_ops, local_hash) == 40, "struct ftrace_ops");
static_assert(offsetof(struct ftrace_ops, trampoline) == 144, "struct ftrace_ops");
static_assert(sizeof(struct ftrace_ops) == 184, "struct ftrace_ops");

int register_ftrace_function(struct ftrace_ops *ops);
int unregister_ftrace_function(struct ftrace_ops *ops);
int ftrace_set_filter(struct ftrace_ops *ops, unsigned char *buf, int len, int reset);
int ftrace_set_notrace(struct ftrace_ops *ops, unsigned char *buf, int len, int reset);
int ftrace_set_filter_ip(struct ftrace_ops *ops, unsigned long ip, int remove, int reset);
int ftrace_set_filter_ips(struct ftrace_ops *ops, unsigned long *ips, unsigned int cnt, int remove, int reset);
void ftrace_set_global_filter(unsigned char *buf, int len, int reset);
void ftrace_set_global_notrace(unsigned char *buf, int len, int reset);
void ftrace_free_filter(struct ftrace_ops *ops);
void arch_ftrace_ops_list_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs);
#endif
