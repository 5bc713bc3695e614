/* bpfrate [-r] ring|perf BYTES RUNS: a program makes RUNS times 5000 records as fast as it can, in a ring buffer of BYTES
 * bytes or in the ring of an event, while a thread reads them. Says whether each of them came, in order, or was reported
 * as lost; -r adds how many there were, and how many a second. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long u64;
enum { EACH = 5000, PAGE = 4096 };

static char *control, *data; /* of the ring */
static u64 size, received, told, next;
static int ordered = 1, ended;

static int bpf(int cmd, union bpf_attr *a)
{
	return syscall(SYS_bpf, cmd, a, sizeof *a);
}

static void fail(const char *what)
{
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

static void number(u64 n)
{
	ordered &= n >= next;
	next = n + 1, received++;
}

static int read_ring(void)
{
	u64 *consumed = (u64 *)control, *produced = (u64 *)(data - PAGE), at = *consumed, end = __atomic_load_n(produced, __ATOMIC_ACQUIRE);
	int any = at != end;

	while (at < end) {
		unsigned *head = (unsigned *)(data + (at & (size - 1))), length = __atomic_load_n(head, __ATOMIC_ACQUIRE);

		if (length & BPF_RINGBUF_BUSY_BIT)
			break;
		number(*(u64 *)(head + 2));
		at += (length + 8 + 7) & ~7u;
		__atomic_store_n(consumed, at, __ATOMIC_RELEASE);
	}
	return any;
}

static void copy(void *to, u64 at, int n)
{
	for (int i = 0; i < n; i++)
		((char *)to)[i] = data[(at + i) & (size - 1)];
}

static int read_perf(void)
{
	struct perf_event_mmap_page *page = (void *)control;
	u64 at = page->data_tail, end = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), n;
	int any = at != end;

	while (at < end) {
		struct perf_event_header h;

		copy(&h, at, sizeof h);
		if (h.type == PERF_RECORD_LOST) {
			copy(&n, at + 16, 8);
			told += n;
		} else if (h.type == PERF_RECORD_SAMPLE) {
			copy(&n, at + 12, 8);
			number(n);
		}
		at += h.size;
	}
	__atomic_store_n(&page->data_tail, at, __ATOMIC_RELEASE);
	return any;
}

static int (*read_some)(void);

