/* bpflog FIRST COUNT LEVEL [s [4]]: loads COUNT programs that follow from their numbers, and prints what bpf(2) says of each and
 * the verifier's log, or its sum. Other than bpfload's most can be loaded: they have numbers of which something is known,
 * pointers on the stack, functions, and callbacks, with types and lines of the source. With 4 they have the instructions of
 * -mcpu=v4, too. */
#include "bpfrandom.h"
#include "bpftypes.h"
#include <stdlib.h>

static int hash, array, ring;

static const int sizes[] = {BPF_B, BPF_H, BPF_W, BPF_DW};
static const int bytes[] = {1, 2, 4, 8};
static const int ops[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_OR, BPF_AND, BPF_LSH, BPF_RSH, BPF_MOD, BPF_XOR, BPF_ARSH};
static const int jumps[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET, BPF_JNE, BPF_JSGT, BPF_JSGE, BPF_JLT, BPF_JLE, BPF_JSLT, BPF_JSLE};

/* A register that has a number. */
static int reg(void)
{
	static const int some[] = {0, 7, 8, 9};

	return some[rnd(4)];
}

static int number(void)
{
	static const int some[] = {0, 1, -1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 255, 256, 4095, 65535, 0x7fffffff, (int)0x80000000, -2, -100};

	return rnd(5) ? some[rnd(sizeof some / sizeof *some)] : (int)rnd(1u << 31);
}

static int slot(void) { return -8 * (1 + (int)rnd(4)); }

/* The functions that are called, and where. */
static int calls[16], called;

static void call(int callback)
{
	if (called == 16)
		return;
	calls[called++] = n;
	if (callback)
		wide(2, BPF_PSEUDO_FUNC, 0, 0);
	else
		put(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, 0);
}

static int v4;

/* Arithmetic that heeds a sign, or swaps bytes. */
static void arithmetic4(int r)
{
	int op = rnd(2) ? BPF_DIV : BPF_MOD, class = rnd(2) ? BPF_ALU64 : BPF_ALU;

	switch (rnd(5)) {
	case 0:
		put(class | op | BPF_X, r, reg(), 1, 0);
		break;
	case 1:
		put(class | op | BPF_K, r, 0, 1, rnd(2) ? -1 - (int)rnd(100) : 1 + (int)rnd(100));
		break;
	case 2:
		put(BPF_ALU64 | BPF_END, r, 0, 0, 16 << rnd(3));
		break;
	default:
		put(class | BPF_MOV | BPF_X, r, reg(), 8 << rnd(class == BPF_ALU ? 2 : 3), 0);
	}
}

static void arithmetic(void)
{
	int r = reg(), op = ops[rnd(11)], class = rnd(3) ? BPF_ALU64 : BPF_ALU, width = class == BPF_ALU ? 32 : 64;

	if (v4 && !rnd(3)) {
		arithmetic4(r);
		return;
	}
	switch (rnd(8)) {
	case 0:
		put(class | op | BPF_X, r, reg(), 0, 0);
		break;
	case 1:
		put(class | BPF_MOV | BPF_X, r, reg(), 0, 0);
		break;
	case 2:
		put(class | BPF_MOV | BPF_K, r, 0, 0, number());
		break;
	case 3:
		if (rnd(2))
			put(class | BPF_NEG, r, 0, 0, 0);
		else
			put(BPF_ALU | BPF_END | (rnd(2) ? BPF_X : BPF_K), r, 0, 0, 16 << rnd(3));
		break;
	default:
		if (op == BPF_LSH || op == BPF_RSH || op == BPF_ARSH)
			put(class | op | BPF_K, r, 0, 0, rnd(width));
		else
			put(class | op | BPF_K, r, 0, 0, op == BPF_DIV || op == BPF_MOD ? 1 + (int)rnd(100) : number());
	}
}

static void jump(void)
{
	int class = rnd(3) ? BPF_JMP : BPF_JMP32, op = jumps[rnd(11)];

	if (!rnd(6)) { /* one way or the other */
		put(BPF_JMP | op | BPF_K, reg(), 0, 2, number());
		put(BPF_ALU64 | BPF_ADD | BPF_K, 7, 0, 0, 1);
		put(BPF_JMP | BPF_JA, 0, 0, 1, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 8, 0, 0, 1);
	} else if (rnd(3))
		put(class | op | BPF_K, reg(), 0, rnd(3), number());
	else
		put(class | op | BPF_X, reg(), reg(), rnd(3), 0);
}

