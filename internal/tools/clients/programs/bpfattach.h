/* What programs share that attach one of their own to a probe or to a raw tracepoint. */
#include "bpfcalls.h"
#include <linux/perf_event.h>
#include <sys/ioctl.h>

/* Loads the program that was put together, and prints why it was refused. */
static inline int loaded(int type, int attach)
{
	union bpf_attr a;
	int fd;

	memset(&a, 0, sizeof a), memset(text, 0, sizeof text);
	a.prog_type = type, a.expected_attach_type = attach, a.insns = (unsigned long)prog, a.insn_cnt = n, a.license = (unsigned long)"GPL";
	a.log_level = 1, a.log_buf = (unsigned long)text, a.log_size = sizeof text;
	fd = bpf(BPF_PROG_LOAD, &a);
	if (fd < 0)
		printf("load: %s\n%s", strerror(errno), text);
	return fd;
}

static inline int raw(const char *name, int fd)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.raw_tracepoint.name = (unsigned long)name, a.raw_tracepoint.prog_fd = fd;
	return bpf(BPF_RAW_TRACEPOINT_OPEN, &a);
}

/* Attaches a program to a probe of its own. */
static inline int probe(const char *function, int offset, int returns, int fd)
{
	struct perf_event_attr a;
	FILE *f = fopen("/sys/bus/event_source/devices/kprobe/type", "r");
	int type = 0, event;

	if (!f || fscanf(f, "%d", &type) != 1)
		return -1;
	fclose(f);
	memset(&a, 0, sizeof a);
	a.type = type, a.size = sizeof a, a.config = returns, a.kprobe_func = (unsigned long)function, a.probe_offset = offset;
	event = syscall(SYS_perf_event_open, &a, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0 || ioctl(event, PERF_EVENT_IOC_SET_BPF, fd) || ioctl(event, PERF_EVENT_IOC_ENABLE, 0)) {
		printf("%s: %s\n", function, strerror(errno));
		return -1;
	}
	return event;
}
