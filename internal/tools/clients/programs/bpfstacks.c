/* bpfstacks: what programs get of the stack of user space, and of its registers, when calls hit them that a program makes by
 * functions with frame pointers, and with frame pointers that lead astray. */
#define _GNU_SOURCE
#pragma GCC optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")
#include "bpfattach.h"
#include "bpfkernel.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

enum { FRAMES = 127, ROOM = FRAMES + 8, LARGE = ROOM * 8 };

struct result {
	unsigned long long pid;	/* whose hits count, 0 after the first one */
	long long ret;
	unsigned long long ip, sp, bp;
	unsigned long long stack[ROOM];
};

static int the_map;

static void ask(struct result *r)
{
	int key = 0;

	memset(r, 0, sizeof *r);
	one(BPF_MAP_LOOKUP_ELEM, the_map, &key, r);
}

static void begin(int pid)
{
	static struct result r;
	int key = 0;

	memset(&r, 0xff, sizeof r);
	r.pid = pid;
	update(the_map, &key, &r);
}

/* A call whose registers are known: rbp is the last argument. The number is not a constant. */
long call_with(long nr, long a, long b, long c, unsigned long bp);
extern char called[];
unsigned long called_sp;
asm(".text\n.globl call_with\n.type call_with, @function\ncall_with:\n.cfi_startproc\n"
    "push %rbp\n.cfi_adjust_cfa_offset 8\n"
    "mov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov %rcx, %rdx\nmov %r8, %rbp\nmov %rsp, called_sp(%rip)\n"
    "syscall\n.globl called\ncalled:\nnop\nnop\nnop\n"
    "pop %rbp\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size call_with, .-call_with\n");

/* The same with a constant. */
extern char asked[];
long ask_parent(void);
unsigned long asked_sp, asked_bp;
asm(".text\n.globl ask_parent\n.type ask_parent, @function\nask_parent:\n.cfi_startproc\n"
    "push %rbp\n.cfi_adjust_cfa_offset 8\nmov %rsp, %rbp\nmov %rsp, asked_sp(%rip)\nmov %rbp, asked_bp(%rip)\n"
    "mov $110, %eax\nsyscall\n.globl asked\nasked:\nnop\nnop\n"
    "pop %rbp\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size ask_parent, .-ask_parent\n");

#define FRAMED __attribute__((noinline, noclone, section(".text")))

typedef long (*does)(void);

static does innermost;

long FRAMED inner(void) { return innermost() + 1; }
long FRAMED middle(void) { return inner() + 1; }
long FRAMED outer(void) { return middle() + 1; }
long FRAMED deep(int n) { return n ? deep(n - 1) + 1 : innermost() + 1; }

/* The calls, each from a frame of its own. */
static int zero_fd;
#define CALL(name, what) static long FRAMED name(void) { long r = what; asm volatile("" : : : "memory"); return r; }
CALL(own_read, call_with(SYS_read, zero_fd, (long)text, 1, (unsigned long)__builtin_frame_address(0)))
CALL(own_openat, call_with(SYS_openat, AT_FDCWD, (long)"/none", O_RDONLY, (unsigned long)__builtin_frame_address(0)))
CALL(own_unlinkat, call_with(SYS_unlinkat, AT_FDCWD, (long)"/none", 0, (unsigned long)__builtin_frame_address(0)))
CALL(own_access, call_with(SYS_access, (long)"/none", F_OK, 0, (unsigned long)__builtin_frame_address(0)))
CALL(library_read, read(zero_fd, text, 1))
CALL(library_open, open("/none", O_RDONLY))
CALL(library_unlink, unlink("/none"))
CALL(library_syscall, syscall(SYS_getppid))
CALL(parent, ask_parent())

static long FRAMED own_nanosleep(void)
{
	struct timespec t = {0, 1000};

	return call_with(SYS_nanosleep, (long)&t, 0, 0, (unsigned long)__builtin_frame_address(0));
}

static const struct { const char *name; const void *at; } functions[] = {
	{"call_with", call_with}, {"ask_parent", ask_parent}, {"inner", inner}, {"middle", middle}, {"outer", outer}, {"deep", deep},
	{"own_read", own_read}, {"own_openat", own_openat}, {"own_unlinkat", own_unlinkat}, {"own_access", own_access},
	{"library_read", library_read}, {"library_open", library_open}, {"library_unlink", library_unlink}, {"library_syscall", library_syscall}, {"parent", parent},
	{"own_nanosleep", own_nanosleep},
};

