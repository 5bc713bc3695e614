/* bpfhelpers TYPE [rest]: calls each helper of 6.1 in a program of a type, with the program's own context and zeros, and prints which
 * ones there are, and the errno and the last line of the verifier's log where the answer is not the one that a kprobe's program
 * gets. Those that are not here, most of them about sockets and packets, are asked for only with "rest". */
#include "bpfcalls.h"
#include "bpfkernel.h"

enum { first = 1, last = 211 };

static const unsigned char rest[] = {
	9, 10, 11, 13, 17, 18, 19, 20, 21, 23, 24, 26, 28, 29, 30, 31, 32, 33, 34, 38, 39, 40, 41, 43, 44, 46, 47, 48, 50, 51, 54, 56, 65, 66, 68, 69, 79, 83, 84, 85, 86, 95, 96, 97, 98, 99,
	100, 107, 108, 110, 111, 121, 124, 135, 136, 137, 138, 139, 140, 147, 149, 150, 151, 152, 155, 162, 163, 178, 188, 189, 190, 192, 196, 204, 205, 206, 207,
};

static char answers[2][last + 1][256];

static const struct { const char *name; int type, attach, sleeps, kind; const char *at; } types_of[] = {
	{"kprobe", BPF_PROG_TYPE_KPROBE},
	{"sleepable", BPF_PROG_TYPE_KPROBE, 0, 1},
	{"tracepoint", BPF_PROG_TYPE_TRACEPOINT},
	{"perf_event", BPF_PROG_TYPE_PERF_EVENT},
	{"raw_tracepoint", BPF_PROG_TYPE_RAW_TRACEPOINT},
	{"fentry", BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, 0, BTF_KIND_FUNC, "do_sys_openat2"},
	{"fexit", BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT, 0, BTF_KIND_FUNC, "do_sys_openat2"},
	{"tp_btf", BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, 0, BTF_KIND_TYPEDEF, "btf_trace_sys_enter"},
	{"iter", BPF_PROG_TYPE_TRACING, BPF_TRACE_ITER, 0, BTF_KIND_FUNC, "bpf_iter_task"},
	{"syscall", BPF_PROG_TYPE_SYSCALL, 0, 1},
	{"socket_filter", BPF_PROG_TYPE_SOCKET_FILTER},
	{"sched_cls", BPF_PROG_TYPE_SCHED_CLS},
	{"sched_act", BPF_PROG_TYPE_SCHED_ACT},
	{"xdp", BPF_PROG_TYPE_XDP},
};

/* Loads a program of type t that calls a helper, and returns whether the verifier knows that one. */
static int ask(int t, int helper, char *answer)
{
	union bpf_attr a;
	char *end, *line = text;
	int fd, err, i;

	memset(&a, 0, sizeof a);
	a.prog_type = types_of[t].type, a.expected_attach_type = types_of[t].attach, a.prog_flags = types_of[t].sleeps ? BPF_F_SLEEPABLE : 0;
	if (types_of[t].at)
		a.attach_btf_id = ktype(types_of[t].kind, types_of[t].at, NULL);
	n = 0;
	for (i = 2; i < 6; i++)
		put(BPF_ALU64 | BPF_MOV | BPF_K, i, 0, 0, 0);
	put(BPF_JMP | BPF_CALL, 0, 0, 0, helper);
	put(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
	put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	a.insns = (unsigned long)prog, a.insn_cnt = n, a.license = (unsigned long)"GPL";
	a.log_level = 1, a.log_buf = (unsigned long)text, a.log_size = sizeof text;
	text[0] = 0;
	fd = bpf(BPF_PROG_LOAD, &a);
	err = fd < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	if ((end = strstr(text, "processed ")))
		*end = 0;
	if (strlen(text) && text[strlen(text) - 1] == '\n')
		text[strlen(text) - 1] = 0;
	if (strrchr(text, '\n'))
		line = strrchr(text, '\n') + 1;
	snprintf(answer, 256, "%d %s", err, err ? line : "");
	return !strstr(line, "unknown func") && !strstr(line, "invalid func");
}

int main(int argc, char **argv)
{
	int t, h;

	read_kernel();
	for (t = 0; t < sizeof types_of / sizeof *types_of; t++) {
		if (argc < 2 || strcmp(argv[1], types_of[t].name))
			continue;
		for (h = first; h <= last; h++) {
			if (!memchr(rest, h, sizeof rest) == (argc > 2))
				continue;
			ask(0, h, answers[0][h]);
			if (ask(t, h, answers[1][h]))
				printf("%d%s", h, h % 32 ? " " : "\n");
		}
		printf("\n");
		for (h = first; h <= last; h++)
			if (answers[1][h][0] && (!t || strcmp(answers[0][h], answers[1][h])))
				printf("%d: %s\n", h, answers[1][h]);
		return 0;
	}
	return 2;
}
