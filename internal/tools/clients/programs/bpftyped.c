/* bpftyped FIRST COUNT LEVEL [s]: loads COUNT programs that follow from their numbers, of type TRACING, with pointers to structures of
 * the kernel, and of type SCHED_CLS, with locks and timers, and prints what bpf(2) says of each and the verifier's log, or its sum. */
#include "bpfrandom.h"
#include "bpftypes.h"
#include "bpfkernel.h"
#include <stdlib.h>

static int hash, array, ring, storage, locked;

static const int sizes[] = {BPF_B, BPF_H, BPF_W, BPF_DW};

/* Members of structures that the emulated kernel has at the same places: what they are is a number, or the structure that they
 * point to. */
enum { UNREAD = -2, NUMBER, TASK, FILE_, DENTRY, INODE, SUPER, HOW, REGS, CRED, SEQ, META };
static const struct { int of, off, size, to; } members[] = {
	{TASK, 24, 4, NUMBER}, {TASK, 44, 4, NUMBER}, {TASK, 2416, 4, NUMBER}, {TASK, 2432, 8, TASK}, {TASK, 2480, 8, TASK}, {TASK, 2960, 8, CRED}, {TASK, 2976, 8, NUMBER}, {TASK, 32, 8, NUMBER},
	{TASK, 2448, 8, NUMBER}, {FILE_, 24, 8, DENTRY}, {FILE_, 32, 8, INODE}, {FILE_, 64, 4, NUMBER}, {FILE_, 104, 8, NUMBER}, {FILE_, 144, 8, CRED}, {DENTRY, 24, 8, DENTRY}, {DENTRY, 48, 8, INODE},
	{DENTRY, 0, 4, NUMBER}, {DENTRY, 40, 8, NUMBER}, {DENTRY, 104, 8, SUPER}, {DENTRY, 56, 8, NUMBER}, {INODE, 0, 2, NUMBER}, {INODE, 40, 8, SUPER}, {INODE, 64, 8, NUMBER}, {INODE, 142, 1, NUMBER},
	{SUPER, 96, 8, NUMBER}, {SUPER, 104, 8, DENTRY}, {HOW, 0, 8, NUMBER}, {HOW, 16, 8, NUMBER}, {REGS, 112, 8, NUMBER}, {REGS, 160, 8, NUMBER}, {CRED, 8, 4, NUMBER}, {CRED, 36, 4, NUMBER},
	{SEQ, 8, 8, NUMBER}, {SEQ, 104, 8, FILE_}, {META, 0, 8, SEQ}, {META, 8, 8, NUMBER},
};

/* What programs are attached to, and what their arguments are. */
static const struct { int attach, kind; const char *name; int n, args[5]; } targets[] = {
	{BPF_TRACE_FENTRY, BTF_KIND_FUNC, "do_sys_openat2", 3, {NUMBER, NUMBER, HOW}},
	{BPF_TRACE_FEXIT, BTF_KIND_FUNC, "do_sys_openat2", 4, {NUMBER, NUMBER, HOW, NUMBER}},
	{BPF_TRACE_FENTRY, BTF_KIND_FUNC, "vfs_read", 4, {FILE_, NUMBER, NUMBER, NUMBER}},
	{BPF_TRACE_FEXIT, BTF_KIND_FUNC, "vfs_read", 5, {FILE_, NUMBER, NUMBER, NUMBER, NUMBER}},
	{BPF_TRACE_RAW_TP, BTF_KIND_TYPEDEF, "btf_trace_sched_process_fork", 2, {TASK, TASK}},
	{BPF_TRACE_RAW_TP, BTF_KIND_TYPEDEF, "btf_trace_sys_enter", 2, {REGS, NUMBER}},
	{BPF_TRACE_ITER, BTF_KIND_FUNC, "bpf_iter_task", 2, {META, TASK}},
};

static int ids[sizeof targets / sizeof *targets], target, now[10]; /* what registers 6 to 9 point to */

static int any(void) { return 6 + rnd(4); }

