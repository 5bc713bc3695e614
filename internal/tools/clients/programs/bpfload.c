/* bpfload FIRST COUNT [LEVEL [s]]: loads COUNT programs that follow from their numbers, and prints for each what
 * bpf(2) says: 0 or the errno, and the last line of the verifier's log but for its statistics. With LEVEL it prints all of
 * the log at that level but how long it took, and with s the number of its lines and their sum instead. */
#include "bpflast.h"
#include "bpfrandom.h"
#include "bpfwhole.h"
#include <stdlib.h>

static int hash, array, ring, stack;

static int reg(void) { return rnd(8) ? rnd(10) : rnd(11); }

static int number(void)
{
	static const int some[] = {0, 1, -1, 2, 4, 7, 8, 15, 16, 31, 32, 63, 64, 100, 255, 256, 511, 512, 4096, 65535, 1 << 29, 0x7fffffff, (int)0x80000000};

	return rnd(3) ? some[rnd(sizeof some / sizeof *some)] : (int)rnd(1u << 31);
}

static int offset(void)
{
	static const int some[] = {0, -8, -16, -4, -1, 8, 16, -512, -520, 4, 160, 168, 1};

	return some[rnd(sizeof some / sizeof *some)];
}

static const int sizes[] = {BPF_B, BPF_H, BPF_W, BPF_DW};

static void some(void)
{
	static const int ops[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_OR, BPF_AND, BPF_LSH, BPF_RSH, BPF_MOD, BPF_XOR, BPF_MOV, BPF_ARSH};
	static const int jumps[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET, BPF_JNE, BPF_JSGT, BPF_JSGE, BPF_JLT, BPF_JLE, BPF_JSLT, BPF_JSLE};
	int r = reg(), k;

	switch (rnd(16)) {
	case 0: case 1:
		put((rnd(3) ? BPF_ALU64 : BPF_ALU) | ops[rnd(12)] | BPF_K, r, 0, 0, number());
		break;
	case 2:
		put((rnd(3) ? BPF_ALU64 : BPF_ALU) | ops[rnd(12)] | BPF_X, r, reg(), 0, 0);
		break;
	case 3:
		put(BPF_ALU64 | BPF_MOV | BPF_X, r, rnd(2) ? 10 : reg(), 0, 0);
		if (rnd(2))
			put(BPF_ALU64 | BPF_ADD | BPF_K, r, 0, 0, offset());
		break;
	case 4:
		put(BPF_LDX | BPF_MEM | sizes[rnd(4)], r, rnd(2) ? 10 : reg(), offset(), 0);
		break;
	case 5: case 6:
		put(BPF_STX | BPF_MEM | sizes[rnd(4)], rnd(3) ? 10 : reg(), reg(), offset(), 0);
		break;
	case 7:
		put(BPF_ST | BPF_MEM | sizes[rnd(4)], rnd(3) ? 10 : reg(), 0, offset(), number());
		break;
	case 8: case 9:
		k = rnd(3) ? BPF_JMP : BPF_JMP32;
		if (rnd(2))
			put(k | jumps[rnd(11)] | BPF_K, r, 0, rnd(20) ? (int)rnd(4) : -1 - (int)rnd(4), number());
		else
			put(k | jumps[rnd(11)] | BPF_X, r, reg(), rnd(4), 0);
		break;
	case 10: { /* a look-up, and what a program does with its result */
		int m = rnd(2) ? hash : array;

		put(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, rnd(8));
		put(BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0);
		put(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, rnd(8) ? -4 : offset());
		wide(1, BPF_PSEUDO_MAP_FD, rnd(16) ? m : ring, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem);
		if (rnd(6))
			put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1 + rnd(2), 0);
		if (rnd(2))
			put(BPF_LDX | BPF_MEM | sizes[rnd(4)], 1, 0, rnd(20), 0);
		else
			put(BPF_STX | BPF_ATOMIC | BPF_DW, 0, 10, 8 * rnd(4), BPF_ADD);
		put(BPF_ALU64 | BPF_MOV | BPF_K, r == 10 ? 0 : r, 0, 0, 1);
		break;
	}
	case 11: { /* an index that is bounded, or not quite */
		put(BPF_LDX | BPF_MEM | sizes[rnd(4)], 6, 1, 8 * rnd(20), 0);
		put(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0);
		put(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -4);
		wide(1, BPF_PSEUDO_MAP_FD, array, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem);
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 4, 0);
		if (rnd(2))
			put(BPF_ALU64 | BPF_AND | BPF_K, 6, 0, 0, rnd(40));
		else
			put(BPF_JMP | BPF_JGT | BPF_K, 6, 0, 3, rnd(40));
		put(BPF_ALU64 | BPF_ADD | BPF_X, 0, 6, 0, 0);
		put(BPF_LDX | BPF_MEM | sizes[rnd(4)], 0, 0, rnd(4), 0);
		break;
	}
	case 12: { /* a helper with what happens to be there */
		static const int f[] = {BPF_FUNC_ktime_get_ns, BPF_FUNC_get_current_pid_tgid, BPF_FUNC_get_smp_processor_id, BPF_FUNC_map_update_elem,
			BPF_FUNC_map_delete_elem, BPF_FUNC_probe_read_kernel, BPF_FUNC_get_current_comm, BPF_FUNC_get_stackid, BPF_FUNC_skb_load_bytes, 9999};
		put(BPF_JMP | BPF_CALL, 0, 0, 0, f[rnd(10)]);
		break;
	}
	case 13: { /* a comm on the stack */
		int size = rnd(4) ? 16 : number();

		put(BPF_ALU64 | BPF_MOV | BPF_X, 1, 10, 0, 0);
		put(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, rnd(4) ? -16 : offset());
		put(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, size);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_current_comm);
		break;
	}
	case 14: { /* a record of the ring buffer */
		wide(1, BPF_PSEUDO_MAP_FD, ring, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 8 + rnd(16));
		put(BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_ringbuf_reserve);
		if (rnd(8))
			put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 4, 0);
		put(BPF_ST | BPF_MEM | sizes[rnd(4)], 0, 0, rnd(24), 1);
		put(BPF_ALU64 | BPF_MOV | BPF_X, 1, 0, 0, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, rnd(10) ? BPF_FUNC_ringbuf_submit : BPF_FUNC_ringbuf_discard);
		break;
	}
	default: /* a loop */
		put(BPF_ALU64 | BPF_MOV | BPF_K, 7, 0, 0, 0);
		put(BPF_ALU64 | BPF_ADD | BPF_K, 7, 0, 0, rnd(8) ? 1 : 0);
		put(BPF_JMP | BPF_JLT | BPF_K, 7, 0, -2, 1 + rnd(60));
	}
}

