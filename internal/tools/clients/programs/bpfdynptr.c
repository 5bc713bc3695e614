/* bpfdynptr LEVEL: loads programs with dynptrs, accepted ones and one for each rule, and prints what bpf(2) says of them and the
 * verifier's log at that level. "bpfdynptr runs" runs programs with dynptrs and other helpers, and prints what they return. */
#include "bpftypes.h"
#include <stdlib.h>

static int array, ring, percpu, percpu_hash;

static void mov(int r, int imm) { put(BPF_ALU64 | BPF_MOV | BPF_K, r, 0, 0, imm); }
static void copy(int to, int from) { put(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0); }
static void add(int r, int imm) { put(BPF_ALU64 | BPF_ADD | BPF_K, r, 0, 0, imm); }
static void zero(int size, int off, int imm) { put(BPF_ST | BPF_MEM | size, 10, 0, off, imm); }
static void fill(int size, int to, int off) { put(BPF_LDX | BPF_MEM | size, to, 10, off, 0); }
static void helper(int f) { put(BPF_JMP | BPF_CALL, 0, 0, 0, f); }
static void function(int insn) { put(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, insn - n - 1); }
static void leave(void) { put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }
static void end(void) { mov(0, 0); leave(); }
static void at(int r, int off) { copy(r, 10); add(r, off); }

/* r7 is the value of element 0 of a map. */
static void lookup(int map)
{
	zero(BPF_W, -4, 0);
	at(2, -4);
	wide(1, BPF_PSEUDO_MAP_FD, map, 0);
	helper(BPF_FUNC_map_lookup_elem);
	put(BPF_JMP | BPF_JNE | BPF_K, 0, 0, 2, 0);
	end();
	copy(7, 0);
}

/* A dynptr of 16 bytes of an element of the array. */
static void from_mem(int off)
{
	lookup(array);
	copy(1, 7);
	mov(2, 16);
	mov(3, 0);
	at(4, off);
	helper(BPF_FUNC_dynptr_from_mem);
}

static void reserve(int off)
{
	wide(1, BPF_PSEUDO_MAP_FD, ring, 0);
	mov(2, 24);
	mov(3, 0);
	at(4, off);
	helper(BPF_FUNC_ringbuf_reserve_dynptr);
}

static void ends(int off, int f)
{
	at(1, off);
	mov(2, 0);
	helper(f);
}

static void submit(int off) { ends(off, BPF_FUNC_ringbuf_submit_dynptr); }

static void data(int off, int from, int size)
{
	at(1, off);
	mov(2, from);
	mov(3, size);
	helper(BPF_FUNC_dynptr_data);
}

static void reads(int to, int size, int off)
{
	at(1, to);
	mov(2, size);
	at(3, off);
	mov(4, 0);
	mov(5, 0);
	helper(BPF_FUNC_dynptr_read);
}

static void writes(int off, int from, int size)
{
	at(1, off);
	mov(2, 0);
	at(3, from);
	mov(4, size);
	mov(5, 0);
	helper(BPF_FUNC_dynptr_write);
}

static void calls_loop(int insn)
{
	mov(1, 4);
	wide(2, BPF_PSEUDO_FUNC, insn - n - 1, 0);
	at(3, -16);
	mov(4, 0);
	helper(BPF_FUNC_loop);
}

enum { cases = 56 };

