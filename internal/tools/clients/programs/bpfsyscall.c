/* bpfsyscall: programs of type SYSCALL, which BPF_PROG_TEST_RUN runs, and sleepable ones. For each case it prints the errno, or
 * what the program has returned, and the last line of the verifier's log. */
#define _GNU_SOURCE
#include "bpfcalls.h"
#include <fcntl.h>
#include <stdlib.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>

/* A frozen map that programs only read, with a string. */
static int create_frozen(const char *s, int size)
{
	int fd = map(BPF_MAP_TYPE_ARRAY, 4, size, 1, BPF_F_RDONLY_PROG), key = 0;

	update(fd, &key, s);
	one(BPF_MAP_FREEZE, fd, NULL, NULL);
	return fd;
}

static int load_of(const char *name, int type, int flags)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.prog_type = type, a.prog_flags = flags;
	return load_as(name, &a);
}

static int syscall_of(const char *name) { return load_of(name, BPF_PROG_TYPE_SYSCALL, BPF_F_SLEEPABLE); }

static int run(union bpf_attr *a)
{
	return bpf(BPF_PROG_TEST_RUN, a) ? -1000 - errno : (int)a->test.retval;
}

static void runs_with(const char *name, int fd, void *ctx, int size)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.test.prog_fd = fd, a.test.ctx_in = (unsigned long)ctx, a.test.ctx_size_in = size;
	printf("%s returns: %d\n", name, run(&a));
}

static void runs(const char *name, int fd) { runs_with(name, fd, NULL, 0); }

/* Attaches a program to a kprobe of perf_event_open(2), by ioctl(2) and by a link, and updates and detaches that. */
static void attached(const char *name, int fd)
{
	struct perf_event_attr p;
	union bpf_attr a;
	int event, link, type = 0;
	FILE *f = fopen("/sys/bus/event_source/devices/kprobe/type", "r");

	if (!f || fscanf(f, "%d", &type) != 1)
		perror("type");
	memset(&p, 0, sizeof p);
	p.size = sizeof p, p.type = type, p.config1 = (unsigned long)"vfs_read";
	event = syscall(SYS_perf_event_open, &p, -1, 0, -1, 0);
	printf("%s, ioctl: %d\n", name, ioctl(event, PERF_EVENT_IOC_SET_BPF, fd) ? errno : 0);
	close(event);
	event = syscall(SYS_perf_event_open, &p, -1, 0, -1, 0);
	memset(&a, 0, sizeof a);
	a.link_create.prog_fd = fd, a.link_create.target_fd = event, a.link_create.attach_type = BPF_PERF_EVENT;
	link = bpf(BPF_LINK_CREATE, &a);
	printf("%s, link: %d\n", name, link < 0 ? errno : 0);
	for (int i = 0; i < 7; i++) {
		static const char *const what[] = {"update", "update with a flag", "update with another flag", "update of the old program", "update of a program", "update by a link", "detach"};

		memset(&a, 0, sizeof a);
		a.link_update.link_fd = i == 4 ? fd : link, a.link_update.new_prog_fd = i == 5 ? link : fd;
		if (i == 1 || i == 3)
			a.link_update.flags = BPF_F_REPLACE;
		if (i == 2)
			a.link_update.flags = 1;
		if (i == 3)
			a.link_update.old_prog_fd = fd;
		if (i == 6)
			memset(&a, 0, sizeof a), a.link_detach.link_fd = link;
		printf("%s, %s: %d\n", name, what[i], bpf(i == 6 ? BPF_LINK_DETACH : BPF_LINK_UPDATE, &a) ? errno : 0);
	}
	memset(&a, 0, sizeof a);
	a.link_update.link_fd = link, a.link_update.new_prog_fd = fd, a.link_update.old_prog_fd = fd;
	printf("%s, an old program without the flag: %d\n", name, bpf(BPF_LINK_UPDATE, &a) ? errno : 0);
	memset(&a, 0, sizeof a);
	a.link_detach.link_fd = fd;
	printf("%s, detach of a program: %d\n", name, bpf(BPF_LINK_DETACH, &a) ? errno : 0);
	close(link), close(event);
}

