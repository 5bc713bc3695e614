/* Written by internal/tools/records from kprobes/tracing/formats-6.1.txt. */

struct trace_event_raw_kfree_skb {
	struct trace_entry ent;
	void * skbaddr;
	void * location;
	unsigned short protocol;
	enum skb_drop_reason reason;
	char __data[];
};

struct trace_event_raw_consume_skb {
	struct trace_entry ent;
	void * skbaddr;
	char __data[];
};

struct trace_event_raw_net_dev_start_xmit {
	struct trace_entry ent;
	u32 __data_loc_name;
	u16 queue_mapping;
	const void * skbaddr;
	bool vlan_tagged;
	u16 vlan_proto;
	u16 vlan_tci;
	u16 protocol;
	u8 ip_summed;
	unsigned int len;
	unsigned int data_len;
	int network_offset;
	bool transport_offset_valid;
	int transport_offset;
	u8 tx_flags;
	u16 gso_size;
	u16 gso_segs;
	u16 gso_type;
	char __data[];
};

struct trace_event_raw_net_dev_xmit {
	struct trace_entry ent;
	void * skbaddr;
	unsigned int len;
	int rc;
	u32 __data_loc_name;
	char __data[];
};

struct trace_event_raw_net_dev_template {
	struct trace_entry ent;
	void * skbaddr;
	unsigned int len;
	u32 __data_loc_name;
	char __data[];
};

struct trace_event_raw_inet_sock_set_state {
	struct trace_entry ent;
	const void * skaddr;
	int oldstate;
	int newstate;
	__u16 sport;
	__u16 dport;
	__u16 family;
	__u16 protocol;
	__u8 saddr[4];
	__u8 daddr[4];
	__u8 saddr_v6[16];
	__u8 daddr_v6[16];
	char __data[];
};

struct trace_event_raw_tcp_event_sk_skb {
	struct trace_entry ent;
	const void * skbaddr;
	const void * skaddr;
	int state;
	__u16 sport;
	__u16 dport;
	__u16 family;
	__u8 saddr[4];
	__u8 daddr[4];
	__u8 saddr_v6[16];
	__u8 daddr_v6[16];
	char __data[];
};

struct trace_event_raw_tcp_cong_state_set {
	struct trace_entry ent;
	const void * skaddr;
	__u16 sport;
	__u16 dport;
	__u16 family;
	__u8 saddr[4];
	__u8 daddr[4];
	__u8 saddr_v6[16];
	__u8 daddr_v6[16];
	__u8 cong_state;
	char __data[];
};

struct trace_event_raw_block_buffer {
	struct trace_entry ent;
	dev_t dev;
	sector_t sector;
	size_t size;
	char __data[];
};

struct trace_event_raw_block_rq_completion {
	struct trace_entry ent;
	dev_t dev;
	sector_t sector;
	unsigned int nr_sector;
	int error;
	char rwbs[8];
	u32 __data_loc_cmd;
	char __data[];
};

struct trace_event_raw_block_rq {
	struct trace_entry ent;
	dev_t dev;
	sector_t sector;
	unsigned int nr_sector;
	unsigned int bytes;
	char rwbs[8];
	char comm[16];
	u32 __data_loc_cmd;
	char __data[];
};

struct trace_event_raw_block_bio {
	struct trace_entry ent;
	dev_t dev;
	sector_t sector;
	unsigned int nr_sector;
	char rwbs[8];
	char comm[16];
	char __data[];
};

struct trace_event_raw_block_plug {
	struct trace_entry ent;
	char comm[16];
	char __data[];
};

struct trace_event_raw_block_unplug {
	struct trace_entry ent;
	int nr_rq;
	char comm[16];
	char __data[];
};

struct trace_event_raw_writeback_work_class {
	struct trace_entry ent;
	char name[32];
	long nr_pages;
	dev_t sb_dev;
	int sync_mode;
	int for_kupdate;
	int range_cyclic;
	int for_background;
	int reason;
	ino_t cgroup_ino;
	char __data[];
};

