/*
 * kprobes.h: NOKPROBE_SYMBOL, and probes that guest code registers. The layouts are
 * those of 6.1's BTF. Fields that Linux uses internally are only placeholders.
 */
#ifndef _LINUX_KPROBES_H
#define _LINUX_KPROBES_H
#include <linux/compiler.h>
#define KPROBE_FLAG_GONE	1	/* the code was freed */
#define KPROBE_FLAG_DISABLED	2
#define KPROBE_FLAG_OPTIMIZED	4
#define KPROBE_FLAG_FTRACE	8
#define KPROBE_FLAG_ON_FUNC_ENTRY 16

/* Offsets in struct kprobe. */
#define KPROBE_next		16
#define KPROBE_pre_handler	64
#define KPROBE_flags		120

#ifndef __ASSEMBLY__
#include <linux/types.h>
#include <linux/percpu.h>
#if GUEST_LINUX < 601
#define KPROBES_BEFORE_5_11
#define NO_JPROBES
#endif
/* One address in _kprobe_blacklist; the range is the symbol's. */
#define NOKPROBE_SYMBOL(fname) \
	static unsigned long __used __section("_kprobe_blacklist") \
		_kbl_addr_##fname = (unsigned long)fname
struct pt_regs;
struct kprobe;
struct kretprobe_instance;
struct task_struct;
int kprobe_int3_handler(struct pt_regs *regs);

typedef u8 kprobe_opcode_t;
typedef int (*kprobe_pre_handler_t)(struct kprobe *, struct pt_regs *);
typedef void (*kprobe_post_handler_t)(struct kprobe *, struct pt_regs *, unsigned long flags);
typedef int (*kretprobe_handler_t)(struct kretprobe_instance *, struct pt_regs *);

#ifdef KPROBES_BEFORE_5_11
typedef int (*kprobe_fault_handler_t)(struct kprobe *, struct pt_regs *, int trapnr);
typedef int (*kprobe_break_handler_t)(struct kprobe *, struct pt_regs *);
#endif

struct kprobe {
	void *hlist[2];
	void *list[2];
	unsigned long nmissed;
	kprobe_opcode_t *addr;
	const char *symbol_name;
	unsigned int offset;
	kprobe_pre_handler_t pre_handler;
	kprobe_post_handler_t post_handler;
	kprobe_opcode_t opcode;
#ifdef KPROBES_BEFORE_5_11	/* modules for releases that have these */
	kprobe_fault_handler_t fault_handler;
	kprobe_break_handler_t break_handler;
	u64 ainsn[2];
#else
	u64 ainsn[4];
#endif
	u32 flags;
};
static_assert(sizeof(struct kprobe) == 128, "struct kprobe");
static_assert(offsetof(struct kprobe, list) == KPROBE_next, "struct kprobe");
static_assert(offsetof(struct kprobe, pre_handler) == KPROBE_pre_handler, "struct kprobe");
static_assert(offsetof(struct kprobe, flags) == KPROBE_flags, "struct kprobe");

/* The probe whose handlers a CPU executes. */
DECLARE_PER_CPU(struct kprobe *, current_kprobe);
static inline struct kprobe *kprobe_running(void) { return __this_cpu_read(current_kprobe); }

/* The first word is the kretprobe. */
struct rethook {
	void *data;
};

struct kretprobe {
	struct kprobe kp;
	kretprobe_handler_t handler;
	kretprobe_handler_t entry_handler;
	int maxactive;
	int nmissed;
	size_t data_size;
	struct rethook *rh;
};
static_assert(sizeof(struct kretprobe) == 168, "struct kretprobe");

#define KRETPROBE_MAX_DATA_SIZE 4096

struct rethook_node {
	void *freelist[2];
	void *llist;
	struct rethook *rethook;
	unsigned long ret_addr;
	unsigned long frame;
};

struct kretprobe_instance {
#ifdef KPROBES_BEFORE_5_11	/* fields of older releases, in place of internal ones of 6.1 */
	union {
		struct {
			struct task_struct *task;
			struct kretprobe *rp;
			void *hlist, *rethook;
			kprobe_opcode_t *ret_addr;
			void *fp;
		};
		struct rethook_node node;
	};
#else
	struct rethook_node node;
#endif
	char data[];
};
static_assert(sizeof(struct kretprobe_instance) == 48, "struct kretprobe_instance");

static inline struct kretprobe *get_kretprobe(struct kretprobe_instance *ri)
{
	return ri->node.rethook->data;
}

static inline unsigned long get_kretprobe_retaddr(struct kretprobe_instance *ri)
{
	return ri->node.ret_addr;
}

/* Asks the machine for PROBE_REGISTER and the like, and sleeps until that is done.
 * Returns 0 or -errno; -EDEADLK if the caller may not sleep. */
int probe_request(u64 nr, void *probe, u64 arg);
int register_kprobe(struct kprobe *p);
void unregister_kprobe(struct kprobe *p);
int register_kprobes(struct kprobe **kps, int num);
void unregister_kprobes(struct kprobe **kps, int num);
int disable_kprobe(struct kprobe *kp);
int enable_kprobe(struct kprobe *kp);
int register_kretprobe(struct kretprobe *rp);
void unregister_kretprobe(struct kretprobe *rp);
int register_kretprobes(struct kretprobe **rps, int num);
void unregister_kretprobes(struct kretprobe **rps, int num);

/* What a probe's flags say. */
#if defined(KERNEL_2_6) || defined(KERNEL_4_15) || GUEST_LINUX < 601
#define kprobe_bool int		/* until 5.16 */
#else
#define kprobe_bool bool
#endif
static inline kprobe_bool kprobe_gone(struct kprobe *p) { return p->flags & KPROBE_FLAG_GONE; }
static inline kprobe_bool kprobe_disabled(struct kprobe *p) { return p->flags & (KPROBE_FLAG_DISABLED | KPROBE_FLAG_GONE); }
static inline int kprobe_optimized(struct kprobe *p) { return p->flags & KPROBE_FLAG_OPTIMIZED; }
static inline int kprobe_ftrace(struct kprobe *p) { return p->flags & KPROBE_FLAG_FTRACE; }

static inline int disable_kretprobe(struct kretprobe *rp) { return disable_kprobe(&rp->kp); }
static inline int enable_kretprobe(struct kretprobe *rp) { return enable_kprobe(&rp->kp); }

#if defined(KPROBES_BEFORE_5_11) && !defined(NO_JPROBES)
/* entry is the handler: a function with the signature of the probed one, which ends
 * with jprobe_return(). */
struct jprobe {
	struct kprobe kp;
	void *entry;
};
static_assert(sizeof(struct jprobe) == 136, "struct jprobe");
#define JPROBE_ENTRY(handler)	((void *)(handler))

int register_jprobe(struct jprobe *jp);
void unregister_jprobe(struct jprobe *jp);
int register_jprobes(struct jprobe **jps, int num);
void unregister_jprobes(struct jprobe **jps, int num);
void jprobe_return(void);
static inline int disable_jprobe(struct jprobe *jp) { return disable_kprobe(&jp->kp); }
static inline int enable_jprobe(struct jprobe *jp) { return enable_kprobe(&jp->kp); }
#endif
#endif
#endif
#include <asm/ptrace.h>
