/*
 * trace_events.c: the records of tracepoints. trace_event_raw_event_NAME, called only
 * if there is a listener, fills a record and passes it to the machine. A record
 * begins with space for struct trace_entry and has the release's layout as in the
 * event's format file (recorded in kprobes/tracing/formats-RELEASE.txt). The machine
 * refuses shorter records.
 */
#include <linux/compiler.h>
#include <asm/host.h>
/* On Linux these two are in kernel/trace, where nothing has an fentry site. */
notrace int __traceiter_cpu_idle(void *__data, unsigned int state, unsigned int cpu_id);
notrace int __traceiter_cpu_frequency(void *__data, unsigned int frequency, unsigned int cpu_id);
#if GUEST_LINUX >= 612
notrace void __probestub_cpu_idle(void *__data, unsigned int state, unsigned int cpu_id);
notrace void __probestub_cpu_frequency(void *__data, unsigned int frequency, unsigned int cpu_id);
#endif
#define CREATE_TRACE_POINTS
#include <linux/sched.h>
#include <linux/binfmts.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timer.h>
#include <linux/blkdev.h>
#include <linux/irq.h>
#include <net/sock.h>
#include <asm/ptrace.h>
#include <asm/host.h>
#if GUEST_LINUX >= 612
#include <trace/events/csd.h>
#include <trace/events/ipi.h>
#include <trace/events/ksm.h>
#endif
#include <trace/events/block.h>
#include <trace/events/exceptions.h>
#include <trace/events/irq.h>
#include <trace/events/kmem.h>
#include <trace/events/net.h>
#include <trace/events/power.h>
#include <trace/events/rcu.h>
#include <trace/events/sched.h>
#include <trace/events/signal.h>
#include <trace/events/skb.h>
#include <trace/events/sock.h>
#include <trace/events/syscalls.h>
#include <trace/events/task.h>
#include <trace/events/tcp.h>
#include <trace/events/timer.h>
#include <trace/events/workqueue.h>
#include <trace/events/writeback.h>

struct trace_entry {
	unsigned short type;
	unsigned char flags, preempt_count;
	int pid;
};

const char *kmem_cache_name(const struct kmem_cache *s);
void kmem_cache_sizes(const struct kmem_cache *s, size_t *object_size, size_t *size, slab_flags_t *flags);

/*
 * TRACE_EVENT(name, proto, fields, fill): fill sets the members of rec, and adds the
 * size of dynamic data to len.
 */
#define TRACE_EVENT(name, proto, fields, fill) \
	notrace noinline void trace_event_raw_event_##name(void *__data, proto) \
	{ \
		struct { struct trace_entry ent; fields } rec; \
		size_t len = sizeof(rec); \
		memset(&rec, 0, sizeof(rec)); \
		fill \
		hypercall3(HC_TRACEPOINT, &__tracepoint_##name, &rec, len); \
	}
#define TRACE_FIELDS(args...) args

/* A string after the record, with length and offset as in __data_loc. */
#define MAX_STRING 256
#define put_string(field, buf, s) do { \
	size_t __n = strscpy(buf, (s) ?: "(null)", MAX_STRING) + 1; \
	if ((ssize_t)__n <= 0) \
		__n = MAX_STRING; \
	rec.field = (u32)__n << 16 | (u32)((buf) - (char *)&rec); \
	len = ALIGN((buf) - (char *)&rec, __alignof__(rec)) + __n; \
} while (0)

#define copy_comm(field, task) memcpy(rec.field, (task)->comm, TASK_COMM_LEN)

TRACE_EVENT(sched_kthread_stop, TP_PROTO(struct task_struct *t),
	TRACE_FIELDS(char comm[TASK_COMM_LEN]; pid_t pid;),
	copy_comm(comm, t);
	rec.pid = t->pid;
)

TRACE_EVENT(sched_kthread_stop_ret, TP_PROTO(int ret),
	TRACE_FIELDS(int ret;),
	rec.ret = ret;
)

TRACE_EVENT(sched_wait_task, TP_PROTO(struct task_struct *p),
	TRACE_FIELDS(char comm[TASK_COMM_LEN]; pid_t pid; int prio;),
	copy_comm(comm, p);
	rec.pid = p->pid;
	rec.prio = p->prio;
)

#if GUEST_LINUX < 601
#define WAKEUP_SUCCESS success,
#define SET_WAKEUP_SUCCESS rec.success = 1;
#else
#define WAKEUP_SUCCESS
#define SET_WAKEUP_SUCCESS
#endif
#define SCHED_WAKEUP(name) \
TRACE_EVENT(name, TP_PROTO(struct task_struct *p), \
	TRACE_FIELDS(char comm[TASK_COMM_LEN]; pid_t pid; int prio, WAKEUP_SUCCESS target_cpu;), \
	copy_comm(comm, p); \
	rec.pid = p->pid; \
	rec.prio = p->prio; \
	SET_WAKEUP_SUCCESS \
	rec.target_cpu = task_cpu(p); \
)
SCHED_WAKEUP(sched_waking)
SCHED_WAKEUP(sched_wakeup)
SCHED_WAKEUP(sched_wakeup_new)