struct trace_event_raw_kmem_cache_alloc {
	struct trace_entry ent;
	unsigned long call_site;
	const void * ptr;
	size_t bytes_req;
	size_t bytes_alloc;
	unsigned long gfp_flags;
	int node;
	bool accounted;
	char __data[];
};

struct trace_event_raw_kmalloc {
	struct trace_entry ent;
	unsigned long call_site;
	const void * ptr;
	size_t bytes_req;
	size_t bytes_alloc;
	unsigned long gfp_flags;
	int node;
	char __data[];
};

struct trace_event_raw_kfree {
	struct trace_entry ent;
	unsigned long call_site;
	const void * ptr;
	char __data[];
};

struct trace_event_raw_kmem_cache_free {
	struct trace_entry ent;
	unsigned long call_site;
	const void * ptr;
	u32 __data_loc_name;
	char __data[];
};

struct trace_event_raw_mm_page_free {
	struct trace_entry ent;
	unsigned long pfn;
	unsigned int order;
	char __data[];
};

struct trace_event_raw_mm_page_alloc {
	struct trace_entry ent;
	unsigned long pfn;
	unsigned int order;
	unsigned long gfp_flags;
	int migratetype;
	char __data[];
};

struct trace_event_raw_cpu {
	struct trace_entry ent;
	u32 state;
	u32 cpu_id;
	char __data[];
};

struct trace_event_raw_bpf_trace_printk {
	struct trace_entry ent;
	u32 __data_loc_bpf_string;
	char __data[];
};

struct trace_event_raw_timer_class {
	struct trace_entry ent;
	void * timer;
	char __data[];
};

struct trace_event_raw_timer_start {
	struct trace_entry ent;
	void * timer;
	void * function;
	unsigned long expires;
	unsigned long now;
	unsigned int flags;
	char __data[];
};

struct trace_event_raw_timer_expire_entry {
	struct trace_entry ent;
	void * timer;
	unsigned long now;
	void * function;
	unsigned long baseclk;
	char __data[];
};

struct trace_event_raw_hrtimer_init {
	struct trace_entry ent;
	void * hrtimer;
	clockid_t clockid;
	enum hrtimer_mode mode;
	char __data[];
};

struct trace_event_raw_hrtimer_start {
	struct trace_entry ent;
	void * hrtimer;
	void * function;
	s64 expires;
	s64 softexpires;
	enum hrtimer_mode mode;
	bool was_armed;
	char __data[];
};

struct trace_event_raw_hrtimer_expire_entry {
	struct trace_entry ent;
	void * hrtimer;
	s64 now;
	void * function;
	char __data[];
};

struct trace_event_raw_hrtimer_class {
	struct trace_entry ent;
	void * hrtimer;
	char __data[];
};

struct trace_event_raw_tick_stop {
	struct trace_entry ent;
	int success;
	int dependency;
	char __data[];
};

struct trace_event_raw_sys_enter {
	struct trace_entry ent;
	long id;
	unsigned long args[6];
	char __data[];
};

struct trace_event_raw_sys_exit {
	struct trace_entry ent;
	long id;
	long ret;
	char __data[];
};

struct trace_event_raw_rcu_utilization {
	struct trace_entry ent;
	const char * s;
	char __data[];
};

struct trace_event_raw_console {
	struct trace_entry ent;
	u32 __data_loc_msg;
	char __data[];
};

struct trace_event_raw_sched_kthread_stop {
	struct trace_entry ent;
	char comm[16];
	pid_t pid;
	char __data[];
};

struct trace_event_raw_sched_kthread_stop_ret {
	struct trace_entry ent;
	int ret;
	char __data[];
};

struct trace_event_raw_sched_wakeup_template {
	struct trace_entry ent;
	char comm[16];
	pid_t pid;
	int prio;
	int target_cpu;
	char __data[];
};

struct trace_event_raw_sched_switch {
	struct trace_entry ent;
	char prev_comm[16];
	pid_t prev_pid;
	int prev_prio;
	long prev_state;
	char next_comm[16];
	pid_t next_pid;
	int next_prio;
	char __data[];
};

