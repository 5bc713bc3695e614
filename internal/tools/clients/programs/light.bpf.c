/* The program of light.lskel.h: clang -O2 -g -target bpf -c light.bpf.c -o light.o && bpftool gen skeleton -L light.o name light */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

const volatile int who = -1;
long hits, other = 7;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, int);
	__type(value, long);
} seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, int);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(max_entries, 1);
		__type(key, int);
		__type(value, long);
	});
} outer SEC(".maps");

static long add(long n) { return n + other; }

SEC("fentry/do_sys_openat2")
int BPF_PROG(opens, int dfd, const char *name)
{
	int key = dfd, zero = 0;
	long one = 1, *v;

	if (bpf_get_current_pid_tgid() >> 32 != who)
		return 0;
	hits = add(hits);
	v = bpf_map_lookup_elem(&seen, &key);
	if (v)
		*v += 1;
	else
		bpf_map_update_elem(&seen, &key, &one, BPF_ANY);
	bpf_map_lookup_elem(&outer, &zero);
	return 0;
}

SEC("raw_tp/sys_enter")
int enters(struct bpf_raw_tracepoint_args *ctx)
{
	if (bpf_get_current_pid_tgid() >> 32 == who && ctx->args[1] == 257)
		hits += 1000;
	return 0;
}
