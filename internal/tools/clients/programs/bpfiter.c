/* bpfiter WHAT: iterators over maps, programs and tasks, how they are attached and read, and the errors of calls that are wrong. */
#include "bpfcalls.h"
#include "bpfkernel.h"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int offset(const char *of, const char *name)
{
	struct btf_type *t = NULL;

	ktype(BTF_KIND_STRUCT, of, &t);
	for (int i = 0; t && i < BTF_INFO_VLEN(t->info); i++) {
		struct btf_member *m = (struct btf_member *)(t + 1) + i;
		if (!strcmp(knames + m->name_off, name))
			return BTF_MEMBER_BIT_OFFSET(m->offset) / 8;
	}
	return 0;
}

static int format, attach = BPF_TRACE_ITER, program_flags;

static int load_iter(const char *name, const char *target)
{
	union bpf_attr a;
	char function[64];

	snprintf(function, sizeof function, "bpf_iter_%s", target);
	memset(&a, 0, sizeof a);
	a.prog_type = BPF_PROG_TYPE_TRACING, a.expected_attach_type = attach, a.attach_btf_id = ktype(BTF_KIND_FUNC, function, NULL);
	a.prog_flags = program_flags;
	strcpy(a.prog_name, "shows");
	return load_as(name, &a);
}

static void get(int dst, int src, int off, int size) { put(BPF_LDX | BPF_MEM | size, dst, src, off, 0); }
static void save(int off, int src) { put(BPF_STX | BPF_MEM | BPF_DW, 10, src, off, 0); }

/* r6 is the object, r7 meta, r8 seq. If there is no object, it writes "end". */
static void begin(void)
{
	get(6, 1, 8, BPF_DW), get(7, 1, 0, BPF_DW), get(8, 7, 0, BPF_DW);
}

/* What a map of strings has at a place is the format; so many numbers are on the stack from -64 on. */
static void print(int at, int length, int args)
{
	copy(1, 8), value(2, format, at), number(3, length);
	if (args)
		stack(4, -64);
	else
		number(4, 0);
	number(5, args * 8);
	call(BPF_FUNC_seq_printf);
}

static const char formats[256] = "%d %d %d %d\n";
enum { END = 32, NUMBERS = 48, STRING = 80 };

/* A program that shows numbers of an object, which is of a type. */
static void shows(const char *type, const char *a, int asize, const char *b, int bsize)
{
	begin();
	put(BPF_JMP | BPF_JNE | BPF_K, 6, 0, 11, 0);
	get(1, 7, 16, BPF_DW), save(-64, 1);
	copy(1, 8), value(2, format, END), number(3, 8), stack(4, -64), number(5, 8), call(BPF_FUNC_seq_printf);
	put(BPF_JMP | BPF_JA, 0, 0, 14, 0);
	get(1, 7, 16, BPF_DW), save(-64, 1);
	get(1, 6, offset(type, a), asize), save(-56, 1);
	get(1, 6, offset(type, b), bsize), save(-48, 1);
	print(NUMBERS, 16, 3);
	number(0, 0), exits();
}

static int link_to(int prog, void *info, int size)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.link_create.prog_fd = prog, a.link_create.attach_type = BPF_TRACE_ITER, a.link_create.iter_info = (unsigned long)info;
	a.link_create.iter_info_len = size;
	return bpf(BPF_LINK_CREATE, &a);
}

static int iter(int link, int flags)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.iter_create.link_fd = link, a.iter_create.flags = flags;
	return bpf(BPF_ITER_CREATE, &a);
}

static void show(const char *name, int fd, int size)
{
	static char b[1 << 17];
	int got, reads = 0;

	printf("%s:\n", name);
	while ((got = read(fd, b, size)) > 0 && reads++ < 1000)
		fwrite(b, 1, got, stdout);
	printf("%d reads, %s\n", reads, got < 0 ? strerror(errno) : "end");
}

static void describe(int link)
{
	struct bpf_link_info i;
	char name[32] = "";
	union bpf_attr a;

	for (int size = 0; size < 20; size += size ? 14 : 3) {
		memset(&i, 0, sizeof i), memset(&a, 0, sizeof a);
		a.info.bpf_fd = link, a.info.info_len = sizeof i, a.info.info = (unsigned long)&i;
		i.iter.target_name = size ? (unsigned long)name : 0, i.iter.target_name_len = size;
		says("info", bpf(BPF_OBJ_GET_INFO_BY_FD, &a));
		printf("type %u, %s of %u, tid %d, pid %d\n", i.type, name, i.iter.target_name_len, i.iter.task.tid == getpid(), i.iter.task.pid == getpid());
	}
}

static void fdinfo(int fd)
{
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "link_type", 9) || !strncmp(line, "target_name", 11) || !strncmp(line, "task_type", 9))
			fputs(line, stdout);
		else if (!strncmp(line, "tid:", 4) || !strncmp(line, "pid:", 4))
			printf("%.4s %d\n", line, atoi(line + 4) == getpid());
	fclose(f);
}