static unsigned long nameless;	/* memory without a file */
static const void *libc;	/* a function of it */
static unsigned long marked[8];	/* what the frames have that the program has made */

static const char *name_of(unsigned long ip)
{
	extern char etext[], __executable_start[];
	const char *name = "?";
	unsigned long best = 200;
	static char number[32];
	unsigned i;

	if (ip == (unsigned long)called || ip == (unsigned long)asked)
		return "CALL";
	for (i = 0; i < sizeof functions / sizeof *functions; i++)
		if (ip - (unsigned long)functions[i].at < best)
			best = ip - (unsigned long)functions[i].at, name = functions[i].name;
	if (best < 200)
		return name;
	if (ip >= (unsigned long)__executable_start && ip < (unsigned long)etext)
		return "the program";
	if (nameless && ip == nameless)
		return "memory";
	for (i = 0; i < sizeof marked / sizeof *marked; i++)
		if (marked[i] && marked[i] == ip) {
			snprintf(number, sizeof number, "%#lx", ip);
			return number;
		}
	if (ip - (unsigned long)libc + (2 << 20) < 4 << 20)
		return "a library";
	return "?";
}

/* The names of the first frames, a run of the same one with its length. */
static void print(const unsigned long long *ips, int count)
{
	int i, j, runs = 0;

	for (i = 0; i < count && runs++ < 8; i = j) {
		const char *name = name_of(ips[i]);
		char was[32];

		snprintf(was, sizeof was, "%s", name);
		for (j = i + 1; j < count && !strcmp(name_of(ips[j]), was); j++)
			;
		printf(j - i > 1 ? " %s*%d" : " %s", was, j - i);
		if (!strcmp(was, "the program"))	/* main */
			break;
	}
	printf("\n");
}

static void element(int reg, int at) { value(reg, the_map, at); }

enum { STACK, STACKID, TASK, REGS };	/* what a program asks for */

/* A program that asks once in a process. */
static int program(int type, int what, int flags, int size, int stacks)
{
	int skips[2], k = 0;

	n = 0;
	copy(9, 1);
	call(BPF_FUNC_get_current_pid_tgid);
	copy(8, 0);
	put(BPF_ALU64 | BPF_RSH | BPF_K, 8, 0, 0, 32);
	element(6, 0);
	put(BPF_LDX | BPF_MEM | BPF_DW, 7, 6, 0, 0);
	skips[k++] = n, put(BPF_JMP | BPF_JNE | BPF_X, 8, 7, 0, 0);
	put(BPF_ST | BPF_MEM | BPF_DW, 6, 0, 0, 0);
	switch (what) {
	case STACK:
		copy(1, 9), element(2, 40), number(3, size), number(4, flags), call(BPF_FUNC_get_stack);
		break;
	case STACKID:
		copy(1, 9), pointer(2, stacks), number(3, flags), call(BPF_FUNC_get_stackid);
		break;
	case TASK:
		call(BPF_FUNC_get_current_task_btf), copy(1, 0), element(2, 40), number(3, size), number(4, flags), call(BPF_FUNC_get_task_stack);
		break;
	case REGS:
		call(BPF_FUNC_get_current_task_btf), copy(1, 0), call(BPF_FUNC_task_pt_regs), copy(9, 0);
		put(BPF_LDX | BPF_MEM | BPF_DW, 1, 9, 128, 0), put(BPF_STX | BPF_MEM | BPF_DW, 6, 1, 16, 0);
		put(BPF_LDX | BPF_MEM | BPF_DW, 1, 9, 152, 0), put(BPF_STX | BPF_MEM | BPF_DW, 6, 1, 24, 0);
		put(BPF_LDX | BPF_MEM | BPF_DW, 1, 9, 32, 0), put(BPF_STX | BPF_MEM | BPF_DW, 6, 1, 32, 0);
		number(0, 0);
		break;
	}
	put(BPF_STX | BPF_MEM | BPF_DW, 6, 0, 8, 0);
	while (k)
		k--, prog[skips[k]].off = n - skips[k] - 1;
	returns(0);
	return loaded(type, 0);
}

static struct result got;