static int number(void)
{
	static const int some[] = {0, 1, -1, 2, 7, 8, 16, 64, 255, 4096, 0x7fffffff, -8};

	return some[rnd(sizeof some / sizeof *some)];
}

static void argument(int r)
{
	int n = rnd(targets[target].n);

	put(BPF_LDX | BPF_MEM | (rnd(30) ? BPF_DW : sizes[rnd(4)]), r, 1, rnd(25) ? 8 * n : 8 * n + (int)rnd(40) - 8, 0);
	now[r] = targets[target].args[n];
}

/* Loads a member of what a register points to. */
static void member(void)
{
	int from = any(), to = any(), i, tries;

	if (now[from] == UNREAD || (now[from] == NUMBER && rnd(12)))
		return;

	for (tries = 0; tries < 200; tries++) {
		i = rnd(sizeof members / sizeof *members);
		if (members[i].of != now[from] && now[from] != NUMBER)
			continue;
		switch (rnd(24)) {
		case 0: /* another size */
			put(BPF_LDX | BPF_MEM | sizes[rnd(4)], to, from, members[i].off, 0);
			break;
		case 1: /* behind the structure */
			put(BPF_LDX | BPF_MEM | sizes[rnd(4)], to, from, 20000 + rnd(9), 0);
			break;
		case 2:
			put(BPF_LDX | BPF_MEM | BPF_DW, to, from, -8, 0);
			break;
		case 3:
			put(BPF_STX | BPF_MEM | BPF_DW, from, to, members[i].off, 0);
			return;
		default:
			put(BPF_LDX | BPF_MEM | (members[i].size == 8 ? BPF_DW : members[i].size == 4 ? BPF_W : members[i].size == 2 ? BPF_H : BPF_B), to, from, members[i].off, 0);
		}
		now[to] = members[i].to;
		return;
	}
}

static void branch(void)
{
	int r = any();

	if (rnd(3)) {
		put(BPF_JMP | (rnd(2) ? BPF_JEQ : BPF_JNE) | BPF_K, r, 0, 1 + rnd(3), rnd(12) ? 0 : 1);
		return;
	}
	if (rnd(3))
		put(BPF_JMP | (rnd(2) ? BPF_JGT : BPF_JSLT) | BPF_K, r, 0, 1 + rnd(3), number());
	else
		put(BPF_JMP | (rnd(2) ? BPF_JEQ : BPF_JNE) | BPF_X, r, any(), 1 + rnd(3), 0);
}

static void arithmetic(void)
{
	static const int ops[] = {BPF_ADD, BPF_SUB, BPF_AND, BPF_OR, BPF_RSH, BPF_MUL};
	int r = any();

	switch (rnd(5)) {
	case 0:
		put(BPF_ALU64 | BPF_MOV | BPF_K, r, 0, 0, number());
		now[r] = NUMBER;
		break;
	case 1: {
		int s = any();

		put(BPF_ALU64 | BPF_MOV | BPF_X, r, s, 0, 0);
		now[r] = now[s];
		break;
	}
	case 2:
		put(BPF_ALU64 | BPF_ADD | BPF_K, r, 0, 0, rnd(2) ? 8 : 0);
		if (prog[n - 1].imm)
			now[r] = UNREAD; /* other members are there */
		break;
	default:
		put((rnd(6) ? BPF_ALU64 : BPF_ALU) | ops[rnd(6)] | BPF_K, r, 0, 0, rnd(20));
		now[r] = NUMBER;
	}
}

static void stack(void)
{
	int off = -8 * (1 + (int)rnd(4)), r = any();

	if (rnd(2)) {
		put(BPF_STX | BPF_MEM | (rnd(8) ? BPF_DW : sizes[rnd(4)]), 10, r, off, 0);
		return;
	}
	put(BPF_LDX | BPF_MEM | (rnd(8) ? BPF_DW : sizes[rnd(4)]), r, 10, off, 0);
	now[r] = rnd(10);
}

static void at(int r, int off)
{
	put(BPF_ALU64 | BPF_MOV | BPF_X, r, 10, 0, 0);
	put(BPF_ALU64 | BPF_ADD | BPF_K, r, 0, 0, off);
}