#define TASK_REPORT 0x7f
#define TASK_REPORT_IDLE 0x80
#define TASK_REPORT_MAX 0x100

/* Returns a bit for the state of a task that is switched away, 0 if it is runnable.
 * */
static long sched_switch_state(bool preempt, unsigned int prev_state, struct task_struct *p)
{
	unsigned int state = (prev_state | p->exit_state) & TASK_REPORT;

	if (preempt)
		return TASK_REPORT_MAX;
	if (prev_state == TASK_IDLE)
		return TASK_REPORT_IDLE;
	return state ? 1L << (fls64(state) - 1) : 0;
}

TRACE_EVENT(sched_switch, TP_PROTO(bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state),
	TRACE_FIELDS(char prev_comm[TASK_COMM_LEN]; pid_t prev_pid; int prev_prio; long prev_state;
		     char next_comm[TASK_COMM_LEN]; pid_t next_pid; int next_prio;),
	copy_comm(prev_comm, prev);
	copy_comm(next_comm, next);
	rec.prev_pid = prev->pid;
	rec.prev_prio = prev->prio;
	rec.prev_state = sched_switch_state(preempt, prev_state, prev);
	rec.next_pid = next->pid;
	rec.next_prio = next->prio;
)

TRACE_EVENT(sched_migrate_task, TP_PROTO(struct task_struct *p, int dest_cpu),
	TRACE_FIELDS(char comm[TASK_COMM_LEN]; pid_t pid; int prio, orig_cpu, dest_cpu;),
	copy_comm(comm, p);
	rec.pid = p->pid;
	rec.prio = p->prio;
	rec.orig_cpu = task_cpu(p);
	rec.dest_cpu = dest_cpu;
)

#define SCHED_PROCESS(name) \
TRACE_EVENT(name, TP_PROTO(struct task_struct *p), \
	TRACE_FIELDS(char comm[TASK_COMM_LEN]; pid_t pid; int prio;), \
	copy_comm(comm, p); \
	rec.pid = p->pid; \
	rec.prio = p->prio; \
)
SCHED_PROCESS(sched_process_free)
SCHED_PROCESS(sched_process_exit)

TRACE_EVENT(sched_process_wait, TP_PROTO(struct pid *pid),
	TRACE_FIELDS(char comm[TASK_COMM_LEN]; pid_t pid; int prio;),
	copy_comm(comm, current);
	rec.pid = pid_nr(pid);
	rec.prio = current->prio;
)

TRACE_EVENT(sched_process_fork, TP_PROTO(struct task_struct *parent, struct task_struct *child),
	TRACE_FIELDS(char parent_comm[TASK_COMM_LEN]; pid_t parent_pid; char child_comm[TASK_COMM_LEN]; pid_t child_pid;),
	copy_comm(parent_comm, parent);
	rec.parent_pid = parent->pid;
	copy_comm(child_comm, child);
	rec.child_pid = child->pid;
)

TRACE_EVENT(sched_process_exec, TP_PROTO(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm),
	TRACE_FIELDS(u32 filename; pid_t pid, old_pid; char name[MAX_STRING];),
	put_string(filename, rec.name, bprm->filename);
	rec.pid = p->pid;
	rec.old_pid = old_pid;
)

#if GUEST_LINUX >= 612
TRACE_EVENT(sched_stat_runtime, TP_PROTO(struct task_struct *tsk, u64 runtime),
	TRACE_FIELDS(char comm[TASK_COMM_LEN]; pid_t pid; u64 runtime;),
	copy_comm(comm, tsk);
	rec.pid = tsk->pid;
	rec.runtime = runtime;
)

/* Three consecutive strings. */
TRACE_EVENT(sched_prepare_exec, TP_PROTO(struct task_struct *task, struct linux_binprm *bprm),
	TRACE_FIELDS(u32 interp, filename; pid_t pid; u32 comm; char text[3 * MAX_STRING];),
	char *at = rec.text;

	put_string(interp, at, bprm->interp);
	at += rec.interp >> 16;
	put_string(filename, at, bprm->filename);
	at += rec.filename >> 16;
	rec.pid = task->pid;
	put_string(comm, at, task->comm);
)
#else
TRACE_EVENT(sched_stat_runtime, TP_PROTO(struct task_struct *tsk, u64 runtime, u64 vruntime),
	TRACE_FIELDS(char comm[TASK_COMM_LEN]; pid_t pid; u64 runtime, vruntime;),
	copy_comm(comm, tsk);
	rec.pid = tsk->pid;
	rec.runtime = runtime;
	rec.vruntime = vruntime;
)
#endif

