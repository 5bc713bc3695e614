/* bpftracing: attaches programs of type TRACING, raw tracepoints and kprobe.multi, has them hit by an open of its own,
 * and prints what they have seen, and the errors of calls that are wrong. */
#include "bpfkernel.h"
#include "bpflast.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef unsigned long long u64;

static int map, values = 8;
static char text[1 << 16];

static int bpf(int cmd, union bpf_attr *a)
{
	int ret = syscall(SYS_bpf, cmd, a, sizeof *a);

	return ret < 0 ? -errno : ret;
}

static u64 address(const char *of)
{
	char name[256], module[256], line[1024], kind;
	u64 addr;
	FILE *f = fopen("/proc/kallsyms", "r");

	while (fgets(line, sizeof line, f))
		if (sscanf(line, "%llx %c %255s %255s", &addr, &kind, name, module) == 3 && !strcmp(name, of))
			return fclose(f), addr;
	fclose(f);
	return 0;
}

#define MAX 64
#define I(code, dst, src, off, imm) (struct bpf_insn){code, dst, src, off, imm}
#define LOAD(dst, src, off) I(BPF_LDX | BPF_MEM | BPF_DW, dst, src, off, 0)
#define STORE(dst, off, src) I(BPF_STX | BPF_MEM | BPF_DW, dst, src, off, 0)
#define MOV(dst, src) I(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define SET(dst, imm) I(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, imm)
#define ADD(dst, imm) I(BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, imm)
#define CALL(nr) I(BPF_JMP | BPF_CALL, 0, 0, 0, nr)

/* A program that counts the hits of this process, and does what body says; r6 has the context, r7 the values. */
static unsigned flags; /* of the next programs */

static int load(int kind, int attach, int id, int ret, const struct bpf_insn *body, int n)
{
	struct bpf_insn p[MAX] = {
		MOV(6, 1), CALL(BPF_FUNC_get_current_pid_tgid), I(BPF_ALU64 | BPF_RSH | BPF_K, 0, 0, 0, 32),
		I(BPF_JMP | BPF_JNE | BPF_K, 0, 0, 5 + n, getpid()),
		I(BPF_LD | BPF_IMM | BPF_DW, 7, BPF_PSEUDO_MAP_VALUE, 0, map), I(0, 0, 0, 0, 0),
		LOAD(1, 7, 0), ADD(1, 1), STORE(7, 0, 1),
	};
	union bpf_attr a;

	memcpy(p + 9, body, n * sizeof *body);
	p[9 + n] = SET(0, ret), p[10 + n] = I(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	memset(&a, 0, sizeof a), memset(text, 0, sizeof text);
	a.prog_flags = flags;
	a.prog_type = kind, a.expected_attach_type = attach, a.attach_btf_id = id, a.insns = (unsigned long)p, a.insn_cnt = 11 + n;
	a.license = (unsigned long)"GPL", a.log_level = 1, a.log_buf = (unsigned long)text, a.log_size = sizeof text;
	return bpf(BPF_PROG_LOAD, &a);
}
#define BODY(b...) (const struct bpf_insn[]){b}, sizeof((const struct bpf_insn[]){b}) / sizeof(struct bpf_insn)

/* What the verifier says last about a program that it refuses. */
static void refused(const char *what, int fd)
{
	char *last = last_line(text);

	if (!strncmp(last, "attach_btf_id ", 14))
		last = strchr(last + 14, ' ') + 1;	/* without its number */
	printf("%s: %s%s%s\n", what, fd < 0 ? strerror(-fd) : "loaded", fd < 0 && *last ? ": " : "", fd < 0 ? last : "");
	if (fd >= 0)
		close(fd);
}

static int raw(const char *name, int prog)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.raw_tracepoint.name = (unsigned long)name, a.raw_tracepoint.prog_fd = prog;
	return bpf(BPF_RAW_TRACEPOINT_OPEN, &a);
}

static void result(const char *what, int fd)
{
	printf("%s: %s\n", what, fd < 0 ? strerror(-fd) : "done");
}

/* Opens a file with the link there, and prints the values. */
static void hit(const char *what, int link, int close_it)
{
	u64 v[8] = {0};
	int key = 0, n;
	union bpf_attr a;

	if (link < 0) {
		result(what, link);
		return;
	}
	memset(&a, 0, sizeof a);
	a.map_fd = map, a.key = (unsigned long)&key, a.value = (unsigned long)v;
	bpf(BPF_MAP_UPDATE_ELEM, &a);
	close(open("/dev/null", O_RDONLY));
	bpf(BPF_MAP_LOOKUP_ELEM, &a);
	printf("%s:", what);
	for (n = 0; n < values; n++)
		printf(" %lld", (long long)v[n]);
	putchar('\n');
	if (close_it)
		close(link);
}