static void helper(void)
{
	int r = any();

	switch (rnd(9)) {
	case 0:
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_current_task_btf);
		put(BPF_ALU64 | BPF_MOV | BPF_X, r, 0, 0, 0);
		now[r] = TASK;
		break;
	case 1: /* the registers of a task */
		put(BPF_ALU64 | BPF_MOV | BPF_X, 1, r, 0, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_task_pt_regs);
		put(BPF_ALU64 | BPF_MOV | BPF_X, r, 0, 0, 0);
		now[r] = REGS;
		break;
	case 2: /* what belongs to a task */
		wide(1, BPF_PSEUDO_MAP_FD, storage, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_X, 2, r, 0, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 4, 0, 0, rnd(2));
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_task_storage_get);
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0);
		put(BPF_STX | BPF_MEM | sizes[rnd(4)], 0, any(), 8 * rnd(3), 0);
		break;
	case 3:
		at(1, -32);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 8 * (1 + rnd(3)));
		put(BPF_ALU64 | BPF_MOV | BPF_X, 3, r, 0, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, rnd(2) ? BPF_FUNC_probe_read_kernel : BPF_FUNC_probe_read_kernel_str);
		break;
	case 4:
		put(BPF_STX | BPF_MEM | BPF_DW, 10, r, -8, 0);
		at(2, -8);
		wide(1, BPF_PSEUDO_MAP_FD, rnd(2) ? hash : array, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem);
		put(BPF_JMP | (rnd(8) ? BPF_JEQ : BPF_JNE) | BPF_K, 0, 0, 1 + rnd(2), 0);
		put(BPF_STX | BPF_MEM | BPF_DW, 0, any(), 0, 0);
		break;
	case 5: /* a record */
		wide(1, BPF_PSEUDO_MAP_FD, ring, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 16);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_ringbuf_reserve);
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 4, 0);
		put(BPF_STX | BPF_MEM | BPF_DW, 0, r, 8 * rnd(2), 0);
		put(BPF_ALU64 | BPF_MOV | BPF_X, 1, 0, 0, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_ringbuf_submit);
		break;
	case 6: /* a dynptr */
		wide(1, BPF_PSEUDO_MAP_FD, ring, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 16);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, 0);
		at(4, -16 - 8 * (int)rnd(3));
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_ringbuf_reserve_dynptr);
		if (rnd(2)) {
			at(1, -16 - 8 * (int)rnd(3));
			put(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 0);
			put(BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, 8);
			put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_dynptr_data);
			put(BPF_JMP | (rnd(6) ? BPF_JEQ : BPF_JNE) | BPF_K, 0, 0, 1, 0);
			put(BPF_STX | BPF_MEM | BPF_DW, 0, r, rnd(9) ? 0 : 4, 0);
		}
		if (!rnd(4))
			branch();
		at(1, -16);
		if (rnd(3))
			prog[n - 1].imm = -24;
		put(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_ringbuf_discard_dynptr);
		break;
	case 7:
		put(BPF_LDX | BPF_MEM | BPF_DW, 1, 10, -40, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, rnd(3));
		at(3, -32);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_func_arg);
		break;
	default:
		put(BPF_ALU64 | BPF_MOV | BPF_X, 1, r, 0, 0);
		at(2, -32);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, 24);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 4, 0, 0, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_task_stack);
	}
}

/* A part of a program of type TRACING. */
static void some(void)
{
	switch (rnd(12)) {
	case 0: case 1: case 2: case 3: case 4:
		member();
		break;
	case 5:
		branch();
		break;
	case 6:
		arithmetic();
		break;
	case 7: case 8:
		stack();
		break;
	case 9: /* with its context, which is kept on the stack */
		put(BPF_LDX | BPF_MEM | BPF_DW, 1, 10, -40, 0);
		argument(any());
		break;
	default:
		helper();
	}
}