static void maps_and_programs(void)
{
	int prog, link, it, m[3];
	union bpf_attr a;

	for (int k = 0; k < 3; k++)
		m[k] = map(BPF_MAP_TYPE_ARRAY, 4, 8, 10 + k, 0);
	shows("bpf_map", "max_entries", BPF_W, "value_size", BPF_W);
	prog = load_iter("maps", "bpf_map");
	link = link_to(prog, NULL, 0);
	describe(link), fdinfo(link);
	it = iter(link, 0);
	show("all at once", it, 4096);
	show("again", it, 4096);
	close(m[1]);
	close(iter(link, 0));
	it = iter(link, 0);
	show("a few bytes each", it, 9);
	m[1] = map(BPF_MAP_TYPE_HASH, 4, 16, 77, 0);
	show("a new one after the end", it, 4096);
	says("flags", iter(link, 1));
	says("a program", iter(prog, 0));
	says("no descriptor", iter(-1, 0));
	says("seek", lseek(it, 0, SEEK_SET));
	says("write", write(it, "x", 1));
	says("info of an iterator", (memset(&a, 0, sizeof a), a.info.bpf_fd = it, bpf(BPF_OBJ_GET_INFO_BY_FD, &a)));
	memset(&a, 0, sizeof a), a.link_detach.link_fd = link;
	says("detach", bpf(BPF_LINK_DETACH, &a));
	shows("bpf_prog", "len", BPF_W, "expected_attach_type", BPF_W);
	int other = load_iter("programs", "bpf_prog"), of = link_to(other, NULL, 0);
	show("programs", iter(of, 0), 4096);
	memset(&a, 0, sizeof a), a.link_update.link_fd = link, a.link_update.new_prog_fd = other;
	says("update by another target's", bpf(BPF_LINK_UPDATE, &a));
	a.link_update.new_prog_fd = prog, a.link_update.old_prog_fd = prog;
	says("update without replace", bpf(BPF_LINK_UPDATE, &a));
	a.link_update.flags = BPF_F_REPLACE;
	says("update", bpf(BPF_LINK_UPDATE, &a));
	a.link_update.old_prog_fd = other;
	says("update of another", bpf(BPF_LINK_UPDATE, &a));
	memset(&a, 0, sizeof a), a.raw_tracepoint.prog_fd = prog;
	says("raw", bpf(BPF_RAW_TRACEPOINT_OPEN, &a));
	unsigned info[5] = {0};
	says("info without length", link_to(prog, info, 0));
	says("info", link_to(prog, info, 16));
	says("long info", link_to(prog, info, 20));
	info[4] = 1;
	says("unknown info", link_to(prog, info, 20));
	says("no info", link_to(prog, (void *)8, 16));
	memset(&a, 0, sizeof a), a.link_create.prog_fd = prog, a.link_create.attach_type = BPF_TRACE_ITER, a.link_create.flags = 1;
	says("link flags", bpf(BPF_LINK_CREATE, &a));
	a.link_create.flags = 0, a.link_create.target_fd = 1;
	says("target", bpf(BPF_LINK_CREATE, &a));
	a.link_create.target_fd = 0, a.link_create.attach_type = BPF_TRACE_FENTRY;
	says("another type", bpf(BPF_LINK_CREATE, &a));
}

static void tasks(void)
{
	unsigned info[4] = {getpid()};
	int prog, link;

	shows("task_struct", "pid", BPF_W, "tgid", BPF_W);
	n -= 2, number(0, 0), exits();
	prog = load_iter("tasks", "task");
	link = link_to(prog, info, 16);
	describe(link), fdinfo(link);
	char b[256] = "";
	int got = read(iter(link, 0), b, sizeof b), number = -1, tid = 0, tgid = 0, last = -1;
	sscanf(b, "%d %d %d\nend %d", &number, &tid, &tgid, &last);
	printf("one thread: %d, %d, it is this one: %d %d, %d\n", got > 0, number, tid == getpid(), tgid == getpid(), last);
	info[0] = 0, info[1] = getpid();
	link = link_to(prog, info, 16);
	describe(link), fdinfo(link);
	memset(b, 0, sizeof b), tid = 0;
	read(iter(link, 0), b, sizeof b);
	sscanf(b, "%d %d %d\nend %d", &number, &tid, &tgid, &last);
	printf("one process: %d, it is this one: %d %d, %d\n", number, tid == getpid(), tgid == getpid(), last);
	info[0] = 1;
	says("two tasks", link_to(prog, info, 16));
	info[0] = info[1] = 0, info[2] = 1;
	says("no descriptor of a task", link_to(prog, info, 16));
	info[2] = 0, info[0] = 4000000;
	show("no such thread", iter(link_to(prog, info, 16), 0), 4096);
	fdinfo(link_to(prog, NULL, 0));
	static char many[1 << 16];
	int it = iter(link_to(prog, NULL, 0), 0), sum = 0, mine = 0, previous = -1, ordered = 1;
	while ((got = read(it, many + sum, 100)) > 0)
		sum += got;
	for (char *line = strtok(many, "\n"); line; line = strtok(NULL, "\n"))
		if (sscanf(line, "%d %d %d", &number, &tid, &tgid) == 3)
			ordered &= tid > previous, previous = tid, mine += tid == getpid();
	printf("all: in order %d, this one %d\n", ordered, mine);
}