static void info(int link)
{
	struct bpf_link_info i;
	char name[32] = "";
	union bpf_attr a;
	int ret;

	memset(&i, 0, sizeof i), memset(&a, 0, sizeof a);
	a.info.bpf_fd = link, a.info.info_len = sizeof i, a.info.info = (unsigned long)&i;
	ret = bpf(BPF_OBJ_GET_INFO_BY_FD, &a);
	printf("link info: %d, type %u", ret, i.type);
	if (i.type == BPF_LINK_TYPE_TRACING)
		printf(", attach type %u, object %u, a function %d", i.tracing.attach_type, i.tracing.target_obj_id, i.tracing.target_btf_id == (unsigned)ktype(BTF_KIND_FUNC, "do_sys_openat2", NULL));
	if (i.type == BPF_LINK_TYPE_RAW_TRACEPOINT) {
		unsigned need = i.raw_tracepoint.tp_name_len;

		memset(&i, 0, sizeof i);
		i.raw_tracepoint.tp_name = (unsigned long)name, i.raw_tracepoint.tp_name_len = sizeof name;
		ret = bpf(BPF_OBJ_GET_INFO_BY_FD, &a);
		printf(", name %s of %u, %d", name, need, ret);
		memset(&i, 0, sizeof i);
		i.raw_tracepoint.tp_name = (unsigned long)name, i.raw_tracepoint.tp_name_len = 5;
		ret = bpf(BPF_OBJ_GET_INFO_BY_FD, &a);
		printf(", cut %s, %s", name, strerror(-ret));
	}
	putchar('\n');
}

static int tracing_link(int prog, int attach, u64 cookie)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.link_create.prog_fd = prog, a.link_create.attach_type = attach, a.link_create.tracing.cookie = cookie;
	return bpf(BPF_LINK_CREATE, &a);
}

static int multi(int prog, unsigned flags, unsigned n, const char **syms, u64 *addrs, u64 *cookies)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.link_create.prog_fd = prog, a.link_create.attach_type = BPF_TRACE_KPROBE_MULTI, a.link_create.kprobe_multi.flags = flags;
	a.link_create.kprobe_multi.cnt = n, a.link_create.kprobe_multi.syms = (unsigned long)syms;
	a.link_create.kprobe_multi.addrs = (unsigned long)addrs, a.link_create.kprobe_multi.cookies = (unsigned long)cookies;
	return bpf(BPF_LINK_CREATE, &a);
}

static void functions(int open_id)
{
	int prog, link, more;
	union bpf_attr a;

	prog = load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, open_id, 0, BODY(
		LOAD(1, 6, 0), I(BPF_ALU64 | BPF_LSH | BPF_K, 1, 0, 0, 32), I(BPF_ALU64 | BPF_ARSH | BPF_K, 1, 0, 0, 32), STORE(7, 8, 1),
		MOV(1, 6), CALL(BPF_FUNC_get_func_arg_cnt), STORE(7, 16, 0),
		MOV(1, 6), SET(2, 0), MOV(3, 7), ADD(3, 24), CALL(BPF_FUNC_get_func_arg),
		MOV(1, 6), SET(2, 9), MOV(3, 7), ADD(3, 32), CALL(BPF_FUNC_get_func_arg), STORE(7, 40, 0),
		MOV(1, 6), CALL(BPF_FUNC_get_func_ip), STORE(7, 48, 0),
		MOV(1, 6), CALL(BPF_FUNC_get_attach_cookie), STORE(7, 56, 0)));
	if (prog < 0)
		refused("fentry", prog);
	values = 3;
	link = raw(NULL, prog);
	hit("fentry: hits, directory, arguments", link, 0);
	info(link);
	result("attached again", raw(NULL, prog));
	result("with a name", raw("sys_enter", prog));
	close(link);
	link = tracing_link(prog, BPF_TRACE_FENTRY, 77);
	values = 8;
	if (link >= 0) {
		u64 v[8], addr = address("do_sys_openat2");
		int key = 0;

		values = 0;
		hit("fentry by a link", link, 0);
		memset(&a, 0, sizeof a);
		a.map_fd = map, a.key = (unsigned long)&key, a.value = (unsigned long)v;
		bpf(BPF_MAP_LOOKUP_ELEM, &a);
		printf("argument %d, no argument %lld, its address %d, cookie %lld\n", (int)v[3], (long long)v[5], v[6] == addr, (long long)v[7]);
		values = 8;
	}
	memset(&a, 0, sizeof a);
	a.link_detach.link_fd = link;
	result("detach", bpf(BPF_LINK_DETACH, &a));
	memset(&a, 0, sizeof a);
	a.link_update.link_fd = link, a.link_update.new_prog_fd = prog;
	result("update", bpf(BPF_LINK_UPDATE, &a));
	a.link_update.new_prog_fd = 999;
	result("update by nothing", bpf(BPF_LINK_UPDATE, &a));
	close(link), close(prog);
	result("a link of another kind", tracing_link(load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, open_id, 0, BODY(MOV(8, 6))), BPF_TRACE_FEXIT, 0));
	prog = load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT, open_id, 0, BODY(
		LOAD(1, 6, 24), I(BPF_ALU64 | BPF_RSH | BPF_K, 1, 0, 0, 63), STORE(7, 8, 1),
		MOV(1, 6), MOV(2, 7), ADD(2, 16), CALL(BPF_FUNC_get_func_ret), LOAD(1, 7, 16), I(BPF_ALU64 | BPF_RSH | BPF_K, 1, 0, 0, 63), STORE(7, 16, 1)));
	if (prog < 0)
		refused("fexit", prog);
	values = 3;
	link = raw(NULL, prog);
	more = raw(NULL, load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, open_id, 0, BODY(MOV(8, 6))));
	hit("fexit and fentry: hits, failed, failed", link, 1);
	close(more), close(prog);
}