static void memory(void)
{
	int k = rnd(4), off = slot() + (rnd(3) ? 0 : bytes[k] * (int)rnd(8 / bytes[k]));

	switch (rnd(6)) {
	case 0: case 1:
		put(BPF_STX | BPF_MEM | sizes[k], 10, reg(), off, 0);
		break;
	case 2:
		put(BPF_ST | BPF_MEM | sizes[k], 10, 0, off, rnd(2) ? 0 : number());
		break;
	case 3: /* somewhere */
		put(BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_X, 3, reg(), 0, 0);
		put(BPF_ALU64 | BPF_AND | BPF_K, 3, 0, 0, rnd(3) ? 7 : 8);
		put(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -32 + 8 * (int)rnd(2));
		put(BPF_ALU64 | BPF_ADD | BPF_X, 2, 3, 0, 0);
		if (rnd(2))
			put(BPF_STX | BPF_MEM | BPF_B, 2, reg(), rnd(3), 0);
		else
			put(BPF_LDX | BPF_MEM | BPF_B, reg(), 2, rnd(3), 0);
		break;
	case 4:
		k = 2 + rnd(2);
		put(BPF_STX | BPF_ATOMIC | sizes[k], 10, reg(), slot(), rnd(4) ? BPF_ADD | (rnd(2) ? BPF_FETCH : 0) : rnd(2) ? BPF_XCHG : BPF_CMPXCHG);
		break;
	default:
		put(BPF_LDX | (v4 && k < 3 && rnd(2) ? 0x80 : BPF_MEM) | sizes[k], reg(), 10, off, 0);
	}
}

/* The value of a key, in r0; then r0 is a number again. */
static void lookup(void)
{
	int m = rnd(2) ? hash : array, keep = rnd(3);

	put(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, rnd(4));
	put(BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0);
	put(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -4);
	wide(1, BPF_PSEUDO_MAP_FD, m, 0);
	put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem);
	if (!keep)
		put(BPF_STX | BPF_MEM | BPF_DW, 10, 0, -40, 0);
	else if (keep == 1)
		put(BPF_ALU64 | BPF_MOV | BPF_X, 4, 0, 0, 0);
	put(BPF_JMP | (rnd(8) ? BPF_JEQ : BPF_JNE) | BPF_K, 0, 0, 5, 0);
	if (!keep)
		put(BPF_LDX | BPF_MEM | BPF_DW, 3, 10, -40, 0);
	else
		put(BPF_ALU64 | BPF_MOV | BPF_X, 3, keep == 1 ? 4 : 0, 0, 0);
	put(BPF_ALU64 | BPF_AND | BPF_K, 7, 0, 0, rnd(20));
	put(BPF_ALU64 | BPF_ADD | BPF_X, 3, 7, 0, 0);
	if (rnd(2))
		put(BPF_LDX | BPF_MEM | sizes[rnd(3)], 8, 3, rnd(3), 0);
	else
		put(BPF_STX | BPF_MEM | sizes[rnd(3)], 3, 9, rnd(3), 0);
	put(BPF_JMP | BPF_JNE | BPF_K, 3, 0, rnd(2), 0);
	put(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, rnd(3));
}

static void helper(void)
{
	int size = 8 * (1 + rnd(3));

	switch (rnd(4)) {
	case 0:
		put(BPF_JMP | BPF_CALL, 0, 0, 0, rnd(2) ? BPF_FUNC_ktime_get_ns : BPF_FUNC_get_smp_processor_id);
		break;
	case 1: /* a string, and its length */
		put(BPF_ALU64 | BPF_MOV | BPF_X, 1, 10, 0, 0);
		put(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, -32);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, size);
		put(BPF_ALU64 | BPF_MOV | BPF_X, 3, 9, 0, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, rnd(2) ? BPF_FUNC_probe_read_kernel_str : BPF_FUNC_probe_read_kernel);
		break;
	case 2: /* a size that is not known */
		put(BPF_ALU64 | BPF_MOV | BPF_X, 2, reg(), 0, 0);
		put(BPF_ALU64 | BPF_AND | BPF_K, 2, 0, 0, rnd(33));
		put(BPF_ALU64 | BPF_MOV | BPF_X, 1, 10, 0, 0);
		put(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, -32);
		put(BPF_ALU64 | BPF_MOV | BPF_X, 3, 9, 0, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_probe_read_kernel);
		break;
	default:
		wide(1, BPF_PSEUDO_MAP_FD, ring, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, size);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_ringbuf_reserve);
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 5, 0);
		put(BPF_STX | BPF_MEM | BPF_DW, 0, reg() ? 7 : 8, 0, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_X, 1, 0, 0, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, rnd(2) ? BPF_FUNC_ringbuf_submit : BPF_FUNC_ringbuf_discard);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, rnd(3));
	}
}

static void loop(void)
{
	int begin;

	put(BPF_ALU64 | BPF_MOV | BPF_K, 7, 0, 0, rnd(3));
	begin = n;
	if (rnd(2))
		arithmetic();
	put(BPF_ALU64 | BPF_ADD | BPF_K, 7, 0, 0, 1 + rnd(2));
	if (rnd(3) == 0)
		put(BPF_JMP | BPF_JEQ | BPF_K, 9, 0, 1, rnd(5));
	put(BPF_JMP | BPF_JLT | BPF_K, 7, 0, begin - n - 1, 2 + rnd(30));
}