/* A part of a program with a map whose values have a lock at 0 and a timer at 8: r6 is a value. */
static void special(void)
{
	static const int f[] = {BPF_FUNC_spin_lock, BPF_FUNC_spin_unlock, BPF_FUNC_timer_init, BPF_FUNC_timer_start, BPF_FUNC_timer_cancel};
	int k, off;

	switch (rnd(9)) {
	case 0: case 1: case 2: case 3:
		k = rnd(2);
		off = k < 2 ? 0 : 8;
		if (!rnd(20))
			off += 4;
		put(BPF_ALU64 | BPF_MOV | BPF_X, 1, 6 + !rnd(6), 0, 0);
		put(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, off);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, f[k]);
		break;
	case 4:
		k = 2 + rnd(3);
		put(BPF_ALU64 | BPF_MOV | BPF_X, 1, 6 + !rnd(6), 0, 0);
		put(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, rnd(15) ? 8 : 16);
		if (k == 2)
			wide(2, BPF_PSEUDO_MAP_FD, rnd(9) ? locked : array, 0);
		else
			put(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 1);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, k == 2);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, f[k]);
		break;
	case 5:
		put(BPF_STX | BPF_MEM | sizes[rnd(4)], 6, rnd(4) ? 8 : 7, rnd(6) ? 24 + 8 * (int)rnd(2) : 4 * (int)rnd(10), 0);
		break;
	case 6:
		put(BPF_LDX | BPF_MEM | sizes[rnd(4)], 8, 6, rnd(6) ? 24 + 8 * (int)rnd(2) : 4 * (int)rnd(10), 0);
		break;
	case 7:
		put(BPF_JMP | BPF_JGT | BPF_K, 8, 0, rnd(3), number());
		put(BPF_ALU64 | BPF_ADD | BPF_K, 8, 0, 0, 1);
		put(BPF_ALU64 | BPF_AND | BPF_K, 8, 0, 0, 7);
		break;
	default: /* another value, or the same */
		put(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, rnd(3));
		at(2, -4);
		wide(1, BPF_PSEUDO_MAP_FD, locked, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem);
		put(BPF_JMP | BPF_JNE | BPF_K, 0, 0, 2, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
		put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_X, 6 + rnd(2), 0, 0, 0);
	}
}

