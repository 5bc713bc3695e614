/* bpfv4: the instructions of -mcpu=v4, which Linux 6.6 has: loads and moves that extend a sign, swaps of bytes, and quotients with a sign.
 *
 *	bpfv4          what BPF_PROG_LOAD says of programs with them: the errno, and the last line of the verifier's log
 *	bpfv4 run      what they make of some numbers
 *	bpfv4 log      the verifier's log at level 2
 *	bpfv4 pin FILE a program with them, loaded and pinned */
#define _GNU_SOURCE
#include "bpflast.h"
#include "bpfprog.h"
#include <errno.h>
#include <stdio.h>

enum { MEMSX = 0x80, SWAP = BPF_ALU64 | BPF_END };

static char text[1 << 16];
static int array;

static int load(int type, int level)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	memset(text, 0, sizeof text);
	a.prog_type = type, a.insns = (unsigned long)prog, a.insn_cnt = n, a.license = (unsigned long)"GPL";
	a.log_level = level, a.log_buf = (unsigned long)text, a.log_size = sizeof text;
	n = 0;
	return bpf(BPF_PROG_LOAD, &a);
}

static void mov(int dst, int imm) { put(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, imm); }
static void copy(int dst, int src) { put(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0); }
static void leave(void) { put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }

/* r6 has the array's value, and r1 and r2 the first two numbers in it. */
static void begin(void)
{
	wide(6, BPF_PSEUDO_MAP_VALUE, array, 0);
	put(BPF_LDX | BPF_MEM | BPF_DW, 1, 6, 0, 0);
	put(BPF_LDX | BPF_MEM | BPF_DW, 2, 6, 8, 0);
}

/* The third is r1. */
static void end(void)
{
	put(BPF_STX | BPF_MEM | BPF_DW, 6, 1, 16, 0);
	mov(0, 0);
	leave();
}