/* Schedstats are off, as by default on Linux: nothing calls these. */
#define SCHED_STAT(name) \
TRACE_EVENT(name, TP_PROTO(struct task_struct *tsk, u64 delay), \
	TRACE_FIELDS(char comm[TASK_COMM_LEN]; pid_t pid; u64 delay;), \
	copy_comm(comm, tsk); \
	rec.pid = tsk->pid; \
	rec.delay = delay; \
)
SCHED_STAT(sched_stat_wait)
SCHED_STAT(sched_stat_sleep)
SCHED_STAT(sched_stat_iowait)
SCHED_STAT(sched_stat_blocked)

#if GUEST_LINUX < 601
/* Allocations with and without a given node have separate events. */
#define KMEM_ALLOC(name) \
TRACE_EVENT(name, TP_PROTO(unsigned long call_site, const void *ptr, size_t bytes_req, size_t bytes_alloc, gfp_t gfp_flags), \
	TRACE_FIELDS(unsigned long call_site; const void *ptr; size_t bytes_req, bytes_alloc; gfp_t gfp_flags;), \
	rec.call_site = call_site; \
	rec.ptr = ptr; \
	rec.bytes_req = bytes_req; \
	rec.bytes_alloc = bytes_alloc; \
	rec.gfp_flags = gfp_flags; \
)
KMEM_ALLOC(kmalloc)
KMEM_ALLOC(kmem_cache_alloc)

#define KMEM_ALLOC_NODE(name) \
TRACE_EVENT(name, TP_PROTO(unsigned long call_site, const void *ptr, size_t bytes_req, size_t bytes_alloc, gfp_t gfp_flags, int node), \
	TRACE_FIELDS(unsigned long call_site; const void *ptr; size_t bytes_req, bytes_alloc; gfp_t gfp_flags; int node;), \
	rec.call_site = call_site; \
	rec.ptr = ptr; \
	rec.bytes_req = bytes_req; \
	rec.bytes_alloc = bytes_alloc; \
	rec.gfp_flags = gfp_flags; \
	rec.node = node; \
)
KMEM_ALLOC_NODE(kmalloc_node)
KMEM_ALLOC_NODE(kmem_cache_alloc_node)

TRACE_EVENT(kmem_cache_free, TP_PROTO(unsigned long call_site, const void *ptr),
	TRACE_FIELDS(unsigned long call_site; const void *ptr;),
	rec.call_site = call_site;
	rec.ptr = ptr;
)
#else
TRACE_EVENT(kmalloc, TP_PROTO(unsigned long call_site, const void *ptr, size_t bytes_req, size_t bytes_alloc, gfp_t gfp_flags, int node),
	TRACE_FIELDS(unsigned long call_site; const void *ptr; size_t bytes_req, bytes_alloc; unsigned long gfp_flags; int node;),
	rec.call_site = call_site;
	rec.ptr = ptr;
	rec.bytes_req = bytes_req;
	rec.bytes_alloc = bytes_alloc;
	rec.gfp_flags = gfp_flags;
	rec.node = node;
)

TRACE_EVENT(kmem_cache_alloc, TP_PROTO(unsigned long call_site, const void *ptr, struct kmem_cache *s, gfp_t gfp_flags, int node),
	TRACE_FIELDS(unsigned long call_site; const void *ptr; size_t bytes_req, bytes_alloc; unsigned long gfp_flags; int node; bool accounted;),
	slab_flags_t flags;

	kmem_cache_sizes(s, &rec.bytes_req, &rec.bytes_alloc, &flags);
	rec.call_site = call_site;
	rec.ptr = ptr;
	rec.gfp_flags = gfp_flags;
	rec.node = node;
	rec.accounted = (gfp_flags & __GFP_ACCOUNT) || (flags & SLAB_ACCOUNT);
)

TRACE_EVENT(kmem_cache_free, TP_PROTO(unsigned long call_site, const void *ptr, const struct kmem_cache *s),
	TRACE_FIELDS(unsigned long call_site; const void *ptr; u32 name; char text[MAX_STRING];),
	rec.call_site = call_site;
	rec.ptr = ptr;
	put_string(name, rec.text, kmem_cache_name(s));
)
#endif

TRACE_EVENT(kfree, TP_PROTO(unsigned long call_site, const void *ptr),
	TRACE_FIELDS(unsigned long call_site; const void *ptr;),
	rec.call_site = call_site;
	rec.ptr = ptr;
)