static void programs(void)
{
	struct { long a, b; } ctx = {5, 7}, big[5000 / 16];
	union bpf_attr a;
	int fd, other, key = 0;
	long v = 42, w = 0;

	returns(7);
	load_of("not sleepable", BPF_PROG_TYPE_SYSCALL, 0);
	returns(7);
	fd = syscall_of("sleepable");
	runs("sleepable", fd);
	runs_with("with a context", fd, &ctx, sizeof ctx);
	runs_with("with a large one", fd, big, sizeof big);
	runs_with("without its address", fd, NULL, 8);
	runs_with("at no address", fd, (void *)8, 8);
	for (int i = 0; i < 9; i++) {
		static const char *const what[] = {"data", "data out", "repeat", "flags", "cpu", "batch size", "context out", "duration", "data size"};

		memset(&a, 0, sizeof a);
		a.test.prog_fd = fd, a.test.ctx_in = (unsigned long)&ctx, a.test.ctx_size_in = sizeof ctx;
		switch (i) {
		case 0: a.test.data_in = (unsigned long)&ctx, a.test.data_size_in = 16; break;
		case 1: a.test.data_out = (unsigned long)&ctx, a.test.data_size_out = 16; break;
		case 2: a.test.repeat = 1; break;
		case 3: a.test.flags = 1; break;
		case 4: a.test.cpu = 1; break;
		case 5: a.test.batch_size = 1; break;
		case 6: a.test.ctx_out = (unsigned long)&ctx, a.test.ctx_size_out = 16; break;
		case 7: a.test.duration = 1; break;
		case 8: a.test.data_size_in = 16; break;
		}
		printf("%s: %d\n", what[i], run(&a));
	}
	put(BPF_LDX | BPF_MEM | BPF_DW, 0, 1, 0, 0);
	put(BPF_LDX | BPF_MEM | BPF_DW, 2, 1, 8, 0);
	put(BPF_ADD | BPF_ALU64 | BPF_X, 0, 2, 0, 0);
	put(BPF_STX | BPF_MEM | BPF_DW, 1, 0, 8, 0);
	put(BPF_STX | BPF_MEM | BPF_H, 1, 2, 4, 0);
	exits();
	fd = syscall_of("reads and writes the context");
	runs_with("the sum", fd, &ctx, sizeof ctx);
	printf("%lx %lx\n", ctx.a, ctx.b);
	runs_with("a context that is too small", fd, &ctx, 8);
	runs("no context", fd);
	put(BPF_ST | BPF_MEM | BPF_W, 1, 0, 4, 9), returns(0);
	syscall_of("writes a constant to the context");
	number(2, 1), put(BPF_STX | BPF_ATOMIC | BPF_DW, 1, 2, 0, BPF_ADD), returns(0);
	syscall_of("adds to the context");
	put(BPF_LDX | BPF_MEM | BPF_DW, 0, 1, 70, 0), exits();
	syscall_of("not aligned");
	put(BPF_LDX | BPF_MEM | BPF_B, 0, 1, 71, 0), exits();
	syscall_of("a byte");
	put(BPF_LDX | BPF_MEM | BPF_DW, 0, 1, -8, 0), exits();
	syscall_of("before it");
	put(BPF_LDX | BPF_MEM | BPF_DW, 0, 1, 32000, 0), exits();
	syscall_of("far behind it");
	put(BPF_ADD | BPF_ALU64 | BPF_K, 1, 0, 0, 8);
	put(BPF_LDX | BPF_MEM | BPF_DW, 0, 1, 0, 0), exits();
	fd = syscall_of("in the middle of it");
	ctx.b = 3;
	runs_with("in the middle of it", fd, &ctx, sizeof ctx);

	/* bpf(2) by the program, with an attr on its stack. */
	other = map(BPF_MAP_TYPE_HASH, 4, 8, 4, 0);
	for (int i = 0; i < 10; i++) {
		static const struct { const char *name; int cmd, flags, size, last; } t[] = {
			{"deletes nothing", BPF_MAP_DELETE_ELEM, 0, 32, 0}, {"updates", BPF_MAP_UPDATE_ELEM, 0, 32, 0}, {"updates what does not exist", BPF_MAP_UPDATE_ELEM, BPF_NOEXIST, 32, 0},
			{"looks up", BPF_MAP_LOOKUP_ELEM, 0, 32, 0}, {"asks for the next", BPF_MAP_GET_NEXT_KEY, 0, 32, 0}, {"deletes", BPF_MAP_DELETE_ELEM, 0, 24, 0},
			{"with a field too many", BPF_MAP_DELETE_ELEM, 0, 40, 1}, {"runs a program", BPF_PROG_TEST_RUN, 0, 32, 0}, {"freezes", BPF_MAP_FREEZE, 0, 4, 0}, {"updates what is frozen", BPF_MAP_UPDATE_ELEM, 0, 32, 0},
		};

		put(BPF_LDX | BPF_MEM | BPF_DW, 7, 1, 0, 0);
		put(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, 1);
		put(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -16, 99);
		put(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -24, t[i].last);
		put(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -32, t[i].flags);
		stack(1, -16);
		if (t[i].cmd != BPF_MAP_UPDATE_ELEM && !t[i].last)
			number(1, 0); /* the other commands have no value */
		put(BPF_STX | BPF_MEM | BPF_DW, 10, 1, -40, 0);
		stack(1, -4);
		put(BPF_STX | BPF_MEM | BPF_DW, 10, 1, -48, 0);
		put(BPF_STX | BPF_MEM | BPF_DW, 10, 7, -56, 0);
		number(1, t[i].cmd), stack(2, -56), number(3, t[i].size), call(BPF_FUNC_sys_bpf), exits();
		fd = syscall_of(t[i].name);
		memset(&a, 0, sizeof a);
		v = other;
		runs_with(t[i].name, fd, &v, 8);
		key = 1, w = 0;
		printf("  find: %d", one(BPF_MAP_LOOKUP_ELEM, other, &key, &w) ? errno : 0);
		printf(" %ld\n", w);
	}
	/* Of user space's memory. */
	put(BPF_LDX | BPF_MEM | BPF_DW, 3, 1, 0, 0);
	stack(1, -8), number(2, 8), call(BPF_FUNC_copy_from_user);
	put(BPF_LDX | BPF_MEM | BPF_DW, 1, 10, -8, 0);
	put(BPF_ADD | BPF_ALU64 | BPF_X, 0, 1, 0, 0);
	exits();
	fd = syscall_of("copies of user space");
	v = 1234, w = (long)&v;
	runs_with("copies of user space", fd, &w, 8);
	w = 8;
	runs_with("copies of nothing", fd, &w, 8);
	stack(1, -8), number(2, 8), number(3, 0), call(BPF_FUNC_copy_from_user), exits();
	load_of("a kprobe that copies", BPF_PROG_TYPE_KPROBE, 0);
	stack(1, -8), number(2, 8), number(3, 0), call(BPF_FUNC_copy_from_user), exits();
	load_of("a sleepable kprobe that copies", BPF_PROG_TYPE_KPROBE, BPF_F_SLEEPABLE);
	returns(0);
	attached("a sleepable kprobe", load_of("a sleepable kprobe", BPF_PROG_TYPE_KPROBE, BPF_F_SLEEPABLE));
	returns(0);
	attached("a kprobe", load_of("a kprobe", BPF_PROG_TYPE_KPROBE, 0));
	number(2, 0), call(BPF_FUNC_override_return), returns(0);
	load_of("a kprobe that overrides what a function returns", BPF_PROG_TYPE_KPROBE, 0);
	returns(0);
	load_of("a sleepable tracepoint", BPF_PROG_TYPE_TRACEPOINT, BPF_F_SLEEPABLE);
	for (int i = 0; i < 9; i++) {
		static const struct { int type, key, value, entries, flags; } t[] = {
			{BPF_MAP_TYPE_HASH, 4, 8, 4, 0}, {BPF_MAP_TYPE_HASH, 4, 8, 4, BPF_F_NO_PREALLOC}, {BPF_MAP_TYPE_PERCPU_ARRAY, 4, 8, 4, 0}, {BPF_MAP_TYPE_QUEUE, 0, 8, 4, 0},
			{BPF_MAP_TYPE_STACK_TRACE, 4, 8, 4, 0}, {BPF_MAP_TYPE_RINGBUF, 0, 0, 4096, 0}, {BPF_MAP_TYPE_BLOOM_FILTER, 0, 8, 4, 0}, {BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, 4, 0},
			{BPF_MAP_TYPE_STACK, 0, 8, 4, 0},
		};

		pointer(2, map(t[i].type, t[i].key, t[i].value, t[i].entries, t[i].flags)), returns(0);
		printf("map type %d: ", t[i].type);
		syscall_of("in a sleepable program");
	}
	copy(2, 1), number(1, 0), number(3, 16), call(BPF_FUNC_sys_bpf), exits();
	load_of("from a kprobe", BPF_PROG_TYPE_KPROBE, 0);
	number(1, 0), number(2, 0), number(3, 16), call(BPF_FUNC_sys_bpf), exits();
	syscall_of("without an attr");
	number(1, 2), copy(6, 1);
	call(BPF_FUNC_ktime_get_ns);
	copy(0, 6), exits();
	runs("the time", syscall_of("the time"));
	returns(0);
	load_of("without a license", BPF_PROG_TYPE_SYSCALL, BPF_F_SLEEPABLE | 1 << 10);

	/* Names of the kernel. */
	static char name[] = "vfs_read", none[] = "no_such_function";
	for (int i = 0; i < 2; i++) {
		fd = create_frozen(i ? none : name, i ? sizeof none : sizeof name);
		value(1, fd, 0), number(2, i ? sizeof none : sizeof name), number(3, 0), stack(4, -8);
		put(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -8, 0);
		call(BPF_FUNC_kallsyms_lookup_name);
		put(BPF_JMP | BPF_JNE | BPF_K, 0, 0, 3, 0);
		put(BPF_LDX | BPF_MEM | BPF_DW, 0, 10, -8, 0);
		put(BPF_RSH | BPF_ALU64 | BPF_K, 0, 0, 0, 32);
		exits();
		exits();
		runs("a function's address", syscall_of("a function's address"));
	}
}

int main(void)
{
	programs();
	return 0;
}