static void load(unsigned number)
{
	union bpf_attr a;
	int i, parts;

	state = number * 0x9e3779b97f4a7c15ull + 11;
	n = 0;
	memset(&a, 0, sizeof a);
	if (!rnd(4)) {
		a.prog_type = BPF_PROG_TYPE_SCHED_CLS;
		for (i = 6; i < 8; i++) {
			put(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, i);
			at(2, -4);
			wide(1, BPF_PSEUDO_MAP_FD, locked, 0);
			put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem);
			put(BPF_JMP | BPF_JNE | BPF_K, 0, 0, 2, 0);
			put(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
			put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
			put(BPF_ALU64 | BPF_MOV | BPF_X, i, 0, 0, 0);
		}
		put(BPF_ALU64 | BPF_MOV | BPF_K, 8, 0, 0, 3);
		for (parts = 1 + rnd(7); parts > 0; parts--)
			special();
	} else {
		target = rnd(sizeof targets / sizeof *targets);
		a.prog_type = BPF_PROG_TYPE_TRACING, a.expected_attach_type = targets[target].attach, a.attach_btf_id = ids[target];
		put(BPF_STX | BPF_MEM | BPF_DW, 10, 1, -40, 0);
		for (i = 6; i < 10; i++)
			if (rnd(5))
				argument(i);
			else {
				put(BPF_ALU64 | BPF_MOV | BPF_K, i, 0, 0, i);
				now[i] = NUMBER;
			}
		if (targets[target].attach == BPF_TRACE_ITER)
			for (i = 6; i < 10; i++)
				if (now[i] == TASK && rnd(8)) {
					put(BPF_JMP | BPF_JNE | BPF_K, i, 0, 2, 0);
					put(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
					put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
				}
		put(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
		for (parts = 2 + rnd(10); parts > 0 && n < 200; parts--)
			some();
	}
	for (i = 0; i < 3; i++)
		put(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, rnd(30) ? 0 : 1);
	put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	tell(number, &a);
}

/* A map whose values have a lock, and a timer after it. */
static int make_locked(void)
{
	static struct {
		struct btf_header h;
		unsigned t[22];
		char s[64];
	} b = {.h = {.magic = BTF_MAGIC, .version = 1, .hdr_len = sizeof b.h, .type_len = sizeof b.t, .str_off = sizeof b.t}};
	static const char strings[] = "\0int\0bpf_spin_lock\0bpf_timer\0value\0l\0t\0n";
	unsigned *t = b.t;
	union bpf_attr a;
	int fd;

	memcpy(b.s, strings, sizeof strings);
	b.h.str_len = sizeof strings;
	*t++ = 1, *t++ = BTF_KIND_INT << 24, *t++ = 4, *t++ = 32; /* 1 */
	*t++ = 5, *t++ = BTF_KIND_STRUCT << 24, *t++ = 4; /* 2 */
	*t++ = 19, *t++ = BTF_KIND_STRUCT << 24, *t++ = 16; /* 3 */
	*t++ = 29, *t++ = BTF_KIND_STRUCT << 24 | 3, *t++ = 40; /* 4 */
	*t++ = 35, *t++ = 2, *t++ = 0, *t++ = 37, *t++ = 3, *t++ = 64, *t++ = 39, *t++ = 1, *t++ = 192;
	memset(&a, 0, sizeof a);
	a.btf = (unsigned long)&b, a.btf_size = sizeof b.h + sizeof b.t + sizeof strings;
	fd = bpf(BPF_BTF_LOAD, &a);
	memset(&a, 0, sizeof a);
	a.map_type = BPF_MAP_TYPE_HASH, a.key_size = 4, a.value_size = 40, a.max_entries = 8;
	a.btf_fd = fd, a.btf_key_type_id = 1, a.btf_value_type_id = 4;
	return bpf(BPF_MAP_CREATE, &a);
}

static int make_storage(void)
{
	static struct {
		struct btf_header h;
		unsigned t[8];
		char s[16];
	} b = {.h = {.magic = BTF_MAGIC, .version = 1, .hdr_len = sizeof b.h, .type_len = sizeof b.t, .str_off = sizeof b.t, .str_len = 10}, .s = "\0int\0long"};
	unsigned *t = b.t;
	union bpf_attr a;
	int fd;

	*t++ = 1, *t++ = BTF_KIND_INT << 24, *t++ = 4, *t++ = 32;
	*t++ = 5, *t++ = BTF_KIND_INT << 24, *t++ = 16, *t++ = 128;
	memset(&a, 0, sizeof a);
	a.btf = (unsigned long)&b, a.btf_size = sizeof b.h + sizeof b.t + 10;
	fd = bpf(BPF_BTF_LOAD, &a);
	memset(&a, 0, sizeof a);
	a.map_type = BPF_MAP_TYPE_TASK_STORAGE, a.key_size = 4, a.value_size = 16, a.map_flags = BPF_F_NO_PREALLOC;
	a.btf_fd = fd, a.btf_key_type_id = 1, a.btf_value_type_id = 2;
	return bpf(BPF_MAP_CREATE, &a);
}

int main(int argc, char **argv)
{
	unsigned first = argc > 1 ? atoi(argv[1]) : 0, count = argc > 2 ? atoi(argv[2]) : 1, i;

	(void)describe;
	level = argc > 3 ? atoi(argv[3]) : 2, sums = argc > 4;
	read_kernel();
	for (i = 0; i < sizeof targets / sizeof *targets; i++)
		ids[i] = ktype(targets[i].kind, targets[i].name, NULL);
	hash = map(BPF_MAP_TYPE_HASH, 8, 24, 8, 0);
	array = map(BPF_MAP_TYPE_ARRAY, 4, 32, 8, 0);
	ring = map(BPF_MAP_TYPE_RINGBUF, 0, 0, 4096, 0);
	storage = make_storage(), locked = make_locked();
	if (hash < 0 || array < 0 || ring < 0 || storage < 0 || locked < 0) {
		printf("maps %d %d %d %d %d\n", hash, array, ring, storage, locked);
		return 2;
	}
	for (i = first; i < first + count; i++)
		load(i);
	return 0;
}
