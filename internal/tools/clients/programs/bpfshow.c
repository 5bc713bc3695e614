/* bpfshow: what bpf_snprintf_btf makes of memory that is shown as a type of the kernel's. For each case it prints what
 * the helper has returned, and the text. */
#include "bpfcalls.h"
#include "bpfkernel.h"

enum { room = 8192 };

static int data, out;
static unsigned char bytes[room];
static char shown[room];

/* The patterns that memory has. */
enum { zeros, counted, letters, ones, sparse, patterns };

static void fill(int pattern)
{
	for (int i = 0; i < room; i++) {
		switch (pattern) {
		case zeros: bytes[i] = 0; break;
		case counted: bytes[i] = i + 1; break;
		case letters: bytes[i] = i % 6 == 5 ? 0 : 'a' + i % 6; break;
		case ones: bytes[i] = 0xff; break;
		case sparse: bytes[i] = i / 8 % 3 == 1 ? i + 1 : 0; break;
		}
	}
	if (update(data, &(int){0}, bytes))
		printf("update: %d\n", errno);
}

/* A program that shows the data as a type. With at, what that says is the address. */
static int shows(unsigned id, unsigned type_flags, int size, long flags, int pair, int at)
{
	union bpf_attr a;
	int fd;

	n = 0;
	if (at)
		wide(6, 0, at < 0 ? 0 : at, 0);
	else
		value(6, data, 0);
	put(BPF_STX | BPF_MEM | BPF_DW, 10, 6, -16, 0);
	put(BPF_ST | BPF_MEM | BPF_W, 10, 0, -8, id);
	put(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, type_flags);
	value(1, out, 0);
	number(2, size);
	stack(3, -16);
	number(4, pair);
	wide(5, 0, flags, flags >> 32);
	call(BPF_FUNC_snprintf_btf);
	exits();
	memset(&a, 0, sizeof a);
	a.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT;
	a.insns = (unsigned long)prog, a.insn_cnt = n, a.license = (unsigned long)"GPL";
	a.log_level = 1, a.log_buf = (unsigned long)text, a.log_size = sizeof text;
	memset(text, 0, sizeof text);
	fd = bpf(BPF_PROG_LOAD, &a);
	n = 0;
	if (fd < 0)
		printf("errno %d %s\n", errno, last_line(text));
	return fd;
}

/* What the kernel makes of an address is another number each time it begins, or none yet. */
static void mask(char *s)
{
	for (; (s = strstr(s, "0x")); s += 2)
		if (!strncmp(s, "0x(____ptrval____)", 18) || (!strncmp(s, "0x00000000", 10) && strncmp(s, "0x0000000000000000", 18)))
			memcpy(s, "0xADDRESSADDRESS..", 18);
}

static void run(int fd)
{
	union bpf_attr a;

	if (fd < 0)
		return;
	memset(shown, 0, sizeof shown);
	memset(shown, '#', 40);
	update(out, &(int){0}, shown);
	memset(&a, 0, sizeof a);
	a.test.prog_fd = fd;
	if (bpf(BPF_PROG_TEST_RUN, &a))
		printf("run: %d\n", errno);
	one(BPF_MAP_LOOKUP_ELEM, out, &(int){0}, shown);
	shown[room - 1] = 0;
	mask(shown);
	printf("%d:%s\n", (int)a.test.retval, shown);
	close(fd);
}

/* The patterns that a type is not shown with: their characters are not ASCII's. */
#define NOT(p) (1 << (p))

static const struct { int kind; const char *name; int not; } kinds[] = {
	{BTF_KIND_INT, "int"}, {BTF_KIND_INT, "char"}, {BTF_KIND_INT, "long unsigned int"}, {BTF_KIND_INT, "_Bool"}, {BTF_KIND_TYPEDEF, "bool"}, {BTF_KIND_TYPEDEF, "atomic_t"},
	{BTF_KIND_TYPEDEF, "kuid_t"}, {BTF_KIND_STRUCT, "list_head"}, {BTF_KIND_STRUCT, "qstr"}, {BTF_KIND_STRUCT, "path"}, {BTF_KIND_ENUM, "pid_type"}, {BTF_KIND_STRUCT, "callback_head"},
	{BTF_KIND_STRUCT, "new_utsname", NOT(counted) | NOT(ones)}, {BTF_KIND_STRUCT, "hlist_node"}, {BTF_KIND_STRUCT, "upid"},
};

int main(void)
{
	static const char flags[] = {0, 1, 9, 15};
	int id;

	read_kernel();
	data = map(BPF_MAP_TYPE_ARRAY, 4, room, 1, 0);
	out = map(BPF_MAP_TYPE_ARRAY, 4, room, 1, 0);
	for (unsigned t = 0; t < sizeof kinds / sizeof *kinds; t++) {
		id = ktype(kinds[t].kind, kinds[t].name, NULL);
		for (int p = 0; id > 0 && p < patterns; p++) {
			fill(p);
			for (unsigned f = 0; f < sizeof flags; f++) {
				if (kinds[t].not & NOT(p) || (p != counted && f != 1))
					continue;
				printf("%s, pattern %d, flags %d: ", kinds[t].name, p, flags[f]);
				run(shows(id, 0, room, flags[f], 16, 0));
			}
		}
		if (id < 0)
			printf("%s is not there\n", kinds[t].name);
	}
	fill(counted);
	id = ktype(BTF_KIND_STRUCT, "qstr", NULL);
	printf("size 10: "), run(shows(id, 0, 10, 0, 16, 0));
	printf("size 1: "), run(shows(id, 0, 1, 0, 16, 0));
	printf("size 0: "), run(shows(id, 0, 0, 0, 16, 0));
	printf("size of the pair 8: "), run(shows(id, 0, 100, 0, 8, 0));
	printf("flags 16: "), run(shows(id, 0, 100, 16, 16, 0));
	printf("flags of the type: "), run(shows(id, 1, 100, 0, 16, 0));
	printf("type 0: "), run(shows(0, 0, 100, 0, 16, 0));
	printf("no type: "), run(shows(99999999, 0, 100, 0, 16, 0));
	printf("negative type: "), run(shows(-1, 0, 100, 0, 16, 0));
	printf("a function: "), run(shows(ktype(BTF_KIND_FUNC, "vfs_read", NULL), 0, 100, 0, 16, 0));
	printf("address 0: "), run(shows(id, 0, 100, 0, 16, -1));
	printf("address 16: "), run(shows(id, 0, 100, 0, 16, 16));
	printf("address 16, all: "), run(shows(id, 0, 200, 15, 16, 16));
	return 0;
}
