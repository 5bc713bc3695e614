/* bpfcases LEVEL: loads programs for one thing each, and prints what bpf(2) says of them and the verifier's log at that level.
 * "bpfcases buffers": which buffers for the log are taken, and what is in one that is too small. */
#include "bpftypes.h"
#include <stdlib.h>

static int array, ring, outer, programs;

static void mov(int r, int imm) { put(BPF_ALU64 | BPF_MOV | BPF_K, r, 0, 0, imm); }
static void copy(int to, int from) { put(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0); }
static void add(int r, int imm) { put(BPF_ALU64 | BPF_ADD | BPF_K, r, 0, 0, imm); }
static void store(int size, int off, int from) { put(BPF_STX | BPF_MEM | size, 10, from, off, 0); }
static void fill(int size, int to, int off) { put(BPF_LDX | BPF_MEM | size, to, 10, off, 0); }
static void zero(int size, int off, int imm) { put(BPF_ST | BPF_MEM | size, 10, 0, off, imm); }
static void helper(int f) { put(BPF_JMP | BPF_CALL, 0, 0, 0, f); }
static void function(int insn) { put(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, insn - n - 1); }
static void end(void) { mov(0, 0); put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }

static void reserve(void)
{
	wide(1, BPF_PSEUDO_MAP_FD, ring, 0);
	mov(2, 8);
	mov(3, 0);
	helper(BPF_FUNC_ringbuf_reserve);
}

static void submit(int r)
{
	copy(1, r);
	mov(2, 0);
	helper(BPF_FUNC_ringbuf_submit);
}

/* A call of bpf_loop with a function that begins at an instruction. */
static void loop(int insn, int flags)
{
	mov(1, 4);
	wide(2, BPF_PSEUDO_FUNC, insn - n - 1, 0);
	copy(3, 10);
	add(3, -8);
	mov(4, flags);
	helper(BPF_FUNC_loop);
}

static void lookup(int map)
{
	zero(BPF_W, -4, 0);
	copy(2, 10);
	add(2, -4);
	wide(1, BPF_PSEUDO_MAP_FD, map, 0);
	helper(BPF_FUNC_map_lookup_elem);
}

/* Puts a program together, and returns where its second function begins, or 0. */
static int build(int number)
{
	static const int sizes[] = {BPF_DW, BPF_W, BPF_H, BPF_B};
	int i;

	switch (number) {
	case 0: /* the stacks of two functions */
		zero(BPF_DW, -512, 0);
		function(4);
		end();
		zero(BPF_DW, -8, 0);
		end();
		return 4;
	case 1:
		zero(BPF_DW, -480, 0);
		function(4);
		end();
		zero(BPF_DW, -8, 0);
		end();
		return 4;
	case 2: /* a function that calls itself */
		function(3);
		end();
		function(3);
		end();
		return 3;
	case 3: case 4: /* memory of no bytes, at the frame pointer and too deep */
		copy(1, 10);
		add(1, number == 3 ? 0 : -520);
		mov(2, 0);
		mov(3, 0);
		helper(BPF_FUNC_probe_read_kernel);
		break;
	case 5: /* pointers as numbers */
		copy(2, 10);
		put(BPF_ALU64 | BPF_NEG, 2, 0, 0, 0);
		copy(2, 1);
		put(BPF_ALU | BPF_END, 2, 0, 0, 32);
		copy(2, 1);
		put(BPF_JMP32 | BPF_JEQ | BPF_K, 2, 0, 1, 0);
		mov(0, 0);
		put(BPF_ALU | BPF_MOV | BPF_X, 3, 1, 0, 0);
		break;
	case 6: /* a number and a pointer */
		mov(0, 77);
		put(BPF_ALU64 | BPF_ADD | BPF_X, 0, 1, 0, 0);
		put(BPF_LDX | BPF_MEM | BPF_B, 2, 1, 0, 0);
		put(BPF_ALU64 | BPF_ADD | BPF_X, 2, 10, 0, 0);
		break;
	case 7: case 8: case 9: case 10: /* a number, and what was stored of it */
		put(BPF_LDX | BPF_MEM | BPF_B, 7, 1, 8, 0);
		put(BPF_ALU64 | BPF_AND | BPF_K, 7, 0, 0, 16);
		copy(8, 7);
		store(sizes[number - 7], -16, 7);
		put(BPF_JMP | BPF_JLT | BPF_K, 7, 0, 1, 8);
		mov(0, 0);
		fill(sizes[number - 7], 3, -16);
		break;
	case 11: /* numbers in the stack */
		zero(BPF_DW, -16, -5);
		zero(BPF_W, -24, -5);
		zero(BPF_B, -32, -5);
		fill(BPF_DW, 2, -16);
		fill(BPF_W, 3, -24);
		fill(BPF_B, 4, -32);
		fill(BPF_DW, 4, -24);
		break;
	case 12: /* two numbers of which nothing is known */
		put(BPF_LDX | BPF_MEM | BPF_DW, 7, 1, 8, 0);
		put(BPF_LDX | BPF_MEM | BPF_DW, 8, 1, 16, 0);
		put(BPF_JMP | BPF_JGT | BPF_X, 7, 8, 0, 0);
		put(BPF_JMP32 | BPF_JGE | BPF_X, 7, 8, 0, 0);
		put(BPF_JMP | BPF_JEQ | BPF_X, 7, 8, 0, 0);
		put(BPF_JMP | BPF_JNE | BPF_X, 7, 8, 0, 0);
		put(BPF_JMP | BPF_JSET | BPF_X, 7, 8, 0, 0);
		break;
	case 13: /* a map in a map */
		lookup(outer);
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 7, 0);
		copy(1, 0);
		copy(2, 10);
		add(2, -4);
		helper(BPF_FUNC_map_lookup_elem);
		copy(6, 0);
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0);
		put(BPF_LDX | BPF_MEM | BPF_W, 1, 6, 0, 0);
		break;
	case 14: case 15: /* a record that a function, or a callback, gives back */
		reserve();
		put(BPF_JMP | BPF_JNE | BPF_K, 0, 0, 2, 0);
		end();
		copy(6, 0);
		copy(1, 0);
		if (number == 14) {
			function(n + 3);
			end();
			i = n;
			submit(1);
		} else {
			store(BPF_DW, -8, 0);
			loop(n + 10, 0);
			submit(6);
			end();
			i = n;
			put(BPF_LDX | BPF_MEM | BPF_DW, 1, 2, 0, 0);
			submit(1);
		}
		end();
		return i;
	case 16: case 17: /* a record that a callback, or a function, keeps */
		if (number == 16)
			loop(9, 0);
		else
			for (i = 0; i < 7; i++)
				i == 6 ? function(n + 3) : mov(i, i);
		end();
		i = n;
		reserve();
		end();
		return i;
	case 18: /* all elements */
		wide(1, BPF_PSEUDO_MAP_FD, array, 0);
		wide(2, BPF_PSEUDO_FUNC, 7, 0);
		mov(3, 0);
		mov(4, 0);
		helper(BPF_FUNC_for_each_map_elem);
		end();
		i = n;
		put(BPF_LDX | BPF_MEM | BPF_W, 0, 2, 0, 0);
		put(BPF_LDX | BPF_MEM | BPF_W, 5, 3, 0, 0);
		put(BPF_ALU64 | BPF_AND | BPF_K, 0, 0, 0, 1);
		put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
		return i;
	case 19: case 20: /* what a callback returns, and bpf_loop with flags */
		loop(9, number == 20);
		end();
		i = n;
		if (number == 20)
			mov(0, 1);
		else
			mov(0, 2);
		put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
		return i;
	case 21: case 22: case 23: /* a tail call: with a record, with another map, and one that is known */
		copy(6, 1);
		if (number == 21)
			reserve();
		copy(1, 6);
		wide(2, BPF_PSEUDO_MAP_FD, number == 22 ? array : programs, 0);
		mov(3, 0);
		helper(BPF_FUNC_tail_call);
	}
	end();
	return 0;
}