struct trace_event_raw_sched_migrate_task {
	struct trace_entry ent;
	char comm[16];
	pid_t pid;
	int prio;
	int orig_cpu;
	int dest_cpu;
	char __data[];
};

struct trace_event_raw_sched_process_template {
	struct trace_entry ent;
	char comm[16];
	pid_t pid;
	int prio;
	char __data[];
};

struct trace_event_raw_sched_process_wait {
	struct trace_entry ent;
	char comm[16];
	pid_t pid;
	int prio;
	char __data[];
};

struct trace_event_raw_sched_process_fork {
	struct trace_entry ent;
	char parent_comm[16];
	pid_t parent_pid;
	char child_comm[16];
	pid_t child_pid;
	char __data[];
};

struct trace_event_raw_sched_process_exec {
	struct trace_entry ent;
	u32 __data_loc_filename;
	pid_t pid;
	pid_t old_pid;
	char __data[];
};

struct trace_event_raw_sched_stat_template {
	struct trace_entry ent;
	char comm[16];
	pid_t pid;
	u64 delay;
	char __data[];
};

struct trace_event_raw_sched_stat_runtime {
	struct trace_entry ent;
	char comm[16];
	pid_t pid;
	u64 runtime;
	u64 vruntime;
	char __data[];
};

struct trace_event_raw_workqueue_queue_work {
	struct trace_entry ent;
	void * work;
	void * function;
	u32 __data_loc_workqueue;
	int req_cpu;
	int cpu;
	char __data[];
};

struct trace_event_raw_workqueue_activate_work {
	struct trace_entry ent;
	void * work;
	char __data[];
};

struct trace_event_raw_workqueue_execute_start {
	struct trace_entry ent;
	void * work;
	void * function;
	char __data[];
};

struct trace_event_raw_workqueue_execute_end {
	struct trace_entry ent;
	void * work;
	void * function;
	char __data[];
};

struct trace_event_raw_signal_generate {
	struct trace_entry ent;
	int sig;
	int errno;
	int code;
	char comm[16];
	pid_t pid;
	int group;
	int result;
	char __data[];
};

struct trace_event_raw_signal_deliver {
	struct trace_entry ent;
	int sig;
	int errno;
	int code;
	unsigned long sa_handler;
	unsigned long sa_flags;
	char __data[];
};

struct trace_event_raw_irq_handler_entry {
	struct trace_entry ent;
	int irq;
	u32 __data_loc_name;
	char __data[];
};

struct trace_event_raw_irq_handler_exit {
	struct trace_entry ent;
	int irq;
	int ret;
	char __data[];
};

struct trace_event_raw_softirq {
	struct trace_entry ent;
	unsigned int vec;
	char __data[];
};

struct trace_event_raw_task_newtask {
	struct trace_entry ent;
	pid_t pid;
	char comm[16];
	unsigned long clone_flags;
	short oom_score_adj;
	char __data[];
};

struct trace_event_raw_task_rename {
	struct trace_entry ent;
	pid_t pid;
	char oldcomm[16];
	char newcomm[16];
	short oom_score_adj;
	char __data[];
};

struct trace_event_raw_x86_exceptions {
	struct trace_entry ent;
	unsigned long address;
	unsigned long ip;
	unsigned long error_code;
	char __data[];
};

struct trace_event_raw_x86_irq_vector {
	struct trace_entry ent;
	int vector;
	char __data[];
};