/* Programs that return 1, write too much, or nothing. */
static void returned(void)
{
	static char big[40000];
	int prog, it, text = map(BPF_MAP_TYPE_ARRAY, 4, 20000, 1, 0), key = 0;

	map(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0);
	begin(), number(0, 1), exits();
	show("retry", iter(link_to(load_iter("retry", "bpf_map"), NULL, 0), 0), 100);
	begin(), number(0, 0), exits();
	show("nothing", iter(link_to(load_iter("nothing", "bpf_map"), NULL, 0), 0), 100);
	memset(big, 'x', sizeof big), update(text, &key, big);
	begin(), copy(1, 8), value(2, text, 0), number(3, 20000), call(BPF_FUNC_seq_write);
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 0, 0), number(0, 0), exits();
	prog = load_iter("much", "bpf_map");
	it = iter(link_to(prog, NULL, 0), 0);
	for (int k = 0; k < 6; k++)
		printf("%d ", (int)read(it, big, k % 2 ? 40000 : 15000));
	printf("\n");
	begin(), copy(1, 8), value(2, text, 0), number(3, 20000), call(BPF_FUNC_seq_write), copy(9, 0);
	copy(1, 8), value(2, text, 0), number(3, 20000), call(BPF_FUNC_seq_write), save(-64, 0);
	number(0, 0), exits();
	it = iter(link_to(load_iter("too much", "bpf_map"), NULL, 0), 0);
	says("too much", read(it, big, 40000));
	begin(), put(BPF_JMP | BPF_JEQ | BPF_K, 6, 0, 1, 0), number(0, 0), number(0, 0), exits();
	close(load_iter("a comparison", "bpf_map"));
}

static void refused(void)
{
	begin(), get(1, 6, 0, BPF_W), number(0, 0), exits();
	load_iter("not compared with NULL", "bpf_map");
	begin(), put(BPF_ADD | BPF_ALU64 | BPF_K, 6, 0, 0, 8), number(0, 0), exits();
	load_iter("arithmetic", "bpf_map");
	begin(), copy(1, 7), value(2, format, 0), number(3, 8), call(BPF_FUNC_seq_write), number(0, 0), exits();
	load_iter("meta for seq", "bpf_map");
	begin(), copy(1, 6), value(2, format, 0), number(3, 8), call(BPF_FUNC_seq_write), number(0, 0), exits();
	load_iter("an object for seq", "bpf_map");
	get(1, 1, 16, BPF_DW), number(0, 0), exits();
	load_iter("a third argument", "task");
	number(0, 2), exits();
	load_iter("returns 2", "task");
	call(BPF_FUNC_get_current_pid_tgid), exits();
	load_iter("returns any number", "task");
	begin(), copy(0, 7), exits();
	load_iter("returns a pointer", "task");
	put(BPF_ST | BPF_MEM | BPF_DW, 1, 0, 0, 0), number(0, 0), exits();
	load_iter("writes", "task");
	begin(), put(BPF_ST | BPF_MEM | BPF_DW, 7, 0, 8, 0), number(0, 0), exits();
	load_iter("writes meta", "task");
	call(BPF_FUNC_get_func_ip), number(0, 0), exits();
	load_iter("get_func_ip", "task");
	call(BPF_FUNC_get_attach_cookie), number(0, 0), exits();
	load_iter("get_attach_cookie", "task");
	copy(1, 10), call(BPF_FUNC_seq_write), exits();
	load("seq_write of a kprobe");
		returns(0), load_iter("no such target", "none");
	program_flags = BPF_F_SLEEPABLE;
	returns(0), says("sleepable over maps", link_to(load_iter("sleepable", "bpf_map"), NULL, 0));
	returns(0), says("sleepable over tasks", link_to(load_iter("sleepable", "task"), NULL, 0));
}

int main(int argc, char **argv)
{
	static char f[256];
	int key = 0;

	read_kernel();
	memcpy(f, formats, sizeof f), strcpy(f + END, "end %d\n"), strcpy(f + NUMBERS, "%d %d %d\n");
	format = map(BPF_MAP_TYPE_ARRAY, 4, sizeof f, 1, 0);
	update(format, &key, f);
	if (argc > 2) { /* pin PATH */
		union bpf_attr a;
		shows("bpf_map", "max_entries", BPF_W, "value_size", BPF_W);
		memset(&a, 0, sizeof a);
		a.pathname = (unsigned long)argv[2], a.bpf_fd = link_to(load_iter("maps", "bpf_map"), NULL, 0);
		says("pin", bpf(BPF_OBJ_PIN, &a));
	} else if (!strcmp(argv[1], "maps"))
		maps_and_programs();
	else if (!strcmp(argv[1], "tasks"))
		tasks();
	else if (!strcmp(argv[1], "returned"))
		returned();
	else
		refused();
	return 0;
}