/* Puts a program together, and returns where its second function begins, or 0. */
static int build(int number)
{
	int i;

	switch (number) {
	case 0: /* read and written */
		from_mem(-24);
		reads(-40, 8, -24);
		writes(-24, -40, 8);
		break;
	case 1: /* its memory */
		from_mem(-24);
		data(-24, 0, 8);
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2, 0);
		put(BPF_LDX | BPF_MEM | BPF_DW, 1, 0, 0, 0);
		put(BPF_STX | BPF_MEM | BPF_B, 0, 1, 7, 0);
		break;
	case 2: /* a record */
		reserve(-16);
		writes(-16, -32, 8);
		submit(-16);
		break;
	case 3:
		reserve(-16);
		data(-16, 0, 24);
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0);
		put(BPF_ST | BPF_MEM | BPF_W, 0, 0, 20, 7);
		ends(-16, BPF_FUNC_ringbuf_discard_dynptr);
		break;
	case 4: /* not given back */
		reserve(-16);
		break;
	case 5: /* given back twice */
		reserve(-16);
		submit(-16);
		submit(-16);
		break;
	case 6: /* its memory after that */
		reserve(-16);
		data(-16, 0, 8);
		copy(8, 0);
		submit(-16);
		put(BPF_LDX | BPF_MEM | BPF_DW, 1, 8, 0, 0);
		break;
	case 7: /* its memory after a check, and that */
		reserve(-16);
		data(-16, 0, 8);
		put(BPF_JMP | BPF_JNE | BPF_K, 0, 0, 5, 0);
		submit(-16);
		end();
		copy(8, 0);
		submit(-16);
		put(BPF_LDX | BPF_MEM | BPF_DW, 1, 8, 0, 0);
		break;
	case 8: /* none */
		at(1, -16);
		mov(2, 0);
		mov(3, 8);
		helper(BPF_FUNC_dynptr_data);
		break;
	case 9: /* not made, of a stack that is used */
		zero(BPF_DW, -32, 0);
		data(-16, 0, 8);
		break;
	case 10: /* the second half of one */
		from_mem(-24);
		data(-16, 0, 8);
		break;
	case 11: /* overwritten */
		from_mem(-24);
		zero(BPF_DW, -24, 0);
		data(-24, 0, 8);
		break;
	case 12: /* partly */
		from_mem(-24);
		zero(BPF_B, -16, 0);
		data(-24, 0, 8);
		break;
	case 13: /* a record's overwritten */
		reserve(-16);
		zero(BPF_DW, -16, 0);
		submit(-16);
		break;
	case 14: /* made twice */
		from_mem(-24);
		from_mem(-24);
		break;
	case 15: /* half of it made twice */
		from_mem(-24);
		from_mem(-32);
		break;
	case 16: /* read by the program */
		from_mem(-24);
		fill(BPF_DW, 1, -24);
		break;
	case 17:
		from_mem(-24);
		fill(BPF_B, 1, -9);
		break;
	case 18: /* read by a helper */
		from_mem(-24);
		zero(BPF_DW, -32, 0);
		wide(1, BPF_PSEUDO_MAP_FD, ring, 0);
		at(2, -32);
		mov(3, 24);
		mov(4, 0);
		helper(BPF_FUNC_ringbuf_output);
		break;
	case 19: /* read somewhere */
		from_mem(-24);
		put(BPF_ALU64 | BPF_AND | BPF_K, 0, 0, 0, 7);
		at(1, -24);
		put(BPF_ALU64 | BPF_ADD | BPF_X, 1, 0, 0, 0);
		put(BPF_LDX | BPF_MEM | BPF_B, 1, 1, 0, 0);
		break;
	case 20: /* written somewhere */
		from_mem(-24);
		put(BPF_ALU64 | BPF_AND | BPF_K, 0, 0, 0, 7);
		at(1, -24);
		put(BPF_ALU64 | BPF_ADD | BPF_X, 1, 0, 0, 0);
		put(BPF_ST | BPF_MEM | BPF_B, 1, 0, 0, 0);
		data(-24, 0, 8);
		break;
	case 21: /* of the stack */
		at(1, -40);
		mov(2, 8);
		mov(3, 0);
		at(4, -16);
		helper(BPF_FUNC_dynptr_from_mem);
		break;
	case 22: /* of the stack, which is written */
		zero(BPF_DW, -40, 0);
		at(1, -40);
		mov(2, 8);
		mov(3, 0);
		at(4, -16);
		helper(BPF_FUNC_dynptr_from_mem);
		break;
	case 23: /* of more than there is */
		lookup(array);
		copy(1, 7);
		mov(2, 33);
		mov(3, 0);
		at(4, -24);
		helper(BPF_FUNC_dynptr_from_mem);
		break;
	case 24: /* not at a slot */
		lookup(array);
		copy(1, 7);
		mov(2, 8);
		mov(3, 0);
		at(4, -28);
		helper(BPF_FUNC_dynptr_from_mem);
		break;
	case 25: /* too near to the top */
		reserve(-8);
		break;
	case 26: /* above it */
		reserve(0);
		break;
	case 27: /* too deep */
		reserve(-520);
		break;
	case 28: /* to the bottom */
		reserve(-512);
		submit(-512);
		break;
	case 29: /* in a map's value */
		lookup(array);
		wide(1, BPF_PSEUDO_MAP_FD, ring, 0);
		mov(2, 8);
		mov(3, 0);
		copy(4, 7);
		helper(BPF_FUNC_ringbuf_reserve_dynptr);
		break;
	case 30: /* at an offset that is not known */
		put(BPF_LDX | BPF_MEM | BPF_DW, 8, 1, 0, 0);
		put(BPF_ALU64 | BPF_AND | BPF_K, 8, 0, 0, 8);
		zero(BPF_DW, -40, 0);
		wide(1, BPF_PSEUDO_MAP_FD, ring, 0);
		mov(2, 8);
		mov(3, 0);
		at(4, -32);
		put(BPF_ALU64 | BPF_ADD | BPF_X, 4, 8, 0, 0);
		helper(BPF_FUNC_ringbuf_reserve_dynptr);
		submit(-32);
		break;
	case 31: /* one of memory, submitted */
		from_mem(-24);
		submit(-24);
		break;
	case 32: /* of memory in a stale slot */
		reserve(-24);
		submit(-24);
		from_mem(-24);
		submit(-24);
		break;
	case 33: /* a size that is not known */
		from_mem(-24);
		copy(3, 0);
		at(1, -24);
		mov(2, 0);
		helper(BPF_FUNC_dynptr_data);
		break;
	case 34: /* more than its memory is taken */
		from_mem(-24);
		data(-24, 0, 64);
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0);
		put(BPF_LDX | BPF_MEM | BPF_DW, 1, 0, 60, 0);
		break;
	case 35: /* its memory is not checked */
		from_mem(-24);
		data(-24, 0, 8);
		put(BPF_LDX | BPF_MEM | BPF_B, 1, 0, 0, 0);
		break;
	case 36: /* no map of rings */
		wide(1, BPF_PSEUDO_MAP_FD, array, 0);
		mov(2, 8);
		mov(3, 0);
		at(4, -16);
		helper(BPF_FUNC_ringbuf_reserve_dynptr);
		break;
	case 37: /* in a function */
		at(1, -16);
		reserve(-16);
		at(1, -16);
		function(n + 3);
		end();
		i = n;
		mov(2, 0);
		helper(BPF_FUNC_ringbuf_submit_dynptr);
		end();
		return i;
	case 38: /* a function makes it for its caller */
		zero(BPF_DW, -16, 0);
		at(1, -16);
		function(n + 6);
		submit(-16);
		leave();
		i = n;
		copy(4, 1);
		wide(1, BPF_PSEUDO_MAP_FD, ring, 0);
		mov(2, 8);
		mov(3, 0);
		helper(BPF_FUNC_ringbuf_reserve_dynptr);
		end();
		return i;
	case 39: /* a function keeps it */
		function(n + 3);
		end();
		i = n;
		reserve(-16);
		end();
		return i;
	case 40: /* a callback gives it back */
		reserve(-16);
		calls_loop(n + 9);
		submit(-16);
		leave();
		i = n;
		copy(1, 2);
		mov(2, 0);
		helper(BPF_FUNC_ringbuf_submit_dynptr);
		end();
		return i;
	case 41: /* a callback keeps it */
		calls_loop(n + 9);
		end();
		i = n;
		reserve(-16);
		end();
		return i;
	case 42: /* a branch that makes it */
		put(BPF_LDX | BPF_MEM | BPF_DW, 8, 1, 0, 0);
		zero(BPF_DW, -16, 0);
		zero(BPF_DW, -8, 0);
		put(BPF_JMP | BPF_JEQ | BPF_K, 8, 0, 7, 0);
		reserve(-16);
		mov(9, 0);
		mov(9, 0);
		mov(9, 0);
		submit(-16);
		break;
	case 43: /* two */
		reserve(-16);
		reserve(-32);
		writes(-16, -48, 8);
		submit(-32);
		submit(-16);
		break;
	case 44: /* both in the wrong order */
		reserve(-16);
		reserve(-32);
		submit(-16);
		data(-16, 0, 8);
		submit(-32);
		break;
	case 45: /* the memory of one dynptr in another */
		reserve(-16);
		data(-16, 0, 8);
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 5, 0);
		copy(1, 0);
		mov(2, 8);
		mov(3, 0);
		at(4, -32);
		helper(BPF_FUNC_dynptr_from_mem);
		submit(-16);
		break;
	case 46: /* read into its own place */
		from_mem(-24);
		reads(-24, 8, -24);
		data(-24, 0, 8);
		break;
	case 47: /* written of its own place */
		from_mem(-24);
		writes(-24, -24, 8);
		break;
	case 48: /* no bytes */
		from_mem(-24);
		reads(-40, 0, -24);
		writes(-24, -40, 0);
		break;
	case 49: /* a pointer over it, which is not one any more */
		from_mem(-24);
		put(BPF_STX | BPF_MEM | BPF_DW, 10, 7, -24, 0);
		fill(BPF_DW, 1, -24);
		fill(BPF_DW, 1, -16);
		break;
	case 50: /* a loop around it */
		mov(6, 0);
		i = n;
		reserve(-16);
		submit(-16);
		add(6, 1);
		put(BPF_JMP | BPF_JLT | BPF_K, 6, 0, i - n - 1, 5);
		break;
	case 51: /* an element of another CPU */
		zero(BPF_W, -4, 0);
		wide(1, BPF_PSEUDO_MAP_FD, percpu, 0);
		at(2, -4);
		mov(3, 1);
		helper(BPF_FUNC_map_lookup_percpu_elem);
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0);
		put(BPF_LDX | BPF_MEM | BPF_DW, 1, 0, 8, 0);
		break;
	case 52:
		zero(BPF_W, -4, 0);
		wide(1, BPF_PSEUDO_MAP_FD, array, 0);
		at(2, -4);
		mov(3, 1);
		helper(BPF_FUNC_map_lookup_percpu_elem);
		break;
	case 53: /* a pointer that is exchanged */
		lookup(array);
		copy(1, 7);
		mov(2, 0);
		helper(BPF_FUNC_kptr_xchg);
		break;
	case 54: /* the registers of a task */
		helper(BPF_FUNC_get_current_task_btf);
		copy(1, 0);
		helper(BPF_FUNC_task_pt_regs);
		put(BPF_LDX | BPF_MEM | BPF_DW, 1, 0, 112, 0);
		break;
	case 55: /* where its memory is */
		helper(BPF_FUNC_get_current_task_btf);
		copy(1, 0);
		mov(2, 0);
		wide(3, BPF_PSEUDO_FUNC, n + 8 - n - 1, 0);
		at(4, -16);
		mov(5, 0);
		helper(BPF_FUNC_find_vma);
		leave();
		i = n;
		prog[i - 7].imm = i - (i - 7) - 1;
		put(BPF_LDX | BPF_MEM | BPF_DW, 1, 3, 0, 0);
		end();
		return i;
	}
	end();
	return 0;
}