TRACE_FIELD(trace_event_raw_kfree_skb, skbaddr, 8, 8)
TRACE_FIELD(trace_event_raw_kfree_skb, location, 16, 8)
TRACE_FIELD(trace_event_raw_kfree_skb, protocol, 24, 2)
TRACE_FIELD(trace_event_raw_kfree_skb, reason, 28, 4)
TRACE_FIELD(trace_event_raw_consume_skb, skbaddr, 8, 8)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, __data_loc_name, 8, 4)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, queue_mapping, 12, 2)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, skbaddr, 16, 8)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, vlan_tagged, 24, 1)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, vlan_proto, 26, 2)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, vlan_tci, 28, 2)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, protocol, 30, 2)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, ip_summed, 32, 1)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, len, 36, 4)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, data_len, 40, 4)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, network_offset, 44, 4)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, transport_offset_valid, 48, 1)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, transport_offset, 52, 4)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, tx_flags, 56, 1)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, gso_size, 58, 2)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, gso_segs, 60, 2)
TRACE_FIELD(trace_event_raw_net_dev_start_xmit, gso_type, 62, 2)
TRACE_FIELD(trace_event_raw_net_dev_xmit, skbaddr, 8, 8)
TRACE_FIELD(trace_event_raw_net_dev_xmit, len, 16, 4)
TRACE_FIELD(trace_event_raw_net_dev_xmit, rc, 20, 4)
TRACE_FIELD(trace_event_raw_net_dev_xmit, __data_loc_name, 24, 4)
TRACE_FIELD(trace_event_raw_net_dev_template, skbaddr, 8, 8)
TRACE_FIELD(trace_event_raw_net_dev_template, len, 16, 4)
TRACE_FIELD(trace_event_raw_net_dev_template, __data_loc_name, 20, 4)
TRACE_FIELD(trace_event_raw_inet_sock_set_state, skaddr, 8, 8)
TRACE_FIELD(trace_event_raw_inet_sock_set_state, oldstate, 16, 4)
TRACE_FIELD(trace_event_raw_inet_sock_set_state, newstate, 20, 4)
TRACE_FIELD(trace_event_raw_inet_sock_set_state, sport, 24, 2)
TRACE_FIELD(trace_event_raw_inet_sock_set_state, dport, 26, 2)
TRACE_FIELD(trace_event_raw_inet_sock_set_state, family, 28, 2)
TRACE_FIELD(trace_event_raw_inet_sock_set_state, protocol, 30, 2)
TRACE_FIELD(trace_event_raw_inet_sock_set_state, saddr, 32, 4)
TRACE_FIELD(trace_event_raw_inet_sock_set_state, daddr, 36, 4)
TRACE_FIELD(trace_event_raw_inet_sock_set_state, saddr_v6, 40, 16)
TRACE_FIELD(trace_event_raw_inet_sock_set_state, daddr_v6, 56, 16)
TRACE_FIELD(trace_event_raw_tcp_event_sk_skb, skbaddr, 8, 8)
TRACE_FIELD(trace_event_raw_tcp_event_sk_skb, skaddr, 16, 8)
TRACE_FIELD(trace_event_raw_tcp_event_sk_skb, state, 24, 4)
TRACE_FIELD(trace_event_raw_tcp_event_sk_skb, sport, 28, 2)
TRACE_FIELD(trace_event_raw_tcp_event_sk_skb, dport, 30, 2)
TRACE_FIELD(trace_event_raw_tcp_event_sk_skb, family, 32, 2)
TRACE_FIELD(trace_event_raw_tcp_event_sk_skb, saddr, 34, 4)
TRACE_FIELD(trace_event_raw_tcp_event_sk_skb, daddr, 38, 4)
TRACE_FIELD(trace_event_raw_tcp_event_sk_skb, saddr_v6, 42, 16)
TRACE_FIELD(trace_event_raw_tcp_event_sk_skb, daddr_v6, 58, 16)
TRACE_FIELD(trace_event_raw_tcp_cong_state_set, skaddr, 8, 8)
TRACE_FIELD(trace_event_raw_tcp_cong_state_set, sport, 16, 2)
TRACE_FIELD(trace_event_raw_tcp_cong_state_set, dport, 18, 2)
TRACE_FIELD(trace_event_raw_tcp_cong_state_set, family, 20, 2)
TRACE_FIELD(trace_event_raw_tcp_cong_state_set, saddr, 22, 4)
TRACE_FIELD(trace_event_raw_tcp_cong_state_set, daddr, 26, 4)
TRACE_FIELD(trace_event_raw_tcp_cong_state_set, saddr_v6, 30, 16)
TRACE_FIELD(trace_event_raw_tcp_cong_state_set, daddr_v6, 46, 16)
TRACE_FIELD(trace_event_raw_tcp_cong_state_set, cong_state, 62, 1)
TRACE_FIELD(trace_event_raw_block_buffer, dev, 8, 4)
TRACE_FIELD(trace_event_raw_block_buffer, sector, 16, 8)
TRACE_FIELD(trace_event_raw_block_buffer, size, 24, 8)
TRACE_FIELD(trace_event_raw_block_rq_completion, dev, 8, 4)
TRACE_FIELD(trace_event_raw_block_rq_completion, sector, 16, 8)
TRACE_FIELD(trace_event_raw_block_rq_completion, nr_sector, 24, 4)
TRACE_FIELD(trace_event_raw_block_rq_completion, error, 28, 4)
TRACE_FIELD(trace_event_raw_block_rq_completion, rwbs, 32, 8)
TRACE_FIELD(trace_event_raw_block_rq_completion, __data_loc_cmd, 40, 4)
TRACE_FIELD(trace_event_raw_block_rq, dev, 8, 4)
TRACE_FIELD(trace_event_raw_block_rq, sector, 16, 8)
TRACE_FIELD(trace_event_raw_block_rq, nr_sector, 24, 4)
TRACE_FIELD(trace_event_raw_block_rq, bytes, 28, 4)
TRACE_FIELD(trace_event_raw_block_rq, rwbs, 32, 8)
TRACE_FIELD(trace_event_raw_block_rq, comm, 40, 16)
TRACE_FIELD(trace_event_raw_block_rq, __data_loc_cmd, 56, 4)
TRACE_FIELD(trace_event_raw_block_bio, dev, 8, 4)
TRACE_FIELD(trace_event_raw_block_bio, sector, 16, 8)
TRACE_FIELD(trace_event_raw_block_bio, nr_sector, 24, 4)
TRACE_FIELD(trace_event_raw_block_bio, rwbs, 28, 8)
TRACE_FIELD(trace_event_raw_block_bio, comm, 36, 16)
TRACE_FIELD(trace_event_raw_block_plug, comm, 8, 16)
TRACE_FIELD(trace_event_raw_block_unplug, nr_rq, 8, 4)
TRACE_FIELD(trace_event_raw_block_unplug, comm, 12, 16)
TRACE_FIELD(trace_event_raw_writeback_work_class, name, 8, 32)
TRACE_FIELD(trace_event_raw_writeback_work_class, nr_pages, 40, 8)
TRACE_FIELD(trace_event_raw_writeback_work_class, sb_dev, 48, 4)
TRACE_FIELD(trace_event_raw_writeback_work_class, sync_mode, 52, 4)
TRACE_FIELD(trace_event_raw_writeback_work_class, for_kupdate, 56, 4)
TRACE_FIELD(trace_event_raw_writeback_work_class, range_cyclic, 60, 4)
TRACE_FIELD(trace_event_raw_writeback_work_class, for_background, 64, 4)
TRACE_FIELD(trace_event_raw_writeback_work_class, reason, 68, 4)
TRACE_FIELD(trace_event_raw_writeback_work_class, cgroup_ino, 72, 8)
TRACE_FIELD(trace_event_raw_kmem_cache_alloc, call_site, 8, 8)
TRACE_FIELD(trace_event_raw_kmem_cache_alloc, ptr, 16, 8)
TRACE_FIELD(trace_event_raw_kmem_cache_alloc, bytes_req, 24, 8)
TRACE_FIELD(trace_event_raw_kmem_cache_alloc, bytes_alloc, 32, 8)
TRACE_FIELD(trace_event_raw_kmem_cache_alloc, gfp_flags, 40, 8)
TRACE_FIELD(trace_event_raw_kmem_cache_alloc, node, 48, 4)
TRACE_FIELD(trace_event_raw_kmem_cache_alloc, accounted, 52, 1)
TRACE_FIELD(trace_event_raw_kmalloc, call_site, 8, 8)
TRACE_FIELD(trace_event_raw_kmalloc, ptr, 16, 8)
TRACE_FIELD(trace_event_raw_kmalloc, bytes_req, 24, 8)
TRACE_FIELD(trace_event_raw_kmalloc, bytes_alloc, 32, 8)
TRACE_FIELD(trace_event_raw_kmalloc, gfp_flags, 40, 8)
TRACE_FIELD(trace_event_raw_kmalloc, node, 48, 4)
TRACE_FIELD(trace_event_raw_kfree, call_site, 8, 8)
TRACE_FIELD(trace_event_raw_kfree, ptr, 16, 8)
TRACE_FIELD(trace_event_raw_kmem_cache_free, call_site, 8, 8)
TRACE_FIELD(trace_event_raw_kmem_cache_free, ptr, 16, 8)
TRACE_FIELD(trace_event_raw_kmem_cache_free, __data_loc_name, 24, 4)
TRACE_FIELD(trace_event_raw_mm_page_free, pfn, 8, 8)
TRACE_FIELD(trace_event_raw_mm_page_free, order, 16, 4)
TRACE_FIELD(trace_event_raw_mm_page_alloc, pfn, 8, 8)
TRACE_FIELD(trace_event_raw_mm_page_alloc, order, 16, 4)
TRACE_FIELD(trace_event_raw_mm_page_alloc, gfp_flags, 24, 8)
TRACE_FIELD(trace_event_raw_mm_page_alloc, migratetype, 32, 4)
TRACE_FIELD(trace_event_raw_cpu, state, 8, 4)
TRACE_FIELD(trace_event_raw_cpu, cpu_id, 12, 4)
TRACE_FIELD(trace_event_raw_bpf_trace_printk, __data_loc_bpf_string, 8, 4)
TRACE_FIELD(trace_event_raw_timer_class, timer, 8, 8)
TRACE_FIELD(trace_event_raw_timer_start, timer, 8, 8)
TRACE_FIELD(trace_event_raw_timer_start, function, 16, 8)
TRACE_FIELD(trace_event_raw_timer_start, expires, 24, 8)
TRACE_FIELD(trace_event_raw_timer_start, now, 32, 8)
TRACE_FIELD(trace_event_raw_timer_start, flags, 40, 4)
TRACE_FIELD(trace_event_raw_timer_expire_entry, timer, 8, 8)
TRACE_FIELD(trace_event_raw_timer_expire_entry, now, 16, 8)
TRACE_FIELD(trace_event_raw_timer_expire_entry, function, 24, 8)
TRACE_FIELD(trace_event_raw_timer_expire_entry, baseclk, 32, 8)
TRACE_FIELD(trace_event_raw_hrtimer_init, hrtimer, 8, 8)
TRACE_FIELD(trace_event_raw_hrtimer_init, clockid, 16, 4)
TRACE_FIELD(trace_event_raw_hrtimer_init, mode, 20, 4)
TRACE_FIELD(trace_event_raw_hrtimer_start, hrtimer, 8, 8)
TRACE_FIELD(trace_event_raw_hrtimer_start, function, 16, 8)
TRACE_FIELD(trace_event_raw_hrtimer_start, expires, 24, 8)
TRACE_FIELD(trace_event_raw_hrtimer_start, softexpires, 32, 8)
TRACE_FIELD(trace_event_raw_hrtimer_start, mode, 40, 4)
TRACE_FIELD(trace_event_raw_hrtimer_start, was_armed, 44, 1)
TRACE_FIELD(trace_event_raw_hrtimer_expire_entry, hrtimer, 8, 8)
TRACE_FIELD(trace_event_raw_hrtimer_expire_entry, now, 16, 8)
TRACE_FIELD(trace_event_raw_hrtimer_expire_entry, function, 24, 8)
TRACE_FIELD(trace_event_raw_hrtimer_class, hrtimer, 8, 8)
TRACE_FIELD(trace_event_raw_tick_stop, success, 8, 4)
TRACE_FIELD(trace_event_raw_tick_stop, dependency, 12, 4)
TRACE_FIELD(trace_event_raw_sys_enter, id, 8, 8)
TRACE_FIELD(trace_event_raw_sys_enter, args, 16, 48)
TRACE_FIELD(trace_event_raw_sys_exit, id, 8, 8)
TRACE_FIELD(trace_event_raw_sys_exit, ret, 16, 8)
TRACE_FIELD(trace_event_raw_rcu_utilization, s, 8, 8)
TRACE_FIELD(trace_event_raw_console, __data_loc_msg, 8, 4)
TRACE_FIELD(trace_event_raw_sched_kthread_stop, comm, 8, 16)
TRACE_FIELD(trace_event_raw_sched_kthread_stop, pid, 24, 4)
TRACE_FIELD(trace_event_raw_sched_kthread_stop_ret, ret, 8, 4)
TRACE_FIELD(trace_event_raw_sched_wakeup_template, comm, 8, 16)
TRACE_FIELD(trace_event_raw_sched_wakeup_template, pid, 24, 4)
TRACE_FIELD(trace_event_raw_sched_wakeup_template, prio, 28, 4)
TRACE_FIELD(trace_event_raw_sched_wakeup_template, target_cpu, 32, 4)
TRACE_FIELD(trace_event_raw_sched_switch, prev_comm, 8, 16)
TRACE_FIELD(trace_event_raw_sched_switch, prev_pid, 24, 4)
TRACE_FIELD(trace_event_raw_sched_switch, prev_prio, 28, 4)
TRACE_FIELD(trace_event_raw_sched_switch, prev_state, 32, 8)
TRACE_FIELD(trace_event_raw_sched_switch, next_comm, 40, 16)
TRACE_FIELD(trace_event_raw_sched_switch, next_pid, 56, 4)
TRACE_FIELD(trace_event_raw_sched_switch, next_prio, 60, 4)
TRACE_FIELD(trace_event_raw_sched_migrate_task, comm, 8, 16)
TRACE_FIELD(trace_event_raw_sched_migrate_task, pid, 24, 4)
TRACE_FIELD(trace_event_raw_sched_migrate_task, prio, 28, 4)
TRACE_FIELD(trace_event_raw_sched_migrate_task, orig_cpu, 32, 4)
TRACE_FIELD(trace_event_raw_sched_migrate_task, dest_cpu, 36, 4)
TRACE_FIELD(trace_event_raw_sched_process_template, comm, 8, 16)
TRACE_FIELD(trace_event_raw_sched_process_template, pid, 24, 4)
TRACE_FIELD(trace_event_raw_sched_process_template, prio, 28, 4)
TRACE_FIELD(trace_event_raw_sched_process_wait, comm, 8, 16)
TRACE_FIELD(trace_event_raw_sched_process_wait, pid, 24, 4)
TRACE_FIELD(trace_event_raw_sched_process_wait, prio, 28, 4)
TRACE_FIELD(trace_event_raw_sched_process_fork, parent_comm, 8, 16)
TRACE_FIELD(trace_event_raw_sched_process_fork, parent_pid, 24, 4)
TRACE_FIELD(trace_event_raw_sched_process_fork, child_comm, 28, 16)
TRACE_FIELD(trace_event_raw_sched_process_fork, child_pid, 44, 4)
TRACE_FIELD(trace_event_raw_sched_process_exec, __data_loc_filename, 8, 4)
TRACE_FIELD(trace_event_raw_sched_process_exec, pid, 12, 4)
TRACE_FIELD(trace_event_raw_sched_process_exec, old_pid, 16, 4)
TRACE_FIELD(trace_event_raw_sched_stat_template, comm, 8, 16)
TRACE_FIELD(trace_event_raw_sched_stat_template, pid, 24, 4)
TRACE_FIELD(trace_event_raw_sched_stat_template, delay, 32, 8)
TRACE_FIELD(trace_event_raw_sched_stat_runtime, comm, 8, 16)
TRACE_FIELD(trace_event_raw_sched_stat_runtime, pid, 24, 4)
TRACE_FIELD(trace_event_raw_sched_stat_runtime, runtime, 32, 8)
TRACE_FIELD(trace_event_raw_sched_stat_runtime, vruntime, 40, 8)
TRACE_FIELD(trace_event_raw_workqueue_queue_work, work, 8, 8)
TRACE_FIELD(trace_event_raw_workqueue_queue_work, function, 16, 8)
TRACE_FIELD(trace_event_raw_workqueue_queue_work, __data_loc_workqueue, 24, 4)
TRACE_FIELD(trace_event_raw_workqueue_queue_work, req_cpu, 28, 4)
TRACE_FIELD(trace_event_raw_workqueue_queue_work, cpu, 32, 4)
TRACE_FIELD(trace_event_raw_workqueue_activate_work, work, 8, 8)
TRACE_FIELD(trace_event_raw_workqueue_execute_start, work, 8, 8)
TRACE_FIELD(trace_event_raw_workqueue_execute_start, function, 16, 8)
TRACE_FIELD(trace_event_raw_workqueue_execute_end, work, 8, 8)
TRACE_FIELD(trace_event_raw_workqueue_execute_end, function, 16, 8)
TRACE_FIELD(trace_event_raw_signal_generate, sig, 8, 4)
TRACE_FIELD(trace_event_raw_signal_generate, errno, 12, 4)
TRACE_FIELD(trace_event_raw_signal_generate, code, 16, 4)
TRACE_FIELD(trace_event_raw_signal_generate, comm, 20, 16)
TRACE_FIELD(trace_event_raw_signal_generate, pid, 36, 4)
TRACE_FIELD(trace_event_raw_signal_generate, group, 40, 4)
TRACE_FIELD(trace_event_raw_signal_generate, result, 44, 4)
TRACE_FIELD(trace_event_raw_signal_deliver, sig, 8, 4)
TRACE_FIELD(trace_event_raw_signal_deliver, errno, 12, 4)
TRACE_FIELD(trace_event_raw_signal_deliver, code, 16, 4)
TRACE_FIELD(trace_event_raw_signal_deliver, sa_handler, 24, 8)
TRACE_FIELD(trace_event_raw_signal_deliver, sa_flags, 32, 8)
TRACE_FIELD(trace_event_raw_irq_handler_entry, irq, 8, 4)
TRACE_FIELD(trace_event_raw_irq_handler_entry, __data_loc_name, 12, 4)
TRACE_FIELD(trace_event_raw_irq_handler_exit, irq, 8, 4)
TRACE_FIELD(trace_event_raw_irq_handler_exit, ret, 12, 4)
TRACE_FIELD(trace_event_raw_softirq, vec, 8, 4)
TRACE_FIELD(trace_event_raw_task_newtask, pid, 8, 4)
TRACE_FIELD(trace_event_raw_task_newtask, comm, 12, 16)
TRACE_FIELD(trace_event_raw_task_newtask, clone_flags, 32, 8)
TRACE_FIELD(trace_event_raw_task_newtask, oom_score_adj, 40, 2)
TRACE_FIELD(trace_event_raw_task_rename, pid, 8, 4)
TRACE_FIELD(trace_event_raw_task_rename, oldcomm, 12, 16)
TRACE_FIELD(trace_event_raw_task_rename, newcomm, 28, 16)
TRACE_FIELD(trace_event_raw_task_rename, oom_score_adj, 44, 2)
TRACE_FIELD(trace_event_raw_x86_exceptions, address, 8, 8)
TRACE_FIELD(trace_event_raw_x86_exceptions, ip, 16, 8)
TRACE_FIELD(trace_event_raw_x86_exceptions, error_code, 24, 8)
TRACE_FIELD(trace_event_raw_x86_irq_vector, vector, 8, 4)
