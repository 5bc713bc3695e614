/*
 * bpf_types.h: types that are only in BTF, which BPF programs ask for by name: the records of events as
 * tracepoint programs get them, what perf_event programs get, and the types by which
 * programs find out what the kernel has.
 */
#define TRACE_FIELD(record, field, offset, size) \
	static_assert(offsetof(struct record, field) == offset && sizeof(((struct record *)0)->field) == size);
#if GUEST_LINUX >= 612
#include "records-6.12.h"
#else
#include "records-6.1.h"
#endif

/*
 * What programs for BPF are compiled with, by way of the vmlinux.h that bpftool makes of BTF: the types of
 * bpf(2) and of its programs' contexts, and the constants that are not macros.
 */
#undef false
#undef true
#undef IPPROTO_TCP
#undef IPPROTO_UDP
#undef SOCK_STREAM
#undef SOCK_DGRAM
#undef SOCK_RAW
#include "uapi.h"
#if GUEST_LINUX >= 612
#include "uapi-6.12.h"
#else
#include "uapi-6.1.h"
#endif

/* The context of a perf_event program. */
typedef struct pt_regs bpf_user_pt_regs_t;
struct bpf_perf_event_data {
	bpf_user_pt_regs_t regs;
	u64 sample_period;
	u64 addr;
};

/* What a ring buffer's map has: programs look whether the type is there. */
struct bpf_ringbuf {
	wait_queue_head_t waitq;
	u64 mask;
	struct page **pages;
	int nr_pages;
	unsigned long consumer_pos;
	unsigned long producer_pos;
	char data[];
};