TRACE_EVENT(mm_page_free, TP_PROTO(struct page *page, unsigned int order),
	TRACE_FIELDS(unsigned long pfn; unsigned int order;),
	rec.pfn = page_to_pfn(page);
	rec.order = order;
)

#if GUEST_LINUX < 601
#define PAGE_GFP gfp_t
#else
#define PAGE_GFP unsigned long
#endif
TRACE_EVENT(mm_page_alloc, TP_PROTO(struct page *page, unsigned int order, gfp_t gfp_flags, int migratetype),
	TRACE_FIELDS(unsigned long pfn; unsigned int order; PAGE_GFP gfp_flags; int migratetype;),
	rec.pfn = page ? page_to_pfn(page) : -1UL;
	rec.order = order;
	rec.gfp_flags = gfp_flags;
	rec.migratetype = migratetype;
)

TRACE_EVENT(sys_enter, TP_PROTO(struct pt_regs *regs, long id),
	TRACE_FIELDS(long id; unsigned long args[6];),
	rec.id = id;
	rec.args[0] = regs->di;
	rec.args[1] = regs->si;
	rec.args[2] = regs->dx;
	rec.args[3] = regs->r10;
	rec.args[4] = regs->r8;
	rec.args[5] = regs->r9;
)

TRACE_EVENT(sys_exit, TP_PROTO(struct pt_regs *regs, long ret),
	TRACE_FIELDS(long id, ret;),
	rec.id = (int)regs->orig_ax;
	rec.ret = ret;
)

#define TIMER_CLASS(name) \
TRACE_EVENT(name, TP_PROTO(struct timer_list *timer), \
	TRACE_FIELDS(void *timer;), \
	rec.timer = timer; \
)
TIMER_CLASS(timer_init)
TIMER_CLASS(timer_expire_exit)
TIMER_CLASS(timer_cancel)

