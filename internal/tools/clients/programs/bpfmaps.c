/* bpfmaps: what the verifier makes of maps that programs only read or only write, of constants in maps that are frozen, and
 * what there is to arrays of cgroups. For each case it prints the errno, and the last line of the verifier's log but for its
 * statistics. */
#include "bpfcalls.h"
#include <fcntl.h>

/* A program that divides by a number of a map, or reads what is not there if the number is not 7. */
static void depends(const char *name, int fd, int size, int off)
{
	value(1, fd, 0);
	put(BPF_LDX | BPF_MEM | size, 2, 1, off, 0);
	put(BPF_MOV | BPF_ALU64 | BPF_K, 0, 0, 0, 0);
	put(BPF_JMP | BPF_JEQ | BPF_K, 2, 0, 1, 7);
	put(BPF_LDX | BPF_MEM | BPF_DW, 0, 0, 0, 0);
	exits();
	load(name);
}

static int filled(int entries, int flags, int freeze)
{
	long v[4] = {7, 8, 9, 0x0000000700000009};
	int key = 0, fd = map(BPF_MAP_TYPE_ARRAY, 4, sizeof v, entries, flags);

	update(fd, &key, v);
	if (freeze && one(BPF_MAP_FREEZE, fd, NULL, NULL))
		printf("freeze: %d\n", errno);
	return fd;
}

int main(void)
{
	int key = 0, fd, other, zero = 0;
	long v = 0;

	depends("frozen and read-only", filled(1, BPF_F_RDONLY_PROG, 1), BPF_W, 0);
	depends("of 64 bits", filled(1, BPF_F_RDONLY_PROG, 1), BPF_DW, 0);
	depends("of 8 bits", filled(1, BPF_F_RDONLY_PROG, 1), BPF_B, 0);
	depends("the upper half", filled(1, BPF_F_RDONLY_PROG, 1), BPF_W, 28);
	depends("another number", filled(1, BPF_F_RDONLY_PROG, 1), BPF_DW, 8);
	depends("not frozen", filled(1, BPF_F_RDONLY_PROG, 0), BPF_W, 0);
	depends("not read-only", filled(1, 0, 1), BPF_W, 0);
	depends("behind it", filled(1, BPF_F_RDONLY_PROG, 1), BPF_DW, 32);

	fd = filled(2, BPF_F_RDONLY_PROG, 1);
	lookup(fd);
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0);
	put(BPF_LDX | BPF_MEM | BPF_DW, 0, 0, 0, 0);
	exits();
	load("of two elements");

	fd = filled(1, BPF_F_RDONLY_PROG, 0);
	value(1, fd, 0);
	put(BPF_ST | BPF_MEM | BPF_DW, 1, 0, 8, 0);
	put(BPF_MOV | BPF_ALU64 | BPF_K, 0, 0, 0, 0);
	exits();
	load("written where it is read-only");

	value(1, fd, 8);
	put(BPF_MOV | BPF_ALU64 | BPF_K, 2, 0, 0, 1);
	put(BPF_STX | BPF_ATOMIC | BPF_DW, 1, 2, 8, BPF_ADD);
	put(BPF_MOV | BPF_ALU64 | BPF_K, 0, 0, 0, 0);
	exits();
	load("added to where it is read-only");

	value(1, fd, 0);
	put(BPF_MOV | BPF_ALU64 | BPF_K, 2, 0, 0, 8);
	put(BPF_MOV | BPF_ALU64 | BPF_K, 3, 0, 0, 0);
	put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_probe_read_kernel);
	exits();
	load("filled by a helper where it is read-only");

	fd = filled(1, BPF_F_WRONLY_PROG, 0);
	value(1, fd, 0);
	put(BPF_LDX | BPF_MEM | BPF_W, 0, 1, 4, 0);
	exits();
	load("read where it is write-only");

	value(1, fd, 0);
	put(BPF_MOV | BPF_ALU64 | BPF_K, 2, 0, 0, 8);
	put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_trace_printk);
	exits();
	load("read by a helper where it is write-only");

	value(1, fd, 0);
	put(BPF_ST | BPF_MEM | BPF_W, 1, 0, 4, 1);
	put(BPF_MOV | BPF_ALU64 | BPF_K, 0, 0, 0, 0);
	exits();
	load("written where it is write-only");

	for (int i = 0; i < 5; i++) {
		static const struct { int key, value, entries, flags; } t[] = {{4, 4, 1, 0}, {4, 8, 1, 0}, {8, 4, 1, 0}, {4, 4, 0, 0}, {4, 4, 1, BPF_F_RDONLY_PROG}};

		fd = map(BPF_MAP_TYPE_CGROUP_ARRAY, t[i].key, t[i].value, t[i].entries, t[i].flags);
		printf("an array of cgroups, keys %d, values %d, entries %d, flags %d: %d\n", t[i].key, t[i].value, t[i].entries, t[i].flags, fd < 0 ? errno : 0);
	}
	fd = map(BPF_MAP_TYPE_CGROUP_ARRAY, 4, 4, 2, 0);
	other = filled(1, 0, 0);
	says("a map in it", update(fd, &key, &other));
	says("a file in it", update(fd, &key, &zero));
	other = open("/", O_RDONLY);
	says("a directory in it", update(fd, &key, &other));
	other = -1;
	says("nothing in it", update(fd, &key, &other));
	says("look it up", one(BPF_MAP_LOOKUP_ELEM, fd, &key, &v));
	says("delete it", one(BPF_MAP_DELETE_ELEM, fd, &key, NULL));
	key = 2;
	says("delete what is behind it", one(BPF_MAP_DELETE_ELEM, fd, &key, NULL));

	pointer(1, fd);
	put(BPF_MOV | BPF_ALU64 | BPF_K, 2, 0, 0, 1);
	put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_current_task_under_cgroup);
	exits();
	load("under a cgroup");
	pointer(1, filled(1, 0, 0));
	put(BPF_MOV | BPF_ALU64 | BPF_K, 2, 0, 0, 1);
	put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_current_task_under_cgroup);
	exits();
	load("under a cgroup of an array");
	lookup(fd);
	put(BPF_MOV | BPF_ALU64 | BPF_K, 0, 0, 0, 0);
	exits();
	load("look a cgroup up");
	return 0;
}