/* Runs a program once and prints what it returns. */
static void runs(const char *name)
{
	static char packet[64];
	union bpf_attr a;
	int fd;

	memset(&a, 0, sizeof a);
	a.prog_type = BPF_PROG_TYPE_SCHED_CLS;
	a.insn_cnt = n, a.insns = (unsigned long)prog, a.license = (unsigned long)"GPL";
	a.log_level = 1, a.log_size = sizeof text, a.log_buf = (unsigned long)text;
	fd = bpf(BPF_PROG_LOAD, &a);
	n = 0;
	if (fd < 0) {
		printf("%s: errno %d\n%s", name, errno, text);
		return;
	}
	memset(&a, 0, sizeof a);
	a.test.prog_fd = fd, a.test.data_in = (unsigned long)packet, a.test.data_size_in = sizeof packet;
	if (bpf(BPF_PROG_TEST_RUN, &a))
		printf("%s: errno %d\n", name, errno);
	else
		printf("%s: %d\n", name, (int)a.test.retval);
	close(fd);
}

/* The number at the begin of a text, and how long it is. */
static void parses(const char *s, int base, int f, const char *name)
{
	int i, size = strlen(s);
	char what[128];

	for (i = 0; i < size; i++)
		zero(BPF_B, -96 + i, s[i]);
	zero(BPF_DW, -8, 0);
	at(1, -96);
	mov(2, size);
	mov(3, base);
	at(4, -8);
	helper(f);
	copy(6, 0);
	snprintf(what, sizeof what, "%s of \"%s\", base %d", name, s, base);
	i = n;
	leave();
	runs(what);
	n = i;
	fill(BPF_DW, 0, -8);
	leave();
	runs("  the number");
	n = i;
	fill(BPF_DW, 0, -8);
	put(BPF_ALU64 | BPF_RSH | BPF_K, 0, 0, 0, 32);
	leave();
	runs("  its upper half");
}