static void refusals(int open_id)
{
	int task = ktype(BTF_KIND_STRUCT, "task_struct", NULL), tp = ktype(BTF_KIND_TYPEDEF, "btf_trace_sys_enter", NULL);
	int fork = ktype(BTF_KIND_TYPEDEF, "btf_trace_sched_process_fork", NULL);

	refused("no type", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, 0, 0, BODY(MOV(8, 6))));
	refused("a type of no function", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, task, 0, BODY(MOV(8, 6))) == -EINVAL ? -EINVAL : 0);
	refused("a tracepoint's typedef is wanted", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, task, 0, BODY(MOV(8, 6))) == -EINVAL ? -EINVAL : 0);
	refused("a kprobe with a type", load(BPF_PROG_TYPE_KPROBE, 0, open_id, 0, BODY(MOV(8, 6))));
	refused("fentry that returns 1", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, open_id, 1, BODY(MOV(8, 6))));
	refused("fmod_ret", load(BPF_PROG_TYPE_TRACING, BPF_MODIFY_RETURN, open_id, 0, BODY(MOV(8, 6))));
	refused("fmod_ret of a system call", load(BPF_PROG_TYPE_TRACING, BPF_MODIFY_RETURN, ktype(BTF_KIND_FUNC, "__x64_sys_openat", NULL), 0, BODY(MOV(8, 6))));
	flags = BPF_F_SLEEPABLE;
	refused("a sleepable fentry", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, open_id, 0, BODY(MOV(8, 6))));
	refused("a sleepable fexit of a system call", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT, ktype(BTF_KIND_FUNC, "__x64_sys_openat", NULL), 0, BODY(MOV(8, 6))));
	refused("a sleepable fmod_ret", load(BPF_PROG_TYPE_TRACING, BPF_MODIFY_RETURN, open_id, 0, BODY(MOV(8, 6))));
	refused("a sleepable tracepoint", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, tp, 0, BODY(MOV(8, 6))));
	flags = 0;
	refused("a fourth argument", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, open_id, 0, BODY(LOAD(1, 6, 24))));
	refused("after the result", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT, open_id, 0, BODY(LOAD(1, 6, 32))));
	refused("half an argument", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, open_id, 0, BODY(I(BPF_LDX | BPF_MEM | BPF_W, 1, 6, 4, 0))));
	refused("a store", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, open_id, 0, BODY(STORE(6, 0, 7))));
	refused("the result at the entry", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, open_id, 0, BODY(MOV(1, 6), MOV(2, 7), CALL(BPF_FUNC_get_func_ret))));
	refused("how->flags", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, open_id, 0, BODY(LOAD(1, 6, 16), LOAD(1, 1, 0))));
	refused("after how", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, open_id, 0, BODY(LOAD(1, 6, 16), LOAD(1, 1, 24))));
	refused("before how", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, open_id, 0, BODY(LOAD(1, 6, 16), LOAD(1, 1, -8))));
	refused("into how", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, open_id, 0, BODY(LOAD(1, 6, 16), STORE(1, 0, 7))));
	refused("a second argument of sys_enter", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, tp, 0, BODY(LOAD(1, 6, 8))));
	refused("a third argument of sys_enter", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, tp, 0, BODY(LOAD(1, 6, 16))));
	refused("fork: child->parent->comm", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, fork, 1, BODY(LOAD(1, 6, 8), MOV(8, 1))));
	refused("func_ip of a tracepoint", load(BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, tp, 0, BODY(MOV(1, 6), CALL(BPF_FUNC_get_func_ip))));
}