enum { cases = 24 };

static void buffers(void)
{
	static const int some[][2] = {{1, 127}, {1, 128}, {2, 128}, {4, 128}, {0, 128}, {8, 4096}, {1, 4096}, {2, 4096}, {7, 4096}, {2, 300}, {1, 300}, {4, 0}, {1, 1 << 30}};
	union bpf_attr a;
	int i, fd, size;

	build(12);
	memset(&a, 0, sizeof a);
	a.prog_type = BPF_PROG_TYPE_KPROBE, a.insn_cnt = n, a.insns = (unsigned long)prog, a.license = (unsigned long)"GPL";
	for (i = 0; i < sizeof some / sizeof *some + 2; i++) {
		int row = i < sizeof some / sizeof *some ? i : 6;

		memset(text, 'x', 8192);
		a.log_level = some[row][0], a.log_size = some[row][1];
		a.log_buf = i < sizeof some / sizeof *some ? (unsigned long)text : i & 1 ? 0 : 8;
		fd = bpf(BPF_PROG_LOAD, &a);
		text[8191] = 0;
		printf("level %d size %d: %d, %d bytes\n", a.log_level, a.log_size, fd < 0 ? errno : 0, text[0] == 'x' ? -1 : (int)strlen(text));
		if (fd >= 0)
			close(fd);
	}
	a.log_level = 2, a.log_buf = (unsigned long)text, a.log_size = sizeof text;
	close(bpf(BPF_PROG_LOAD, &a));
	size = strlen(text);
	for (i = -1; i < 3; i++) { /* as many bytes as there are, more or less */
		a.log_size = size + i;
		fd = bpf(BPF_PROG_LOAD, &a);
		printf("%+d: %d, %+d bytes\n", i, fd < 0 ? errno : 0, (int)strlen(text) - size);
		if (fd >= 0)
			close(fd);
	}
}

int main(int argc, char **argv)
{
	int btf = describe(), inner;
	union bpf_attr a;

	array = map(BPF_MAP_TYPE_ARRAY, 4, 32, 8, 0);
	ring = map(BPF_MAP_TYPE_RINGBUF, 0, 0, 4096, 0);
	inner = map(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0);
	programs = map(BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 2, 0);
	memset(&a, 0, sizeof a);
	a.map_type = BPF_MAP_TYPE_ARRAY_OF_MAPS, a.key_size = a.value_size = 4, a.max_entries = 2, a.inner_map_fd = inner;
	outer = bpf(BPF_MAP_CREATE, &a);
	if (argc > 1 && !strcmp(argv[1], "buffers")) {
		buffers();
		return 0;
	}
	level = argc > 1 ? atoi(argv[1]) : 2;
	tell_cases(cases, build, btf);
	return 0;
}