#if GUEST_LINUX >= 612
TRACE_EVENT(timer_start, TP_PROTO(struct timer_list *timer, unsigned long bucket_expiry),
	TRACE_FIELDS(void *timer, *function; unsigned long expires, bucket_expiry, now; unsigned int flags;),
	rec.bucket_expiry = bucket_expiry;
	rec.expires = timer->expires;
	rec.flags = timer->flags;
#else
TRACE_EVENT(timer_start, TP_PROTO(struct timer_list *timer, unsigned long expires, unsigned int flags),
	TRACE_FIELDS(void *timer, *function; unsigned long expires, now; unsigned int flags;),
	rec.expires = expires;
	rec.flags = flags;
#endif
	rec.timer = timer;
	rec.function = timer->function;
	rec.now = jiffies;
)

TRACE_EVENT(timer_expire_entry, TP_PROTO(struct timer_list *timer, unsigned long baseclk),
	TRACE_FIELDS(void *timer; unsigned long now; void *function; unsigned long baseclk;),
	rec.timer = timer;
	rec.now = jiffies;
	rec.function = timer->function;
	rec.baseclk = baseclk;
)

#define HRTIMER_CLASS(name) \
TRACE_EVENT(name, TP_PROTO(struct hrtimer *hrtimer), \
	TRACE_FIELDS(void *hrtimer;), \
	rec.hrtimer = hrtimer; \
)
HRTIMER_CLASS(hrtimer_expire_exit)
HRTIMER_CLASS(hrtimer_cancel)

TRACE_EVENT(hrtimer_init, TP_PROTO(struct hrtimer *hrtimer, clockid_t clockid, int mode),
	TRACE_FIELDS(void *hrtimer; clockid_t clockid; int mode;),
	rec.hrtimer = hrtimer;
	rec.clockid = clockid;
	rec.mode = mode;
)

#if GUEST_LINUX < 601
TRACE_EVENT(hrtimer_start, TP_PROTO(struct hrtimer *hrtimer, int mode),
	TRACE_FIELDS(void *hrtimer, *function; s64 expires, softexpires; int mode;),
#else
TRACE_EVENT(hrtimer_start, TP_PROTO(struct hrtimer *hrtimer, int mode, bool was_armed),
	TRACE_FIELDS(void *hrtimer, *function; s64 expires, softexpires; int mode; bool was_armed;),
	rec.was_armed = was_armed;
#endif
	rec.hrtimer = hrtimer;
	rec.function = hrtimer->function;
	rec.expires = hrtimer->node.expires;
	rec.softexpires = hrtimer->_softexpires;
	rec.mode = mode;
)

TRACE_EVENT(hrtimer_expire_entry, TP_PROTO(struct hrtimer *hrtimer, ktime_t *now),
	TRACE_FIELDS(void *hrtimer; s64 now; void *function;),
	rec.hrtimer = hrtimer;
	rec.now = *now;
	rec.function = hrtimer->function;
)

TRACE_EVENT(tick_stop, TP_PROTO(int success, int dependency),
	TRACE_FIELDS(int success, dependency;),
	rec.success = success;
	rec.dependency = dependency;
)

#define SOFTIRQ_CLASS(name) \
TRACE_EVENT(name, TP_PROTO(unsigned int vec_nr), \
	TRACE_FIELDS(unsigned int vec;), \
	rec.vec = vec_nr; \
)
SOFTIRQ_CLASS(softirq_raise)
SOFTIRQ_CLASS(softirq_entry)
SOFTIRQ_CLASS(softirq_exit)

#define VECTOR_CLASS(name) \
TRACE_EVENT(name, TP_PROTO(int vector), \
	TRACE_FIELDS(int vector;), \
	rec.vector = vector; \
)
VECTOR_CLASS(local_timer_entry)
VECTOR_CLASS(local_timer_exit)
VECTOR_CLASS(reschedule_entry)
VECTOR_CLASS(reschedule_exit)
VECTOR_CLASS(call_function_single_entry)
VECTOR_CLASS(call_function_single_exit)

#if GUEST_LINUX < 601
TRACE_EVENT(workqueue_queue_work, TP_PROTO(int req_cpu, struct work_struct *work, struct workqueue_struct *wq, const char *name, int cpu),
	TRACE_FIELDS(void *work, *function, *workqueue; unsigned int req_cpu, cpu;),
	rec.workqueue = wq;
#else
TRACE_EVENT(workqueue_queue_work, TP_PROTO(int req_cpu, struct work_struct *work, struct workqueue_struct *wq, const char *name, int cpu),
	TRACE_FIELDS(void *work, *function; u32 workqueue; int req_cpu, cpu; char text[MAX_STRING];),
	put_string(workqueue, rec.text, name);
#endif
	rec.work = work;
	rec.function = work->func;
	rec.req_cpu = req_cpu;
	rec.cpu = cpu;
)

TRACE_EVENT(workqueue_activate_work, TP_PROTO(struct work_struct *work),
#if GUEST_LINUX >= 612
	TRACE_FIELDS(void *work, *function;),
	rec.function = work->func;
#else
	TRACE_FIELDS(void *work;),
#endif
	rec.work = work;
)

TRACE_EVENT(workqueue_execute_start, TP_PROTO(struct work_struct *work),
	TRACE_FIELDS(void *work, *function;),
	rec.work = work;
	rec.function = work->func;
)

TRACE_EVENT(workqueue_execute_end, TP_PROTO(struct work_struct *work, work_func_t function),
	TRACE_FIELDS(void *work, *function;),
	rec.work = work;
	rec.function = function;
)

TRACE_EVENT(rcu_utilization, TP_PROTO(const char *s),
	TRACE_FIELDS(const char *s;),
	rec.s = s;
)

TRACE_EVENT(task_newtask, TP_PROTO(struct task_struct *task, unsigned long clone_flags),
	TRACE_FIELDS(pid_t pid; char comm[TASK_COMM_LEN]; unsigned long clone_flags; short oom_score_adj;),
	rec.pid = task->pid;
	copy_comm(comm, task);
	rec.clone_flags = clone_flags;
)

TRACE_EVENT(task_rename, TP_PROTO(struct task_struct *task, const char *comm),
	TRACE_FIELDS(pid_t pid; char oldcomm[TASK_COMM_LEN], newcomm[TASK_COMM_LEN]; short oom_score_adj;),
	rec.pid = task->pid;
	copy_comm(oldcomm, task);
	strscpy(rec.newcomm, comm, TASK_COMM_LEN);
)

static bool has_siginfo(const struct kernel_siginfo *info)
{
	return info != SEND_SIG_NOINFO && info != SEND_SIG_PRIV;
}

TRACE_EVENT(signal_generate, TP_PROTO(int sig, struct kernel_siginfo *info, struct task_struct *task, int group, int result),
	TRACE_FIELDS(int sig, errno_, code; char comm[TASK_COMM_LEN]; pid_t pid; int group, result;),
	rec.sig = sig;
	rec.errno_ = has_siginfo(info) ? info->si_errno : 0;
	rec.code = has_siginfo(info) ? info->si_code : info == SEND_SIG_PRIV ? SI_KERNEL : SI_USER;
	copy_comm(comm, task);
	rec.pid = task->pid;
	rec.group = group;
	rec.result = result;
)

#if GUEST_LINUX >= 612
#define DROP_FIELDS void *skbaddr, *location, *rx_sk; unsigned short protocol; int reason;
#define CONSUME_FIELDS void *skbaddr, *location;
#define SET_CONSUME_LOCATION rec.location = location;
#elif GUEST_LINUX < 601
#define DROP_FIELDS void *skbaddr, *location; unsigned short protocol;
#else
#define DROP_FIELDS void *skbaddr, *location; unsigned short protocol; int reason;
#endif
#if GUEST_LINUX >= 601
#define SET_DROP_REASON rec.reason = reason;
#else
#define SET_DROP_REASON
#endif
#if GUEST_LINUX < 612
#define CONSUME_FIELDS void *skbaddr;
#define SET_CONSUME_LOCATION
#endif

TRACE_EVENT(kfree_skb, TP_PROTO(struct sk_buff *skb, void *location, enum skb_drop_reason reason),
	TRACE_FIELDS(DROP_FIELDS),
	rec.skbaddr = skb;
	rec.location = location;
	rec.protocol = ntohs(skb->protocol);
	SET_DROP_REASON
)

TRACE_EVENT(consume_skb, TP_PROTO(struct sk_buff *skb, void *location),
	TRACE_FIELDS(CONSUME_FIELDS),
	rec.skbaddr = skb;
	SET_CONSUME_LOCATION
)

TRACE_EVENT(net_dev_start_xmit, TP_PROTO(const struct sk_buff *skb, const struct net_device *dev),
	TRACE_FIELDS(u32 name; u16 queue_mapping; const void *skbaddr; bool vlan_tagged; u16 vlan_proto, vlan_tci, protocol;
		     u8 ip_summed; unsigned int len, data_len; int network_offset; bool transport_offset_valid;
		     int transport_offset; u8 tx_flags; u16 gso_size, gso_segs, gso_type; char dev[MAX_STRING];),
	put_string(name, rec.dev, dev->name);
	rec.skbaddr = skb;
	rec.protocol = ntohs(skb->protocol);
	rec.ip_summed = skb->ip_summed;
	rec.len = skb->len;
	rec.network_offset = skb_network_offset(skb);
	rec.transport_offset_valid = true;
	rec.transport_offset = skb_transport_offset(skb);
)

TRACE_EVENT(net_dev_xmit, TP_PROTO(struct sk_buff *skb, int rc, struct net_device *dev, unsigned int skb_len),
	TRACE_FIELDS(void *skbaddr; unsigned int len; int rc; u32 name; char dev[MAX_STRING];),
	rec.skbaddr = skb;
	rec.len = skb_len;
	rec.rc = rc;
	put_string(name, rec.dev, dev->name);
)

#define NET_DEV_TEMPLATE(event) \
TRACE_EVENT(event, TP_PROTO(struct sk_buff *skb), \
	TRACE_FIELDS(void *skbaddr; unsigned int len; u32 name; char dev[MAX_STRING];), \
	rec.skbaddr = skb; \
	rec.len = skb->len; \
	put_string(name, rec.dev, skb->dev->name); \
)
NET_DEV_TEMPLATE(net_dev_queue)
NET_DEV_TEMPLATE(netif_receive_skb)
NET_DEV_TEMPLATE(netif_rx)

/* The addresses of a socket, as IPv4's, and as IPv6's: in a socket of IPv4 those in which IPv4's are. */
#define ADDRESS_FIELDS u8 saddr[4], daddr[4], saddr_v6[16], daddr_v6[16];
#define set_addresses(sk) do { \
	memcpy(rec.saddr, &inet_sk(sk)->inet_saddr, 4); \
	memcpy(rec.daddr, &inet_sk(sk)->inet_daddr, 4); \
	if ((sk)->sk_family == AF_INET6) { \
		memcpy(rec.saddr_v6, &(sk)->sk_v6_rcv_saddr, 16); \
		memcpy(rec.daddr_v6, &(sk)->sk_v6_daddr, 16); \
		break; \
	} \
	rec.saddr_v6[10] = rec.saddr_v6[11] = rec.daddr_v6[10] = rec.daddr_v6[11] = 0xff; \
	memcpy(rec.saddr_v6 + 12, &inet_sk(sk)->inet_saddr, 4); \
	memcpy(rec.daddr_v6 + 12, &inet_sk(sk)->inet_daddr, 4); \
} while (0)

TRACE_EVENT(inet_sock_set_state, TP_PROTO(const struct sock *sk, const int oldstate, const int newstate),
	TRACE_FIELDS(const void *skaddr; int oldstate, newstate; u16 sport, dport, family, protocol; ADDRESS_FIELDS),
	rec.skaddr = sk;
	rec.oldstate = oldstate;
	rec.newstate = newstate;
	rec.sport = ntohs(inet_sk(sk)->inet_sport);
	rec.dport = ntohs(inet_sk(sk)->inet_dport);
	rec.family = sk->sk_family;
	rec.protocol = IPPROTO_TCP;
	set_addresses(sk);
)

#if GUEST_LINUX < 601
#define RETRANSMIT_FAMILY
#define SET_RETRANSMIT_FAMILY
#else
#define RETRANSMIT_FAMILY family,
#define SET_RETRANSMIT_FAMILY rec.family = sk->sk_family;
#endif
TRACE_EVENT(tcp_retransmit_skb, TP_PROTO(const struct sock *sk, const struct sk_buff *skb),
	TRACE_FIELDS(const void *skbaddr, *skaddr; int state; u16 sport, dport, RETRANSMIT_FAMILY __none[0]; ADDRESS_FIELDS),
	rec.skbaddr = skb;
	rec.skaddr = sk;
	rec.state = sk->sk_state;
	rec.sport = ntohs(inet_sk(sk)->inet_sport);
	rec.dport = ntohs(inet_sk(sk)->inet_dport);
	SET_RETRANSMIT_FAMILY
	set_addresses(sk);
)

#if GUEST_LINUX >= 601
TRACE_EVENT(tcp_cong_state_set, TP_PROTO(struct sock *sk, const u8 ca_state),
	TRACE_FIELDS(const void *skaddr; u16 sport, dport, family; ADDRESS_FIELDS u8 cong_state;),
	rec.skaddr = sk;
	rec.sport = ntohs(inet_sk(sk)->inet_sport);
	rec.dport = ntohs(inet_sk(sk)->inet_dport);
	rec.family = AF_INET;
	rec.cong_state = ca_state;
	set_addresses(sk);
)
#endif

TRACE_EVENT(irq_handler_entry, TP_PROTO(int irq, struct irqaction *action),
	TRACE_FIELDS(int irq; u32 name; char text[MAX_STRING];),
	rec.irq = irq;
	put_string(name, rec.text, action->name);
)

TRACE_EVENT(irq_handler_exit, TP_PROTO(int irq, struct irqaction *action, int ret),
	TRACE_FIELDS(int irq, ret;),
	rec.irq = irq;
	rec.ret = ret;
)

#define BLOCK_BIO(name) \
TRACE_EVENT(name, TP_PROTO(struct bio *bio), \
	TRACE_FIELDS(u32 dev; sector_t sector; unsigned int nr_sector; char rwbs[8], comm[TASK_COMM_LEN];), \
	rec.dev = bio->bi_bdev->bd_dev; \
	rec.sector = bio->bi_iter.bi_sector; \
	rec.nr_sector = bio->bi_iter.bi_size >> SECTOR_SHIFT; \
	blk_fill_rwbs(rec.rwbs, bio->bi_opf); \
	copy_comm(comm, current); \
)
BLOCK_BIO(block_bio_queue)
BLOCK_BIO(block_bio_backmerge)
BLOCK_BIO(block_getrq)

#if GUEST_LINUX >= 612
#define RQ_IOPRIO u16 ioprio;
/* Best effort, 4: of tasks that have not set another one. A request without bios has none. */
#define SET_IOPRIO rec.ioprio = rq->bio ? 2 << 13 | 4 : 0;
#else
#define RQ_IOPRIO
#define SET_IOPRIO
#endif
/* No request has a command for the device, which would be the text. */
#define BLOCK_RQ(name) \
TRACE_EVENT(name, TP_PROTO(struct request *rq), \
	TRACE_FIELDS(u32 dev; sector_t sector; unsigned int nr_sector, bytes; RQ_IOPRIO char rwbs[8], comm[TASK_COMM_LEN]; u32 cmd; char text[MAX_STRING];), \
	rec.dev = rq->q->disk->part0->bd_dev; \
	rec.sector = rq->__sector; \
	rec.nr_sector = blk_rq_sectors(rq); \
	rec.bytes = rq->__data_len; \
	SET_IOPRIO \
	blk_fill_rwbs(rec.rwbs, rq->cmd_flags); \
	copy_comm(comm, current); \
	put_string(cmd, rec.text, ""); \
)
BLOCK_RQ(block_rq_insert)
BLOCK_RQ(block_rq_issue)
#if GUEST_LINUX >= 612
BLOCK_RQ(block_io_start)
BLOCK_RQ(block_io_done)
#endif

TRACE_EVENT(block_rq_complete, TP_PROTO(struct request *rq, blk_status_t error, unsigned int nr_bytes),
	TRACE_FIELDS(u32 dev; sector_t sector; unsigned int nr_sector; int error; RQ_IOPRIO char rwbs[8]; u32 cmd; char text[MAX_STRING];),
	rec.dev = rq->q->disk->part0->bd_dev;
	rec.sector = rq->__sector;
	rec.nr_sector = nr_bytes >> SECTOR_SHIFT;
	rec.error = error ? -EIO : 0;
	SET_IOPRIO
	blk_fill_rwbs(rec.rwbs, rq->cmd_flags);
	put_string(cmd, rec.text, "");
)

TRACE_EVENT(block_plug, TP_PROTO(struct request_queue *q),
	TRACE_FIELDS(char comm[TASK_COMM_LEN];),
	copy_comm(comm, current);
)

TRACE_EVENT(block_unplug, TP_PROTO(struct request_queue *q, unsigned int depth, bool explicit),
	TRACE_FIELDS(int nr_rq; char comm[TASK_COMM_LEN];),
	rec.nr_rq = depth;
	copy_comm(comm, current);
)

TRACE_EVENT(block_dirty_buffer, TP_PROTO(struct buffer_head *bh),
	TRACE_FIELDS(u32 dev; sector_t sector; size_t size;),
	rec.dev = bh->b_bdev->bd_dev;
	rec.sector = bh->b_blocknr;
	rec.size = bh->b_size;
)

/* Nothing here is of one file system, and there are no cgroups but the first. */
#define WRITEBACK_WORK(event) \
TRACE_EVENT(event, TP_PROTO(struct bdi_writeback *wb, struct wb_writeback_work *work), \
	TRACE_FIELDS(char name[32]; long nr_pages; u32 sb_dev; int sync_mode, for_kupdate, range_cyclic, for_background, reason; ino_t cgroup_ino;), \
	memcpy(rec.name, wb->name, sizeof(rec.name)); \
	rec.nr_pages = work->nr_pages; \
	rec.sync_mode = work->sync_mode; \
	rec.for_kupdate = work->for_kupdate; \
	rec.range_cyclic = work->range_cyclic; \
	rec.for_background = work->for_background; \
	rec.reason = work->reason; \
	rec.cgroup_ino = 1; \
)
WRITEBACK_WORK(writeback_start)
WRITEBACK_WORK(writeback_written)

TRACE_EVENT(cpu_idle, TP_PROTO(unsigned int state, unsigned int cpu_id),
	TRACE_FIELDS(u32 state, cpu_id;),
	rec.state = state;
	rec.cpu_id = cpu_id;
)

/* The guest's CPUs have no other frequency to change to. */
TRACE_EVENT(cpu_frequency, TP_PROTO(unsigned int frequency, unsigned int cpu_id),
	TRACE_FIELDS(u32 state, cpu_id;),
	rec.state = frequency;
	rec.cpu_id = cpu_id;
)

#define PAGE_FAULT_CLASS(name) \
TRACE_EVENT(name, TP_PROTO(unsigned long address, struct pt_regs *regs, unsigned long error_code), \
	TRACE_FIELDS(unsigned long address, ip, error_code;), \
	rec.address = address; \
	rec.ip = regs->ip; \
	rec.error_code = error_code; \
)
PAGE_FAULT_CLASS(page_fault_user)
PAGE_FAULT_CLASS(page_fault_kernel)

#if GUEST_LINUX >= 612
TRACE_EVENT(ipi_send_cpu, TP_PROTO(const unsigned int cpu, unsigned long callsite, void *callback),
	TRACE_FIELDS(unsigned int cpu; void *callsite, *callback;),
	rec.cpu = cpu;
	rec.callsite = (void *)callsite;
	rec.callback = callback;
)

TRACE_EVENT(csd_queue_cpu, TP_PROTO(const unsigned int cpu, unsigned long callsite, smp_call_func_t func, struct call_single_data *csd),
	TRACE_FIELDS(unsigned int cpu; void *callsite, *func, *csd;),
	rec.cpu = cpu;
	rec.callsite = (void *)callsite;
	rec.func = func;
	rec.csd = csd;
)

#define CSD_FUNCTION(name) \
TRACE_EVENT(name, TP_PROTO(smp_call_func_t func, struct call_single_data *csd), \
	TRACE_FIELDS(void *func, *csd;), \
	rec.func = func; \
	rec.csd = csd; \
)
CSD_FUNCTION(csd_function_entry)
CSD_FUNCTION(csd_function_exit)

#define KSM_CLASS(name) \
TRACE_EVENT(name, TP_PROTO(void *mm), \
	TRACE_FIELDS(void *mm;), \
	rec.mm = mm; \
)
KSM_CLASS(ksm_enter)
KSM_CLASS(ksm_exit)
#endif

EXPORT_TRACEPOINT_SYMBOL(kmalloc);
EXPORT_TRACEPOINT_SYMBOL(kmem_cache_alloc);
#if GUEST_LINUX < 601
EXPORT_TRACEPOINT_SYMBOL(kmalloc_node);
EXPORT_TRACEPOINT_SYMBOL(kmem_cache_alloc_node);
#endif
EXPORT_TRACEPOINT_SYMBOL(kfree);
EXPORT_TRACEPOINT_SYMBOL(kmem_cache_free);

#if GUEST_LINUX >= 601
#include "bpf_types.h"
#endif