#define OPENS I(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 3, SYS_openat), LOAD(1, 7, 0), ADD(1, -1), STORE(7, 0, 1)

static void tracepoints(void)
{
	int prog = load(BPF_PROG_TYPE_RAW_TRACEPOINT, 0, 0, 0, BODY(LOAD(1, 6, 8), OPENS)), link;

	values = 1;
	link = raw("sys_enter", prog);
	hit("raw tracepoint: opens", link, 0);
	info(link);
	close(link);
	result("no tracepoint", raw("no_such_tracepoint", prog));
	result("without name", raw(NULL, prog));
	result("not a descriptor", raw("sys_enter", 999));
	result("a map", raw("sys_enter", map));
	close(prog);
	prog = load(BPF_PROG_TYPE_RAW_TRACEPOINT, 0, 0, 0, BODY(LOAD(1, 6, 16)));
	result("a third argument of sys_enter", raw("sys_enter", prog));
	close(prog);
	prog = load(BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, ktype(BTF_KIND_TYPEDEF, "btf_trace_sys_enter", NULL), 0, BODY(LOAD(1, 6, 8), OPENS));
	link = raw(NULL, prog);
	hit("BTF tracepoint: opens", link, 1);
	link = tracing_link(prog, BPF_TRACE_RAW_TP, 0);
	hit("BTF tracepoint by a link: opens", link, 1);
	close(prog);
}

static void many(void)
{
	const char *syms[] = {"do_sys_openat2", "do_filp_open"}, *none[] = {"no_such_function"}, *twice[] = {"do_filp_open", "do_filp_open"};
	u64 addrs[] = {address("do_filp_open"), address("do_sys_openat2")}, cookies[] = {5, 7}, bad[] = {addrs[0] + 64};
	int prog = load(BPF_PROG_TYPE_KPROBE, BPF_TRACE_KPROBE_MULTI, 0, 0, BODY(
		MOV(1, 6), CALL(BPF_FUNC_get_attach_cookie), LOAD(1, 7, 8), I(BPF_ALU64 | BPF_ADD | BPF_X, 1, 0, 0, 0), STORE(7, 8, 1)));
	int other = load(BPF_PROG_TYPE_KPROBE, 0, 0, 0, BODY(MOV(8, 6))), link;

	values = 2;
	link = multi(prog, 0, 2, syms, NULL, cookies);
	hit("kprobe.multi by names: hits, cookies", link, 0);
	info(link);
	close(link);
	hit("by addresses", multi(prog, 0, 2, NULL, addrs, cookies), 1);
	hit("returns", multi(prog, BPF_F_KPROBE_MULTI_RETURN, 2, syms, NULL, NULL), 1);
	result("no name", multi(prog, 0, 1, none, NULL, NULL));
	result("a name twice", multi(prog, 0, 2, twice, NULL, NULL));
	result("not an entry", multi(prog, 0, 1, NULL, bad, NULL));
	result("none", multi(prog, 0, 0, syms, NULL, NULL));
	result("names and addresses", multi(prog, 0, 1, syms, addrs, NULL));
	result("neither", multi(prog, 0, 1, NULL, NULL, NULL));
	result("other flags", multi(prog, 2, 1, syms, NULL, NULL));
	result("bad pointers", multi(prog, 0, 1, (void *)8, NULL, NULL));
	result("bad cookies", multi(prog, 0, 1, syms, NULL, (void *)8));
	result("loaded for others", multi(other, 0, 1, syms, NULL, NULL));
	close(prog), close(other);
}

int main(void)
{
	union bpf_attr a;
	int id;

	setvbuf(stdout, NULL, _IOLBF, 0);
	read_kernel();
	memset(&a, 0, sizeof a);
	a.map_type = BPF_MAP_TYPE_ARRAY, a.key_size = 4, a.value_size = 64, a.max_entries = 1;
	map = bpf(BPF_MAP_CREATE, &a);
	id = ktype(BTF_KIND_FUNC, "do_sys_openat2", NULL);
	functions(id);
	refusals(id);
	tracepoints();
	many();
	return 0;
}