/* What a call makes of the program that is attached. */
static void hit(const char *name, does chain)
{
	begin(getpid());
	chain();
	ask(&got);
	printf("%s: %lld%s", name, got.ret, got.pid ? ", no hit" : "");
	print(got.stack, got.ret > 0 ? got.ret / 8 : 0);
}

static void at(const char *name, const char *function, int returns, does call)
{
	int fd = program(BPF_PROG_TYPE_KPROBE, STACK, BPF_F_USER_STACK, LARGE - 64, 0), event;

	event = probe(function, 0, returns, fd);
	innermost = call;
	hit(name, outer);
	close(event), close(fd);
}

/* Frame pointers. */
static unsigned long astray;
static long FRAMED follow(void) { return call_with(SYS_getppid, 0, 0, 0, astray); }

static void frame(const char *name, void *bp)
{
	astray = (unsigned long)bp;
	hit(name, follow);
}

static void hostile(void)
{
	static unsigned long f[64] __attribute__((aligned(64)));
	char *three = mmap(NULL, 3 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *untouched = mmap(NULL, 1 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *loose = (char *)f + 1;
	unsigned long *edge, below[2];
	int fd = program(BPF_PROG_TYPE_RAW_TRACEPOINT, STACK, BPF_F_USER_STACK, LARGE - 64, 0), link = raw("sys_enter", fd);

	marked[0] = 0x1111, marked[1] = 0x2222, marked[2] = 0xffffffff81000000, marked[3] = 0xdead000000000000, marked[4] = ~0ul;
	frame("no frame", NULL);
	frame("frame 1", (void *)1);
	frame("the kernel's memory", (void *)0xffffffff81000000);
	frame("no address", (void *)0x8000000000000000);
	frame("the last page", (void *)0x7ffffffff000);
	frame("before the last page", (void *)0x7fffffffeff8);
	frame("the end", (void *)-8);
	f[0] = (unsigned long)f, f[1] = 0x1111;
	frame("a loop", f);
	f[2] = (unsigned long)f, f[3] = 0x2222, f[0] = (unsigned long)(f + 2);
	frame("a loop of two", f);
	f[0] = 0;
	frame("one frame", f);
	f[1] = 0;
	frame("it returns nowhere", f);
	f[0] = (unsigned long)(f + 4), f[4] = 0, f[5] = 0x2222;
	frame("from nowhere to another", f);
	f[1] = 0xffffffff81000000;
	frame("it returns into the kernel", f);
	f[1] = 0xdead000000000000;
	frame("to no address", f);
	f[1] = ~0ul;
	frame("to the last", f);
	f[1] = 0x1111, f[0] = 0xffffffff81000000;
	frame("on to the kernel's memory", f);
	memcpy(loose, (unsigned long[]){(unsigned long)(loose + 17), 0x1111}, 16);
	memcpy(loose + 17, (unsigned long[]){0, 0x2222}, 16);
	frame("not aligned", loose);
	f[0] = 0, f[1] = 0x2222;
	below[0] = (unsigned long)f, below[1] = 0x1111;
	frame("back and forth", below);
	frame("memory that was not touched", untouched);
	munmap(untouched, 1 << 12);
	frame("memory that is gone", untouched);
	memset(three, 0, 3 << 12);
	edge = (unsigned long *)(three + (1 << 12) - 8);
	edge[0] = 0, edge[1] = 0x1111;
	frame("over the edge of a page", edge);
	edge = (unsigned long *)(three + (2 << 12) - 8);
	edge[0] = 0, edge[1] = 0x1111;
	mprotect(three + (2 << 12), 1 << 12, PROT_NONE);
	frame("over the edge of what can be read", edge);
	munmap(three + (2 << 12), 1 << 12);
	frame("over the edge of what is mapped", edge);
	frame("to the edge", edge - 1);
	close(link), close(fd);
}

static long deep_200(void) { return deep(200); }
static long deep_20(void) { return deep(20); }

static void *other_thread(void *call)
{
	innermost = call;
	hit("a thread", outer);
	return NULL;
}

static void flags(void)
{
	static const struct { const char *name; int what, flags, size; } all[] = {
		{"all", STACK, 0, LARGE}, {"two frames", STACK, 0, 16}, {"none", STACK, 0, 0}, {"half a frame", STACK, 0, 12},
		{"skip 2", STACK, 2, LARGE}, {"skip 22", STACK, 22, LARGE}, {"skip 255", STACK, 255, LARGE}, {"skip 2, two frames", STACK, 2, 16}, {"a flag", STACK, BPF_F_FAST_STACK_CMP, LARGE},
		{"a task's", TASK, 0, LARGE}, {"a task's, skip 2", TASK, 2, LARGE}, {"a task's, two frames", TASK, 0, 16},
	};
	unsigned i;

	for (i = 0; i < sizeof all / sizeof *all; i++) {
		int fd = program(BPF_PROG_TYPE_RAW_TRACEPOINT, all[i].what, all[i].flags | BPF_F_USER_STACK, all[i].size, 0), link = raw("sys_enter", fd);

		innermost = ask_parent;
		hit(all[i].name, deep_20);
		close(link), close(fd);
	}
}

static void ids(void)
{
	static const struct { const char *name; int depth, flags; does call; } all[] = {
		{"ids", 127, 0, deep_20}, {"of all frames", 127, 0, deep_200}, {"of 4 frames", 4, 0, deep_20}, {"that skips 3", 127, 3, deep_20}, {"that skips 3, of 4", 4, 3, deep_20},
		{"that skips all", 127, 255, deep_20}, {"that compares fast", 127, BPF_F_FAST_STACK_CMP, deep_20}, {"another flag", 127, BPF_F_USER_BUILD_ID, deep_20},
	};
	static unsigned long long ips[ROOM];
	unsigned i;

	for (i = 0; i < sizeof all / sizeof *all; i++) {
		int stacks = map(BPF_MAP_TYPE_STACK_TRACE, 4, all[i].depth * 8, 16, 0), k, count;
		int fd = program(BPF_PROG_TYPE_RAW_TRACEPOINT, STACKID, all[i].flags | BPF_F_USER_STACK, 0, stacks), link = raw("sys_enter", fd);
		long long first;

		innermost = ask_parent;
		begin(getpid());
		all[i].call();
		ask(&got);
		first = got.ret;
		begin(getpid());
		all[i].call();
		ask(&got);
		printf("%s: %lld, %d:", all[i].name, first < 0 ? first : 0, got.ret == first);
		k = first, count = 0;
		memset(ips, 0, sizeof ips);
		if (first >= 0 && !one(BPF_MAP_LOOKUP_ELEM, stacks, &k, ips))
			while (count < all[i].depth && ips[count])
				count++;
		printf(" %d", count);
		print(ips, count);
		close(link), close(fd), close(stacks);
	}
}

static void registers(void)
{
	int fd = program(BPF_PROG_TYPE_RAW_TRACEPOINT, REGS, 0, 0, 0), link = raw("sys_enter", fd);

	begin(getpid());
	ask_parent();
	ask(&got);
	printf("registers: %d, ip %d, sp %d, bp %d\n", got.pid == 0, got.ip == (unsigned long)asked, got.sp == asked_sp, got.bp == asked_bp);
	begin(getpid());
	call_with(SYS_getppid, 0, 0, 0, 0x1234);
	ask(&got);
	printf("of a call whose number is no constant: %d, ip %d, sp %d, bp %#llx\n", got.pid == 0, got.ip == (unsigned long)called, got.sp == called_sp, got.bp);
	close(link), close(fd);
	fd = program(BPF_PROG_TYPE_KPROBE, REGS, 0, 0, 0), link = probe("vfs_read", 0, 1, fd);
	begin(getpid());
	call_with(SYS_read, zero_fd, (long)text, 1, 0x4321);
	ask(&got);
	printf("at a return: %d, ip %d, sp %d, bp %#llx\n", got.pid == 0, got.ip == (unsigned long)called, got.sp == called_sp, got.bp);
	close(link), close(fd);
}

/* What programs read of user space's memory by addresses that the call does not have as arguments. */
static void memory(void)
{
	static struct { const char *text; unsigned long number; } of = {"a text", 0x1234};
	static unsigned long missing[8192] __attribute__((aligned(4096)));
	struct { long sp, kernel, ret; const char *text; unsigned long number; char copy[16]; long absent; } *v = (void *)got.stack;
	union bpf_attr a;
	int fd, link;

	n = 0;
	call(BPF_FUNC_get_current_pid_tgid), put(BPF_ALU64 | BPF_RSH | BPF_K, 0, 0, 0, 32), element(6, 0);
	put(BPF_LDX | BPF_MEM | BPF_DW, 7, 6, 0, 0), put(BPF_JMP | BPF_JEQ | BPF_X, 0, 7, 2, 0), returns(0);
	put(BPF_ST | BPF_MEM | BPF_DW, 6, 0, 0, 0);
	call(BPF_FUNC_get_current_task_btf), copy(1, 0), call(BPF_FUNC_task_pt_regs), copy(9, 0);
	element(1, 40), number(2, 8), put(BPF_LDX | BPF_MEM | BPF_DW, 3, 9, 152, 0), call(BPF_FUNC_probe_read_user);
	put(BPF_STX | BPF_MEM | BPF_DW, 6, 0, 8, 0);
	element(1, 48), number(2, 8), put(BPF_LDX | BPF_MEM | BPF_DW, 3, 9, 152, 0), call(BPF_FUNC_probe_read_kernel);
	put(BPF_STX | BPF_MEM | BPF_DW, 6, 0, 16, 0);
	element(1, 64), number(2, 16), put(BPF_LDX | BPF_MEM | BPF_DW, 3, 9, 112, 0), call(BPF_FUNC_probe_read_user);
	element(1, 80), number(2, 16), element(3, 64), put(BPF_LDX | BPF_MEM | BPF_DW, 3, 3, 0, 0), call(BPF_FUNC_probe_read_user_str);
	put(BPF_STX | BPF_MEM | BPF_DW, 6, 0, 24, 0);
	element(1, 96), number(2, 8), put(BPF_LDX | BPF_MEM | BPF_DW, 3, 9, 104, 0), call(BPF_FUNC_probe_read_user);
	put(BPF_STX | BPF_MEM | BPF_DW, 6, 0, 32, 0);
	returns(0);
	memset(&a, 0, sizeof a);
	a.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT;
	fd = load_as("memory", &a), link = raw("sys_enter", fd);
	begin(getpid());
	call_with(SYS_getppid, (long)&of, (long)(missing + 2048), 0, 0x1234);
	ask(&got);
	printf("  at the stack pointer %lld, %d; as the kernel's %lld, %ld; a number %#lx, a text %lld %s; what was not touched %lld, %ld\n",
		got.ret, v->sp != -1 && v->sp, (long long)got.ip, v->kernel, v->number, (long long)got.sp, v->copy, (long long)got.bp, v->absent);
	close(link), close(fd);
}

/* What an iterator sees of a process that waits in a call. */
static void another(void)
{
	static unsigned long mine = 1;
	union bpf_attr a;
	unsigned info[4] = {0};
	int p[2], fd, link, it, seen = raw("sys_enter", program(BPF_PROG_TYPE_RAW_TRACEPOINT, STACK, BPF_F_USER_STACK, 64, 0));
	char c;
	pid_t pid;

	read_kernel();
	n = 0;
	put(BPF_LDX | BPF_MEM | BPF_DW, 7, 1, 8, 0);
	put(BPF_JMP | BPF_JNE | BPF_K, 7, 0, 2, 0), returns(0);
	element(6, 0);
	copy(1, 7), element(2, 40), number(3, 64), number(4, BPF_F_USER_STACK), call(BPF_FUNC_get_task_stack);
	put(BPF_STX | BPF_MEM | BPF_DW, 6, 0, 8, 0);
	element(1, 104), number(2, 8), wide(3, 0, (unsigned)(unsigned long)&mine, (unsigned long)&mine >> 32), copy(4, 7), number(5, 0), call(BPF_FUNC_copy_from_user_task);
	put(BPF_STX | BPF_MEM | BPF_DW, 6, 0, 16, 0);
	element(1, 112), number(2, 8), number(3, 8), copy(4, 7), number(5, 0), call(BPF_FUNC_copy_from_user_task);
	put(BPF_STX | BPF_MEM | BPF_DW, 6, 0, 24, 0);
	returns(0);
	memset(&a, 0, sizeof a);
	a.prog_type = BPF_PROG_TYPE_TRACING, a.expected_attach_type = BPF_TRACE_ITER, a.prog_flags = BPF_F_SLEEPABLE;
	a.attach_btf_id = ktype(BTF_KIND_FUNC, "bpf_iter_task", NULL);
	fd = load_as("an iterator", &a);
	if (pipe(p))
		return;
	pid = fork();
	if (!pid) {
		mine = 0x77;
		call_with(SYS_read, p[0], (long)&c, 1, 0);
		_exit(0);
	}
	usleep(300000);
	info[0] = pid;
	memset(&a, 0, sizeof a);
	a.link_create.prog_fd = fd, a.link_create.attach_type = BPF_TRACE_ITER, a.link_create.iter_info = (unsigned long)info, a.link_create.iter_info_len = 16;
	link = bpf(BPF_LINK_CREATE, &a);
	memset(&a, 0, sizeof a);
	a.iter_create.link_fd = link;
	it = bpf(BPF_ITER_CREATE, &a);
	begin(0);
	printf("  %d", read(it, &c, 1) < 0 ? errno : 0);
	ask(&got);
	printf(", its stack %lld", got.ret);
	if (got.ret > 0)
		printf(" %s", name_of(got.stack[0]));
	printf(", a number %lld %#llx, what is not there %lld %lld\n", (long long)got.ip, got.stack[8], (long long)got.sp, (long long)got.stack[9]);
	close(it), close(link), close(fd), close(seen);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* The build id of the program. */
extern const char __ehdr_start[];
static unsigned char own_id[20];

static int find_id(void)
{
	const unsigned char *note = memmem(__ehdr_start, 4096, "\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU", 16);

	if (note)
		memcpy(own_id, note + 16, 20);
	return note != NULL;
}

static void print_ids(const struct bpf_stack_build_id *b, int count)
{
	const char *base = __ehdr_start;
	int i;

	for (i = 0; i < count; i++) {
		const char *name = "?";

		if (b[i].status == BPF_STACK_BUILD_ID_VALID && !memcmp(b[i].build_id, own_id, 20))
			name = name_of((unsigned long)base + b[i].offset);
		else if (b[i].status == BPF_STACK_BUILD_ID_VALID)
			name = "a library";
		else if (b[i].status == BPF_STACK_BUILD_ID_IP)
			name = name_of(b[i].ip);
		printf(" %d:%s", b[i].status, name);
		if (!strcmp(name, "the program") || !strcmp(name, "a library"))
			break;
	}
	printf("\n");
}

static void build_ids(void)
{
	static struct bpf_stack_build_id b[32];
	static unsigned long f[4];
	int fd, link, stacks, key;

	printf("a build id: %d\n", find_id());
	fd = program(BPF_PROG_TYPE_RAW_TRACEPOINT, STACK, BPF_F_USER_STACK | BPF_F_USER_BUILD_ID, 32 * 32, 0), link = raw("sys_enter", fd);
	innermost = ask_parent;
	begin(getpid());
	outer();
	ask(&got);
	printf("build ids: %s", got.ret > 0 && got.ret % 32 == 0 ? "records" : "none");
	if (got.ret <= 0)
		printf(" %lld", got.ret);
	memcpy(b, got.stack, sizeof b);
	print_ids(b, got.ret / 32);
	f[0] = 0, f[1] = (unsigned long)mmap(NULL, 1 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), nameless = f[1];
	begin(getpid());
	call_with(SYS_getppid, 0, 0, 0, (unsigned long)f);
	ask(&got);
	printf("of a place without a file: %lld", got.ret);
	memcpy(b, got.stack, sizeof b);
	print_ids(b, got.ret / 32);
	close(link), close(fd);
	fd = program(BPF_PROG_TYPE_RAW_TRACEPOINT, STACK, BPF_F_USER_BUILD_ID, 32 * 32, 0), link = raw("sys_enter", fd);
	hit("of the kernel's stack", ask_parent);
	close(link), close(fd);
	fd = program(BPF_PROG_TYPE_RAW_TRACEPOINT, STACK, BPF_F_USER_STACK | BPF_F_USER_BUILD_ID, 40, 0), link = raw("sys_enter", fd);
	hit("of a record and a part", ask_parent);
	close(link), close(fd);
	says("a map with a wrong size", map(BPF_MAP_TYPE_STACK_TRACE, 4, 40, 16, BPF_F_STACK_BUILD_ID));
	says("a map that is too deep", map(BPF_MAP_TYPE_STACK_TRACE, 4, 128 * 32, 16, BPF_F_STACK_BUILD_ID));
	stacks = map(BPF_MAP_TYPE_STACK_TRACE, 4, 32 * 32, 16, BPF_F_STACK_BUILD_ID);
	says("a map of build ids", stacks);
	fd = program(BPF_PROG_TYPE_RAW_TRACEPOINT, STACKID, BPF_F_USER_STACK, 0, stacks), link = raw("sys_enter", fd);
	innermost = ask_parent;
	begin(getpid());
	outer();
	ask(&got);
	key = got.ret;
	memset(b, 0, sizeof b);
	printf("ids: %lld, %d", got.ret < 0 ? got.ret : 0, one(BPF_MAP_LOOKUP_ELEM, stacks, &key, b));
	print_ids(b, 32);
	close(link), close(fd);
	fd = program(BPF_PROG_TYPE_RAW_TRACEPOINT, STACKID, 0, 0, stacks), link = raw("sys_enter", fd);
	begin(getpid());
	ask_parent();
	ask(&got);
	printf("the kernel's: %d\n", got.ret < 0 && got.ret != -EEXIST);
	close(link), close(fd), close(stacks);
}

static void killed(void)
{
	int fd = program(BPF_PROG_TYPE_RAW_TRACEPOINT, STACK, BPF_F_USER_STACK, LARGE - 64, 0), link = raw("sys_enter", fd), i, status, kills = 0;

	for (i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (!pid)
			for (innermost = ask_parent;;)
				begin(getpid()), outer();
		usleep(1000 * i);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		kills += WIFSIGNALED(status);
	}
	printf("killed: %d\n", kills);
	hit("and then", outer);
	close(link), close(fd);
}

/* What a process has that was there before the program, and one that has begun after it. */
static void processes(const char *self)
{
	int fd = program(BPF_PROG_TYPE_RAW_TRACEPOINT, STACK, BPF_F_USER_STACK, LARGE - 64, 0), link = raw("sys_enter", fd);
	char number[16];
	pid_t pid;

	snprintf(number, sizeof number, "%d", dup(the_map));
	pid = fork();
	if (!pid) {
		hit("a child", outer);
		execl(self, "bpfstacks", number, NULL);
	}
	waitpid(pid, NULL, 0);
	close(link), close(fd);
}

static void child(void)
{
	does all[] = {own_read, own_openat, own_unlinkat, own_access, own_nanosleep, library_read, library_open, library_unlink, library_syscall, parent, ask_parent};
	unsigned i;

	for (i = 0; i < sizeof all / sizeof *all; i++) {
		innermost = all[i];
		hit("a new process", outer);
	}
}

int main(int argc, char **argv)
{
	int fd, link;
	pthread_t t;

	setvbuf(stdout, NULL, _IOLBF, 0);
	libc = read;
	if (argc > 1) {
		the_map = atoi(argv[1]), zero_fd = open("/dev/zero", O_RDONLY);
		child();
		return 0;
	}
	zero_fd = open("/dev/zero", O_RDONLY);
	the_map = map(BPF_MAP_TYPE_ARRAY, 4, sizeof(struct result), 1, 0);
	at("read", "vfs_read", 0, own_read);
	at("read, at its return", "vfs_read", 1, own_read);
	at("openat", "do_sys_openat2", 0, own_openat);
	at("openat, at its return", "do_sys_openat2", 1, own_openat);
	at("unlinkat", "do_unlinkat", 0, own_unlinkat);
	at("access", "do_faccessat", 0, own_access);
	at("nanosleep", "hrtimer_nanosleep", 0, own_nanosleep);
	at("the library's read", "vfs_read", 0, library_read);
	at("the library's open", "do_sys_openat2", 0, library_open);
	at("the library's unlink", "do_unlinkat", 0, library_unlink);
	fd = program(BPF_PROG_TYPE_RAW_TRACEPOINT, STACK, BPF_F_USER_STACK, LARGE - 64, 0), link = raw("sys_enter", fd);
	innermost = parent;
	hit("getppid", outer);
	innermost = library_syscall;
	hit("by syscall(3)", outer);
	innermost = ask_parent;
	hit("deep", deep_200);
	pthread_create(&t, NULL, other_thread, parent);
	pthread_join(t, NULL);
	close(link), close(fd);
	link = raw("sys_exit", fd = program(BPF_PROG_TYPE_RAW_TRACEPOINT, STACK, BPF_F_USER_STACK, LARGE - 64, 0));
	innermost = parent;
	hit("at the exit", outer);
	close(link), close(fd);
	flags();
	ids();
	hostile();
	registers();
	memory();
	another();
	build_ids();
	killed();
	processes("/proc/self/exe");
	return 0;
}