static void *reads(void *unused)
{
	for (;;) {
		int last = __atomic_load_n(&ended, __ATOMIC_ACQUIRE);

		if (!read_some() && last)
			return unused;
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int load(int map, int perf)
{
	struct bpf_insn begin[] = {
		{BPF_ALU64 | BPF_MOV | BPF_X, 6, 1, 0, 0}, {BPF_LDX | BPF_MEM | BPF_DW, 9, 6, 0, 0},
		{BPF_ALU64 | BPF_MOV | BPF_K, 7, 0, 0, 0}, {BPF_ALU64 | BPF_MOV | BPF_K, 8, 0, 0, 0},
		{BPF_ALU64 | BPF_MOV | BPF_X, 1, 9, 0, 0}, {BPF_ALU64 | BPF_ADD | BPF_X, 1, 7, 0, 0}, {BPF_STX | BPF_MEM | BPF_DW, 10, 1, -8, 0},
	}, ring[] = {
		{BPF_LD | BPF_IMM | BPF_DW, 1, BPF_PSEUDO_MAP_FD, 0, map}, {0, 0, 0, 0, 0},
		{BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0}, {BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -8},
		{BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, 8}, {BPF_ALU64 | BPF_MOV | BPF_K, 4, 0, 0, 0}, {BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_ringbuf_output},
	}, event[] = {
		{BPF_ALU64 | BPF_MOV | BPF_X, 1, 6, 0, 0}, {BPF_LD | BPF_IMM | BPF_DW, 2, BPF_PSEUDO_MAP_FD, 0, map}, {0, 0, 0, 0, 0},
		{BPF_ALU | BPF_MOV | BPF_K, 3, 0, 0, -1}, {BPF_ALU64 | BPF_MOV | BPF_X, 4, 10, 0, 0}, {BPF_ALU64 | BPF_ADD | BPF_K, 4, 0, 0, -8},
		{BPF_ALU64 | BPF_MOV | BPF_K, 5, 0, 0, 8}, {BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_perf_event_output},
	}, end[] = {
		{BPF_ALU64 | BPF_RSH | BPF_K, 0, 0, 0, 63}, {BPF_ALU64 | BPF_ADD | BPF_X, 8, 0, 0, 0}, {BPF_ALU64 | BPF_ADD | BPF_K, 7, 0, 0, 1},
		{BPF_JMP | BPF_JNE | BPF_K, 7, 0, perf ? -15 : -14, EACH}, {BPF_ALU64 | BPF_MOV | BPF_X, 0, 8, 0, 0}, {BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
	}, code[64];
	static char log[1 << 20];
	union bpf_attr a;
	int n = 0, fd;

	for (unsigned i = 0; i < sizeof begin / sizeof *begin; i++)
		code[n++] = begin[i];
	for (unsigned i = 0; i < (perf ? sizeof event : sizeof ring) / sizeof *ring; i++)
		code[n++] = perf ? event[i] : ring[i];
	for (unsigned i = 0; i < sizeof end / sizeof *end; i++)
		code[n++] = end[i];
	memset(&a, 0, sizeof a);
	a.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT, a.insns = (unsigned long)code, a.insn_cnt = n, a.license = (unsigned long)"GPL";
	a.log_level = 4, a.log_size = sizeof log, a.log_buf = (unsigned long)log;
	fd = bpf(BPF_PROG_LOAD, &a);
	if (fd < 0)
		fail(log);
	return fd;
}

static int open_ring(int bytes)
{
	union bpf_attr a;
	int map;

	memset(&a, 0, sizeof a);
	a.map_type = BPF_MAP_TYPE_RINGBUF, a.max_entries = size = bytes;
	map = bpf(BPF_MAP_CREATE, &a);
	if (map < 0)
		fail("map");
	control = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
	data = mmap(NULL, PAGE + 2 * bytes, PROT_READ, MAP_SHARED, map, PAGE);
	if (control == MAP_FAILED || data == MAP_FAILED)
		fail("mmap");
	data += PAGE;
	read_some = read_ring;
	return map;
}

static int open_perf(int bytes)
{
	struct perf_event_attr p;
	union bpf_attr a;
	int map, fd, key = 0;

	memset(&a, 0, sizeof a);
	a.map_type = BPF_MAP_TYPE_PERF_EVENT_ARRAY, a.key_size = a.value_size = 4, a.max_entries = 1;
	map = bpf(BPF_MAP_CREATE, &a);
	memset(&p, 0, sizeof p);
	p.size = sizeof p, p.type = PERF_TYPE_SOFTWARE, p.config = PERF_COUNT_SW_BPF_OUTPUT, p.sample_type = PERF_SAMPLE_RAW, p.sample_period = 1;
	fd = syscall(SYS_perf_event_open, &p, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (map < 0 || fd < 0)
		fail("event");
	control = mmap(NULL, PAGE + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (control == MAP_FAILED)
		fail("mmap");
	data = control + PAGE, size = bytes;
	memset(&a, 0, sizeof a);
	a.map_fd = map, a.key = (unsigned long)&key, a.value = (unsigned long)&fd;
	if (bpf(BPF_MAP_UPDATE_ELEM, &a))
		fail("update");
	read_some = read_perf;
	return map;
}

static u64 run(int prog, u64 base)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.test.prog_fd = prog, a.test.ctx_in = (unsigned long)&base, a.test.ctx_size_in = 8, a.test.flags = BPF_F_TEST_RUN_ON_CPU;
	if (bpf(BPF_PROG_TEST_RUN, &a))
		fail("run");
	return a.test.retval;
}

int main(int argc, char **argv)
{
	int rate = argc > 1 && !strcmp(argv[1], "-r"), perf, runs, prog;
	u64 lost = 0, made = 0;
	double began, took;
	pthread_t reader;

	argv += rate;
	perf = !strcmp(argv[1], "perf"), runs = atoi(argv[3]);
	prog = load(perf ? open_perf(atoi(argv[2])) : open_ring(atoi(argv[2])), perf);
	pthread_create(&reader, NULL, reads, NULL);
	began = now();
	for (; made < (u64)runs * EACH; made += EACH)
		lost += run(prog, made);
	took = now() - began;
	ended = 1;
	pthread_join(reader, NULL);
	if (perf && lost > told) { /* a loss is told with the next record that has room */
		ended = 0;
		pthread_create(&reader, NULL, reads, NULL);
		lost += run(prog, made);
		made += EACH;
		ended = 1;
		pthread_join(reader, NULL);
	}
	printf("received and lost are all: %s, in order: %s\n", received + lost == made ? "yes" : "no", ordered ? "yes" : "no");
	if (perf)
		printf("losses are told: %s\n", told <= lost && lost - told <= EACH ? "yes" : "no");
	if (rate)
		printf("%llu made, %llu received, %llu lost, %llu told; %.0f made a second\n", made, received, lost, told, made / took);
	return 0;
}