static void all(void)
{
	static const struct { const char *s; int base; } t[] = {
		{"123", 10}, {"  42 rest", 10}, {"-7", 10}, {"-7", 0}, {"0x1fg", 0}, {"0x1f", 16}, {"1f", 16}, {"017", 0}, {"0", 0}, {"08", 0}, {"08", 8}, {"0x", 0}, {"0xg", 0},
		{"", 10}, {"-", 10}, {" ", 10}, {"abc", 10}, {"9", 8}, {"1", 7}, {"1", 32}, {"+1", 10}, {"9223372036854775807", 10}, {"9223372036854775808", 10}, {"-9223372036854775808", 10},
		{"-9223372036854775809", 10}, {"18446744073709551615", 10}, {"18446744073709551616", 10}, {"--1", 10}, {"1_0", 0}, {"-0x10", 0}, {"1\t2", 10}, {"\t\n5", 10},
		{"000000000000000000000000000000000000000000000000000000000000000000000000012", 10},
	};
	static const int sizes[][3] = {{16, 0, 0}, {32, 0, 0}, {16, 1, 0}, {0, 0, 0}};
	int i, k, key, v[4];
	union bpf_attr a;

	for (i = 0; i < 4; i++) {
		lookup(array);
		copy(1, 7);
		mov(2, sizes[i][0]);
		mov(3, sizes[i][1]);
		at(4, -24);
		helper(BPF_FUNC_dynptr_from_mem);
		k = n;
		leave();
		runs("from memory");
		n = k;
		reads(-40, 8, -24);
		leave();
		runs("  read");
		n = k;
		zero(BPF_DW, -40, 77);
		writes(-24, -40, 8);
		leave();
		runs("  write");
		n = k;
		zero(BPF_DW, -48, 3);
		reads(-48, 16, -24);
		fill(BPF_DW, 0, -48);
		leave();
		runs("  what was read");
		n = k;
		data(-24, 8, 8);
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0);
		mov(0, 1);
		leave();
		runs("  its memory");
		n = k;
		data(-24, 9, 8);
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0);
		mov(0, 1);
		leave();
		runs("  behind it");
		n = k;
		at(1, -40);
		mov(2, 8);
		at(3, -24);
		mov(4, 9);
		mov(5, 0);
		helper(BPF_FUNC_dynptr_read);
		leave();
		runs("  read behind it");
		n = k;
		at(1, -40);
		mov(2, 8);
		at(3, -24);
		mov(4, 0);
		mov(5, 1);
		helper(BPF_FUNC_dynptr_read);
		leave();
		runs("  read with flags");
	}
	for (i = 0; i < 6; i++) {
		static const int t[][2] = {{24, 0}, {24, 1}, {0, 0}, {8000, 0}, {1 << 24, 0}, {-1, 0}};

		wide(1, BPF_PSEUDO_MAP_FD, ring, 0);
		mov(2, t[i][0]);
		mov(3, t[i][1]);
		at(4, -16);
		helper(BPF_FUNC_ringbuf_reserve_dynptr);
		copy(6, 0);
		zero(BPF_DW, -24, 5);
		writes(-16, -24, 8);
		copy(7, 0);
		ends(-16, i % 2 ? BPF_FUNC_ringbuf_discard_dynptr : BPF_FUNC_ringbuf_submit_dynptr);
		k = n;
		copy(0, 6);
		leave();
		runs("a record");
		n = k;
		copy(0, 7);
		leave();
		runs("  a write to it");
		wide(1, BPF_PSEUDO_MAP_FD, ring, 0);
		mov(2, 3);
		helper(BPF_FUNC_ringbuf_query);
		leave();
		runs("  up to where records are");
	}
	for (i = 0; i < 2; i++)
		for (k = 0; k < 3; k++) {
			zero(BPF_W, -4, 0);
			wide(1, BPF_PSEUDO_MAP_FD, i ? percpu_hash : percpu, 0);
			at(2, -4);
			mov(3, k == 2 ? 1 << 20 : 0);
			helper(BPF_FUNC_map_lookup_percpu_elem);
			put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0);
			put(BPF_LDX | BPF_MEM | BPF_DW, 0, 0, 0, 0);
			leave();
			runs(i ? "of a hash" : "of an array");
			if (k)
				continue;
			key = 0, v[0] = 5 + i, v[1] = 0;
			memset(&a, 0, sizeof a);
			{
				static long values[1024];

				values[0] = v[0];
				a.map_fd = i ? percpu_hash : percpu, a.key = (unsigned long)&key, a.value = (unsigned long)values;
				printf("update: %d\n", bpf(BPF_MAP_UPDATE_ELEM, &a) ? errno : 0);
			}
		}
	for (i = 0; i < sizeof t / sizeof *t; i++) {
		parses(t[i].s, t[i].base, BPF_FUNC_strtol, "strtol");
		parses(t[i].s, t[i].base, BPF_FUNC_strtoul, "strtoul");
	}
}

int main(int argc, char **argv)
{
	int btf = describe();

	array = map(BPF_MAP_TYPE_ARRAY, 4, 32, 8, 0);
	ring = map(BPF_MAP_TYPE_RINGBUF, 0, 0, 4096, 0);
	percpu = map(BPF_MAP_TYPE_PERCPU_ARRAY, 4, 16, 1, 0);
	percpu_hash = map(BPF_MAP_TYPE_PERCPU_HASH, 4, 8, 1, 0);
	if (argc > 1 && !strcmp(argv[1], "runs")) {
		all();
		return 0;
	}
	level = argc > 1 ? atoi(argv[1]) : 2;
	tell_cases(cases, build, btf);
	return 0;
}