static void some(int deep)
{
	switch (rnd(deep ? 12 : 16)) {
	case 0: case 1: case 2: case 3:
		arithmetic();
		break;
	case 4: case 5: case 6:
		jump();
		arithmetic();
		arithmetic();
		break;
	case 7: case 8: case 9:
		memory();
		break;
	case 10:
		helper();
		break;
	case 11:
		loop();
		break;
	case 12: case 13:
		lookup();
		break;
	case 14: /* a function of two numbers */
		put(BPF_ALU64 | BPF_MOV | BPF_X, 1, reg(), 0, 0);
		put(BPF_ALU64 | BPF_MOV | BPF_X, 2, rnd(3) ? reg() : 10, 0, 0);
		call(0);
		break;
	default: /* a callback, which sees a part of the stack */
		put(BPF_ALU64 | BPF_MOV | BPF_K, 1, 0, 0, rnd(10));
		call(1);
		put(BPF_ALU64 | BPF_MOV | BPF_X, 3, 10, 0, 0);
		put(BPF_ALU64 | BPF_ADD | BPF_K, 3, 0, 0, slot());
		put(BPF_ALU64 | BPF_MOV | BPF_K, 4, 0, 0, 0);
		put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_loop);
	}
}

static void body(int parts, int deep)
{
	int i;

	for (i = 7; i < 10; i++)
		if (deep && rnd(2))
			put(BPF_ALU64 | BPF_MOV | BPF_X, i, 1, 0, 0);
		else if (!deep && rnd(3))
			put(BPF_LDX | BPF_MEM | sizes[rnd(4)], i, 1, 8 * rnd(20), 0);
		else
			put(BPF_ALU64 | BPF_MOV | BPF_K, i, 0, 0, number());
	put(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, number());
	while (parts-- > 0 && n < 180)
		some(deep);
}

static void load(unsigned number, int btf)
{
	struct bpf_func_info funcs[8] = {{0, 3}};
	struct bpf_line_info source[128];
	union bpf_attr a;
	int i, j, functions, starts[4], said = 0;

	state = number * 0x9e3779b97f4a7c15ull + 7;
	n = called = 0;
	put(BPF_ALU64 | BPF_MOV | BPF_X, 6, 1, 0, 0);
	body(2 + rnd(9), 0);
	put(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
	put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	functions = called > 1 ? 1 + rnd(2) : called;
	for (i = 0; i < functions; i++) {
		starts[i] = n;
		funcs[i + 1] = (struct bpf_func_info){n, rnd(4) ? 5 : 6};
		body(rnd(4), 1);
		if (rnd(2))
			put(BPF_ALU64 | BPF_AND | BPF_K, 0, 0, 0, 1);
		put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	}
	for (i = 0; i < called; i++)
		prog[calls[i]].imm = starts[i % functions] - calls[i] - 1;
	memset(&a, 0, sizeof a);
	a.prog_type = BPF_PROG_TYPE_KPROBE;
	a.prog_btf_fd = btf;
	a.func_info = (unsigned long)funcs, a.func_info_rec_size = sizeof *funcs, a.func_info_cnt = 1 + functions;
	if (rnd(2)) {
		for (i = j = 0; i < n && said < 120; i += 1 + rnd(4)) {
			int half = i > 0 && prog[i - 1].code == (BPF_LD | BPF_IMM | BPF_DW);

			for (; j < functions && starts[j] <= i; j++)
				if (starts[j] < i)
					source[said++] = (struct bpf_line_info){starts[j], 0, lines[rnd(8)], rnd(20) << 10 | 1};
			if (!half)
				source[said++] = (struct bpf_line_info){i, 0, lines[rnd(8)], rnd(20) << 10 | 1};
		}
		for (; j < functions; j++)
			source[said++] = (struct bpf_line_info){starts[j], 0, lines[rnd(8)], rnd(20) << 10 | 1};
		a.line_info = (unsigned long)source, a.line_info_rec_size = sizeof *source, a.line_info_cnt = said;
	}
	tell(number, &a);
}

int main(int argc, char **argv)
{
	unsigned first = argc > 1 ? atoi(argv[1]) : 0, count = argc > 2 ? atoi(argv[2]) : 1, i;
	int btf = describe();

	level = argc > 3 ? atoi(argv[3]) : 2, sums = argc > 4, v4 = argc > 5;
	hash = map(BPF_MAP_TYPE_HASH, 4, 24, 8, 0);
	array = map(BPF_MAP_TYPE_ARRAY, 4, 32, 8, 0);
	ring = map(BPF_MAP_TYPE_RINGBUF, 0, 0, 4096, 0);
	if (hash < 0 || array < 0 || ring < 0 || btf < 0) {
		perror("maps");
		return 2;
	}
	for (i = first; i < first + count; i++)
		load(i, btf);
	return 0;
}
