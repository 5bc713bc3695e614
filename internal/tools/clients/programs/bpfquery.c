/* bpfquery STEP...: what BPF_TASK_FD_QUERY says of descriptors. Steps: raw NAME, kprobe NAME OFFSET, kretprobe NAME OFFSET,
 * address NAME, uprobe FILE OFFSET, event GROUP/NAME, clock, software N, file, none make a descriptor; run has a program attached to
 * it; query ROOM asks, with ROOM bytes for the name; pid N is the task that is asked for next; fd N is the descriptor. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int bpf(int cmd, union bpf_attr *a, int size) { return syscall(SYS_bpf, cmd, a, size); }

static int say(const char *what, int ret)
{
	printf("%s: %s\n", what, ret < 0 ? strerrorname_np(errno) : "ok");
	fflush(stdout);
	return ret;
}

static int load(int type)
{
	struct bpf_insn code[] = {{BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0}, {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}};
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.prog_type = type, a.insns = (unsigned long)code, a.insn_cnt = 2, a.license = (unsigned long)"GPL";
	return bpf(BPF_PROG_LOAD, &a, sizeof a);
}

static long number(const char *path)
{
	FILE *f = fopen(path, "r");
	long n = -1;

	if (f && fscanf(f, "%ld", &n) == 1)
		fclose(f);
	return n;
}

static unsigned long address(const char *name)
{
	FILE *f = fopen("/proc/kallsyms", "r");
	char line[512], word[256];
	unsigned long at;

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "%lx %*c %255s", &at, word) == 2 && !strcmp(word, name))
			return at;
	return 0;
}

static int event(int type, unsigned long config, const char *name, unsigned long offset)
{
	struct perf_event_attr p;

	memset(&p, 0, sizeof p);
	p.size = sizeof p, p.type = type, p.config = config, p.config1 = (unsigned long)name, p.config2 = offset;
	if (type == PERF_TYPE_SOFTWARE)
		p.sample_period = 1000000;
	return syscall(SYS_perf_event_open, &p, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

int main(int argc, char **argv)
{
	int fd = -1, pid = getpid(), kind = BPF_PROG_TYPE_KPROBE;
	unsigned long at = 0;
	char path[256], name[4096];
	union bpf_attr a;

	for (int n = 1; n < argc; n++) {
		char *step = argv[n];

		memset(&a, 0, sizeof a);
		if (!strcmp(step, "raw")) {
			a.raw_tracepoint.name = (unsigned long)argv[++n], a.raw_tracepoint.prog_fd = load(BPF_PROG_TYPE_RAW_TRACEPOINT);
			fd = say(step, bpf(BPF_RAW_TRACEPOINT_OPEN, &a, sizeof a));
		} else if (!strcmp(step, "kprobe") || !strcmp(step, "kretprobe")) {
			char *symbol = argv[++n];
			fd = say(step, event(number("/sys/bus/event_source/devices/kprobe/type"), step[1] == 'r', symbol, atol(argv[++n])));
			kind = BPF_PROG_TYPE_KPROBE;
		} else if (!strcmp(step, "address")) {
			at = address(argv[++n]);
			fd = say(step, event(number("/sys/bus/event_source/devices/kprobe/type"), 0, NULL, at));
			kind = BPF_PROG_TYPE_KPROBE;
		} else if (!strcmp(step, "uprobe")) {
			char *file = argv[++n];
			fd = say(step, event(number("/sys/bus/event_source/devices/uprobe/type"), 0, file, strtol(argv[++n], NULL, 0)));
			kind = BPF_PROG_TYPE_KPROBE;
		} else if (!strcmp(step, "event")) {
			snprintf(path, sizeof path, "/sys/kernel/tracing/events/%s/id", argv[++n]);
			fd = say(step, event(PERF_TYPE_TRACEPOINT, number(path), NULL, 0));
			kind = strstr(path, "probes/") ? BPF_PROG_TYPE_KPROBE : BPF_PROG_TYPE_TRACEPOINT;
		} else if (!strcmp(step, "clock")) {
			kind = BPF_PROG_TYPE_PERF_EVENT;
			load(kind);
			fd = say(step, event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, NULL, 0));
		} else if (!strcmp(step, "software")) {
			kind = BPF_PROG_TYPE_PERF_EVENT;
			load(kind);
			fd = say(step, event(PERF_TYPE_SOFTWARE, atoi(argv[++n]), NULL, 0));
		} else if (!strcmp(step, "wrong")) {
			say(step, ioctl(fd, PERF_EVENT_IOC_SET_BPF, load(BPF_PROG_TYPE_KPROBE)));
		} else if (!strcmp(step, "file")) {
			fd = open("/proc/self/stat", O_RDONLY);
		} else if (!strcmp(step, "program")) {
			fd = load(BPF_PROG_TYPE_KPROBE);
		} else if (!strcmp(step, "run")) {
			say(step, ioctl(fd, PERF_EVENT_IOC_SET_BPF, load(kind)));
		} else if (!strcmp(step, "link")) {
			a.link_create.prog_fd = load(kind), a.link_create.target_fd = fd, a.link_create.attach_type = BPF_PERF_EVENT;
			fd = say(step, bpf(BPF_LINK_CREATE, &a, sizeof a));
		} else if (!strcmp(step, "pid")) {
			pid = atoi(argv[++n]);
		} else if (!strcmp(step, "fd")) {
			fd = atoi(argv[++n]);
		} else if (!strcmp(step, "flags")) {
			a.task_fd_query.pid = pid, a.task_fd_query.fd = fd, a.task_fd_query.flags = atoi(argv[++n]);
			say(step, bpf(BPF_TASK_FD_QUERY, &a, sizeof a));
		} else if (!strcmp(step, "query")) {
			int room = atoi(argv[++n]), ret;

			memset(name, 0, sizeof name);
			a.task_fd_query.pid = pid, a.task_fd_query.fd = fd, a.task_fd_query.buf_len = room;
			a.task_fd_query.buf = room ? (unsigned long)name : 0;
			ret = say(step, bpf(BPF_TASK_FD_QUERY, &a, sizeof a));
			if (!ret || errno == ENOSPC)
				printf("  kind %u name \"%s\" of %u offset %llu %s program %s\n", a.task_fd_query.fd_type, name, a.task_fd_query.buf_len,
				       a.task_fd_query.probe_offset, !a.task_fd_query.probe_addr ? "no address" : a.task_fd_query.probe_addr == at ? "its address" : "another address",
				       a.task_fd_query.prog_id ? "yes" : "no");
		}
	}
	return 0;
}