static const long long numbers[] = {
	0, 1, -1, 2, 3, 7, -7, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0xffffff80,
	0x123456789abcdef0, 0x7fffffffffffffff, -0x7fffffffffffffff - 1, -0x80000000ll, -100,
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

/* Prints what one instruction makes of each number, or of each two. */
static void play(const char *what, struct bpf_insn i, int two)
{
	static char packet[64];
	union bpf_attr a;
	long long value[4];
	int fd, key = 0, x, y;

	begin();
	prog[n++] = i;
	end();
	fd = load(BPF_PROG_TYPE_SOCKET_FILTER, 1);
	printf("%s:", what);
	if (fd < 0) {
		printf(" %d %s\n", errno, last_line(text));
		return;
	}
	for (x = 0; x < NUMBERS; x++) {
		for (y = 0; y < (two ? NUMBERS : 1); y++) {
			value[0] = numbers[x], value[1] = numbers[y], value[2] = value[3] = 0;
			memset(&a, 0, sizeof a);
			a.map_fd = array, a.key = (unsigned long)&key, a.value = (unsigned long)value;
			bpf(BPF_MAP_UPDATE_ELEM, &a);
			memset(&a, 0, sizeof a);
			a.test.prog_fd = fd, a.test.data_in = (unsigned long)packet, a.test.data_size_in = sizeof packet;
			if (bpf(BPF_PROG_TEST_RUN, &a) < 0)
				printf(" run %d", errno);
			memset(&a, 0, sizeof a);
			a.map_fd = array, a.key = (unsigned long)&key, a.value = (unsigned long)value;
			bpf(BPF_MAP_LOOKUP_ELEM, &a);
			printf(" %llx", value[2]);
		}
		if (two)
			printf("\n ");
	}
	printf("\n");
	close(fd);
}

static void run(void)
{
	static const int bits[] = {8, 16, 32};
	char what[64];
	int k;

	for (k = 0; k < 3; k++) {
		sprintf(what, "r1 = (s%d)r1", bits[k]);
		play(what, (struct bpf_insn){BPF_ALU64 | BPF_MOV | BPF_X, 1, 1, bits[k], 0}, 0);
		sprintf(what, "w1 = (s%d)w1", bits[k]);
		play(what, (struct bpf_insn){BPF_ALU | BPF_MOV | BPF_X, 1, 1, bits[k], 0}, 0);
		sprintf(what, "r1 = bswap%d r1", 16 << k);
		play(what, (struct bpf_insn){SWAP, 1, 0, 0, 16 << k}, 0);
	}
	play("r1 = *(s8 *)(r6 +1)", (struct bpf_insn){BPF_LDX | MEMSX | BPF_B, 1, 6, 1, 0}, 0);
	play("r1 = *(s16 *)(r6 +2)", (struct bpf_insn){BPF_LDX | MEMSX | BPF_H, 1, 6, 2, 0}, 0);
	play("r1 = *(s32 *)(r6 +4)", (struct bpf_insn){BPF_LDX | MEMSX | BPF_W, 1, 6, 4, 0}, 0);
	play("r1 s/= 3", (struct bpf_insn){BPF_ALU64 | BPF_DIV | BPF_K, 1, 0, 1, 3}, 0);
	play("r1 s/= -1", (struct bpf_insn){BPF_ALU64 | BPF_DIV | BPF_K, 1, 0, 1, -1}, 0);
	play("r1 s%= -3", (struct bpf_insn){BPF_ALU64 | BPF_MOD | BPF_K, 1, 0, 1, -3}, 0);
	play("r1 s%= -1", (struct bpf_insn){BPF_ALU64 | BPF_MOD | BPF_K, 1, 0, 1, -1}, 0);
	play("w1 s/= 3", (struct bpf_insn){BPF_ALU | BPF_DIV | BPF_K, 1, 0, 1, 3}, 0);
	play("w1 s/= -1", (struct bpf_insn){BPF_ALU | BPF_DIV | BPF_K, 1, 0, 1, -1}, 0);
	play("w1 s%= -3", (struct bpf_insn){BPF_ALU | BPF_MOD | BPF_K, 1, 0, 1, -3}, 0);
	play("w1 s%= -1", (struct bpf_insn){BPF_ALU | BPF_MOD | BPF_K, 1, 0, 1, -1}, 0);
	play("r1 s/= r2", (struct bpf_insn){BPF_ALU64 | BPF_DIV | BPF_X, 1, 2, 1, 0}, 1);
	play("r1 s%= r2", (struct bpf_insn){BPF_ALU64 | BPF_MOD | BPF_X, 1, 2, 1, 0}, 1);
	play("w1 s/= w2", (struct bpf_insn){BPF_ALU | BPF_DIV | BPF_X, 1, 2, 1, 0}, 1);
	play("w1 s%= w2", (struct bpf_insn){BPF_ALU | BPF_MOD | BPF_X, 1, 2, 1, 0}, 1);
}

/* Loads the program with the instructions that a case has put, and says what comes of it. */
static void says(const char *what)
{
	int fd = load(BPF_PROG_TYPE_SOCKET_FILTER, 1), error = errno;

	printf("%s: %d %s\n", what, fd < 0 ? error : 0, fd < 0 ? last_line(text) : "");
	if (fd >= 0)
		close(fd);
}

static void one(const char *what, int code, int dst, int src, int off, int imm)
{
	begin();
	put(code, dst, src, off, imm);
	end();
	says(what);
}

static void refusals(void)
{
	static const int sizes[] = {BPF_B, BPF_H, BPF_W, BPF_DW};
	char what[64];
	int k;

	for (k = 0; k < 8; k++) {
		static const int odd[] = {-1, 1, 7, 9, 15, 24, 33, 64};

		sprintf(what, "r1 = r2 with offset %d", odd[k]), one(what, BPF_ALU64 | BPF_MOV | BPF_X, 1, 2, odd[k], 0);
		sprintf(what, "w1 = w2 with offset %d", odd[k]), one(what, BPF_ALU | BPF_MOV | BPF_X, 1, 2, odd[k], 0);
	}
	for (k = 1; k <= 32; k *= 2) {
		sprintf(what, "r1 = 5 with offset %d", k), one(what, BPF_ALU64 | BPF_MOV | BPF_K, 1, 0, k, 5);
		sprintf(what, "w1 = 5 with offset %d", k), one(what, BPF_ALU | BPF_MOV | BPF_K, 1, 0, k, 5);
	}
	for (k = 8; k <= 32; k *= 2) {
		sprintf(what, "r1 = r2 with offset %d", k), one(what, BPF_ALU64 | BPF_MOV | BPF_X, 1, 2, k, 0);
		sprintf(what, "w1 = w2 with offset %d", k), one(what, BPF_ALU | BPF_MOV | BPF_X, 1, 2, k, 0);
		sprintf(what, "r1 = r2 with offset %d and 1", k), one(what, BPF_ALU64 | BPF_MOV | BPF_X, 1, 2, k, 1);
		sprintf(what, "r1 = r7 with offset %d", k), one(what, BPF_ALU64 | BPF_MOV | BPF_X, 1, 7, k, 0);
		sprintf(what, "r1 = r6 with offset %d", k), one(what, BPF_ALU64 | BPF_MOV | BPF_X, 1, 6, k, 0);
		sprintf(what, "w1 = w6 with offset %d", k), one(what, BPF_ALU | BPF_MOV | BPF_X, 1, 6, k, 0);
		sprintf(what, "r10 = r1 with offset %d", k), one(what, BPF_ALU64 | BPF_MOV | BPF_X, 10, 1, k, 0);
		sprintf(what, "bswap%d", 2 * k), one(what, SWAP, 1, 0, 0, 2 * k);
		sprintf(what, "bswap%d with a source", 2 * k), one(what, SWAP, 1, 1, 0, 2 * k);
		sprintf(what, "bswap%d with an offset", 2 * k), one(what, SWAP, 1, 0, 1, 2 * k);
		sprintf(what, "bswap%d to big endian", 2 * k), one(what, SWAP | BPF_X, 1, 0, 0, 2 * k);
		sprintf(what, "bswap%d of a pointer", 2 * k), one(what, SWAP, 6, 0, 0, 2 * k);
	}
	one("bswap8", SWAP, 1, 0, 0, 8);
	one("bswap of what is not set", SWAP, 7, 0, 0, 16);
	for (k = 0; k < 4; k++) {
		static const int ops[] = {BPF_ADD, BPF_DIV, BPF_MOD, BPF_MUL};

		sprintf(what, "operation %x with offset 1", ops[k]), one(what, BPF_ALU64 | ops[k] | BPF_X, 1, 2, 1, 0);
		sprintf(what, "operation %x with offset 2", ops[k]), one(what, BPF_ALU64 | ops[k] | BPF_X, 1, 2, 2, 0);
		sprintf(what, "operation %x with offset -1", ops[k]), one(what, BPF_ALU | ops[k] | BPF_X, 1, 2, -1, 0);
		sprintf(what, "operation %x of 5 with offset 1", ops[k]), one(what, BPF_ALU | ops[k] | BPF_K, 1, 0, 1, 5);
		sprintf(what, "operation %x of 5 with offset 2", ops[k]), one(what, BPF_ALU64 | ops[k] | BPF_K, 1, 0, 2, 5);
		sprintf(what, "operation %x of 0 with offset 1", ops[k]), one(what, BPF_ALU64 | ops[k] | BPF_K, 1, 0, 1, 0);
		sprintf(what, "operation %x of a pointer with offset 1", ops[k]), one(what, BPF_ALU64 | ops[k] | BPF_K, 6, 0, 1, 5);
	}
	one("a cast", BPF_ALU64 | BPF_MOV | BPF_X, 1, 2, 1, 1);
	one("negation with an offset", BPF_ALU64 | BPF_NEG, 1, 0, 1, 0);
	for (k = 0; k < 4; k++) {
		int load = BPF_LDX | MEMSX | sizes[k];

		sprintf(what, "a load of size %x", sizes[k]), one(what, load, 1, 6, 0, 0);
		sprintf(what, "a load of size %x with 1", sizes[k]), one(what, load, 1, 6, 0, 1);
		sprintf(what, "a load of size %x behind the value", sizes[k]), one(what, load, 1, 6, 33, 0);
		sprintf(what, "a load of size %x from a number", sizes[k]), one(what, load, 1, 2, 0, 0);
		sprintf(what, "a load of size %x from what is not set", sizes[k]), one(what, load, 1, 7, 0, 0);
		sprintf(what, "a load of size %x into the frame", sizes[k]), one(what, load, 10, 6, 0, 0);
		sprintf(what, "a load of size %x from the stack", sizes[k]);
		begin(), put(BPF_STX | BPF_MEM | BPF_DW, 10, 1, -8, 0), put(load, 1, 10, -8, 0), end(), says(what);
		sprintf(what, "a load of size %x from a pointer on the stack", sizes[k]);
		begin(), put(BPF_STX | BPF_MEM | BPF_DW, 10, 6, -8, 0), put(load, 1, 10, -8, 0), end(), says(what);
		sprintf(what, "a load of size %x from the context", sizes[k]);
		put(load, 0, 1, 0, 0), leave(), says(what);
		sprintf(what, "a store of size %x", sizes[k]), one(what, BPF_STX | MEMSX | sizes[k], 6, 1, 0, 0);
		sprintf(what, "a store of 5 of size %x", sizes[k]), one(what, BPF_ST | MEMSX | sizes[k], 6, 0, 0, 5);
	}
	/* what is known after them decides about an access */
	for (k = 0; k < 6; k++) {
		static const char *of[] = {"(s8)", "(s16)", "(s32)", "bswap16", "s/= 100", "s%= 100"};
		struct bpf_insn i[] = {
			{BPF_ALU64 | BPF_MOV | BPF_X, 1, 1, 8}, {BPF_ALU64 | BPF_MOV | BPF_X, 1, 1, 16}, {BPF_ALU64 | BPF_MOV | BPF_X, 1, 1, 32},
			{SWAP, 1, 0, 0, 16}, {BPF_ALU64 | BPF_DIV | BPF_K, 1, 0, 1, 100}, {BPF_ALU64 | BPF_MOD | BPF_K, 1, 0, 1, 100}};

		sprintf(what, "a place by %s of 15 bits", of[k]);
		begin(), put(BPF_ALU64 | BPF_AND | BPF_K, 1, 0, 0, 31), prog[n++] = i[k];
		copy(3, 6), put(BPF_ALU64 | BPF_ADD | BPF_X, 3, 1, 0, 0), put(BPF_LDX | BPF_MEM | BPF_B, 0, 3, 0, 0), end(), says(what);
		sprintf(what, "a place by %s of all", of[k]);
		begin(), prog[n++] = i[k];
		copy(3, 6), put(BPF_ALU64 | BPF_ADD | BPF_X, 3, 1, 0, 0), put(BPF_LDX | BPF_MEM | BPF_B, 0, 3, 0, 0), end(), says(what);
	}
}

/* A program with all of them, or without the quotients of two registers, of which Linux makes several instructions. */
static void all(int several)
{
	begin();
	put(BPF_STX | BPF_MEM | BPF_DW, 10, 1, -8, 0);
	put(BPF_LDX | MEMSX | BPF_B, 3, 6, 1, 0);
	put(BPF_LDX | MEMSX | BPF_H, 4, 10, -8, 0);
	put(BPF_LDX | MEMSX | BPF_W, 5, 10, -8, 0);
	put(BPF_ALU64 | BPF_MOV | BPF_X, 1, 2, 8, 0);
	put(BPF_ALU64 | BPF_MOV | BPF_X, 1, 2, 16, 0);
	put(BPF_ALU64 | BPF_MOV | BPF_X, 1, 2, 32, 0);
	put(BPF_ALU | BPF_MOV | BPF_X, 1, 2, 8, 0);
	put(BPF_ALU | BPF_MOV | BPF_X, 1, 2, 16, 0);
	put(SWAP, 1, 0, 0, 16);
	put(SWAP, 1, 0, 0, 32);
	put(SWAP, 1, 0, 0, 64);
	if (several)
		put(BPF_ALU64 | BPF_DIV | BPF_X, 1, 2, 1, 0);
	put(BPF_ALU64 | BPF_DIV | BPF_K, 1, 0, 1, -3);
	if (several)
		put(BPF_ALU | BPF_DIV | BPF_X, 1, 2, 1, 0);
	put(BPF_ALU | BPF_DIV | BPF_K, 1, 0, 1, -3);
	if (several)
		put(BPF_ALU64 | BPF_MOD | BPF_X, 1, 2, 1, 0);
	put(BPF_ALU64 | BPF_MOD | BPF_K, 1, 0, 1, -3);
	if (several)
		put(BPF_ALU | BPF_MOD | BPF_X, 1, 2, 1, 0);
	put(BPF_ALU | BPF_MOD | BPF_K, 1, 0, 1, -3);
	put(BPF_JMP32 | BPF_JA, 0, 0, 0, 0);
	end();
}

/* Extends the signs of numbers of which something is known. */
static void ranges(void)
{
	static const int masks[] = {0x3f, 0x7f, 0xff, 0x180, 0x7fff, 0xffff, 0x7fffffff, -1, -256, 0x40, 0x80, 0x8080};
	static const int codes[] = {BPF_ALU64 | BPF_MOV | BPF_X, BPF_ALU | BPF_MOV | BPF_X};
	int k, j, c;

	begin();
	for (k = 0; k < 12; k++) {
		copy(3, 1), put(BPF_ALU64 | BPF_AND | BPF_K, 3, 0, 0, masks[k]);
		for (c = 0; c < 2; c++)
			for (j = 8; j <= (c ? 16 : 32); j *= 2) {
				put(codes[c], 4, 3, j, 0);
				copy(5, 3), put(BPF_ALU64 | BPF_ADD | BPF_K, 5, 0, 0, 100), put(codes[c], 5, 5, j, 0);
				copy(5, 3), put(BPF_ALU64 | BPF_SUB | BPF_K, 5, 0, 0, 100), put(codes[c], 5, 5, j, 0);
			}
		if (n > 220)
			break;
	}
	for (k = 0; k < 4; k++) {
		mov(3, 0x1234ff80 >> k), put(BPF_ALU64 | BPF_MOV | BPF_X, 4, 3, 8, 0), put(BPF_ALU | BPF_MOV | BPF_X, 4, 3, 16, 0), put(SWAP, 3, 0, 0, 32);
	}
	end();
}

static void logged(void)
{
	int fd = load(BPF_PROG_TYPE_SOCKET_FILTER, 2);
	char *line, *c;

	printf("%d\n", fd < 0 ? errno : 0);
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (!strncmp(line, "verification time ", 18))
			continue;
		if ((c = strstr(line, " = 0xffff")))
			memcpy(c + 3, "MAPMAPMAPMAPMAPMAP", 18);
		puts(line);
	}
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	array = map(BPF_MAP_TYPE_ARRAY, 4, 32, 1, 0);
	if (argc < 2) {
		refusals();
	} else if (!strcmp(argv[1], "run")) {
		run();
	} else if (!strcmp(argv[1], "log")) {
		all(1), logged(), ranges(), logged();
	} else {
		union bpf_attr a;

		all(0);
		memset(&a, 0, sizeof a);
		a.pathname = (unsigned long)argv[2], a.bpf_fd = load(BPF_PROG_TYPE_SOCKET_FILTER, 1);
		if ((int)a.bpf_fd < 0 || bpf(BPF_OBJ_PIN, &a) < 0)
			printf("%d %s\n", errno, last_line(text));
	}
	return 0;
}
