/* bpflong: jumps whose distance has 32 bits (BPF_JMP32 | BPF_JA), which Linux 6.6 has, and Debian's 6.1. For each program it prints the
 * errno of BPF_PROG_LOAD and the last line of the verifier's log, and what it returns if it was loaded. "bpflong log" prints
 * the log of one at level 2. */
#define _GNU_SOURCE
#include "bpflast.h"
#include "bpfprog.h"
#include <errno.h>
#include <stdio.h>

enum { LONG = BPF_JMP32 | BPF_JA };

static struct bpf_insn big[70000];
static char text[1 << 16];

static void mov(int imm) { put(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, imm); }
static void leave(void) { put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }

static int load(struct bpf_insn *code, int count, int level)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	memset(text, 0, sizeof text);
	a.prog_type = BPF_PROG_TYPE_SOCKET_FILTER, a.insns = (unsigned long)code, a.insn_cnt = count, a.license = (unsigned long)"GPL";
	if (level)
		a.log_level = level, a.log_buf = (unsigned long)text, a.log_size = sizeof text;
	return bpf(BPF_PROG_LOAD, &a);
}

static void result(const char *what, struct bpf_insn *code, int count)
{
	static char packet[64];
	union bpf_attr a;
	int fd = load(code, count, count < 100), error = errno;

	printf("%s: %d %s\n", what, fd < 0 ? error : 0, fd < 0 ? last_line(text) : "");
	if (fd >= 0) {
		memset(&a, 0, sizeof a);
		a.test.prog_fd = fd, a.test.data_in = (unsigned long)packet, a.test.data_size_in = sizeof packet;
		error = bpf(BPF_PROG_TEST_RUN, &a);
		printf("%s returns %d, %u\n", what, error, a.test.retval);
		close(fd);
	}
	n = 0;
}

int main(int argc, char **argv)
{
	int count = 0, log = argc > 1;

	mov(1), put(LONG, 0, 0, 0, 2), mov(2), leave(), put(LONG, 0, 0, 0, -3);
	if (log) {
		load(prog, n, 2);
		for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
			if (strstr(line, "goto"))
				puts(line);
		return 0;
	}
	result("forward, back, and last", prog, n);
	mov(1), put(LONG, 0, 0, 0, 1), mov(2), leave();
	result("over what nothing reaches", prog, n);
	mov(1), put(LONG, 0, 0, 0, 7), leave();
	result("out of the program", prog, n);
	mov(1), put(LONG, 0, 0, 1, 0), leave();
	result("with an offset", prog, n);
	mov(1), put(LONG, 1, 0, 0, 0), leave();
	result("with a register", prog, n);
	mov(1), put(LONG, 0, 1, 0, 0), leave();
	result("with a source", prog, n);
	mov(1), put(LONG | BPF_X, 0, 0, 0, 0), leave();
	result("of a register", prog, n);
	big[count++] = (struct bpf_insn){BPF_LDX | BPF_MEM | BPF_W, 0, 1, 0, 0};
	big[count++] = (struct bpf_insn){BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 999};
	big[count++] = (struct bpf_insn){LONG, 0, 0, 0, 66000};
	while (count < 66003)
		big[count++] = (struct bpf_insn){BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 3};
	big[count++] = (struct bpf_insn){BPF_ALU64 | BPF_ADD | BPF_K, 0, 0, 0, 5};
	big[count++] = (struct bpf_insn){BPF_JMP | BPF_EXIT, 0, 0, 0, 0};
	result("over 66000 instructions", big, count);
	return 0;
}