static void load(unsigned number)
{
	union bpf_attr a;
	int i, parts, fd;

	state = number * 0x9e3779b97f4a7c15ull + 1;
	n = 0;
	if (rnd(3))
		for (i = 0; i < 10; i++)
			if (i != 1 && rnd(4))
				put(BPF_ALU64 | BPF_MOV | BPF_K, i, 0, 0, rnd(3) ? (int)rnd(100) : (int)rnd(1u << 31));
	for (parts = 1 + rnd(6); parts > 0; parts--)
		some();
	if (rnd(12))
		put(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
	put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	memset(&a, 0, sizeof a);
	a.prog_type = rnd(4) ? BPF_PROG_TYPE_KPROBE : BPF_PROG_TYPE_TRACEPOINT;
	fd = tell(number, &a);
	if (level)
		return;
	if (fd >= 0) {
		printf("\n");
		return;
	}
	printf(" %s\n", last_line(text));
}

int main(int argc, char **argv)
{
	unsigned first = argc > 1 ? atoi(argv[1]) : 0, count = argc > 2 ? atoi(argv[2]) : 1, i;

	level = argc > 3 ? atoi(argv[3]) : 0, sums = argc > 4;
	hash = map(BPF_MAP_TYPE_HASH, 4, 24, 8, 0);
	array = map(BPF_MAP_TYPE_ARRAY, 4, 32, 8, 0);
	ring = map(BPF_MAP_TYPE_RINGBUF, 0, 0, 4096, 0);
	stack = map(BPF_MAP_TYPE_STACK_TRACE, 4, 8 * 16, 64, 0);
	if (hash < 0 || array < 0 || ring < 0 || stack < 0) {
		perror("maps");
		return 2;
	}
	for (i = first; i < first + count; i++)
		load(i);
	return 0;
}
