/* bpfprint FUNCTION: attaches a program to a function that writes into the trace when this process calls it, and
 * opens a file. */
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static const char format[16] = "opened %d %s\n";
	static char log[65536];
	struct bpf_insn p[] = {
		{BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_current_pid_tgid},
		{BPF_ALU64 | BPF_RSH | BPF_K, 0, 0, 0, 32},
		{BPF_JMP | BPF_JNE | BPF_K, 0, 0, 13, getpid()},
		{BPF_LD | BPF_IMM | BPF_DW, 1, 0, 0, 0}, {0, 0, 0, 0, 0},
		{BPF_STX | BPF_MEM | BPF_DW, 10, 1, -16, 0},
		{BPF_LD | BPF_IMM | BPF_DW, 1, 0, 0, 0}, {0, 0, 0, 0, 0},
		{BPF_STX | BPF_MEM | BPF_DW, 10, 1, -8, 0},
		{BPF_ALU64 | BPF_MOV | BPF_X, 1, 10, 0, 0},
		{BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, -16},
		{BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 14},
		{BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, 42},
		{BPF_ALU64 | BPF_MOV | BPF_X, 4, 10, 0, 0},
		{BPF_ALU64 | BPF_ADD | BPF_K, 4, 0, 0, -16},
		{BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_trace_printk},
		{BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0},
		{BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
	};
	union bpf_attr a;
	struct perf_event_attr e;
	FILE *f = fopen("/sys/bus/event_source/devices/kprobe/type", "r");
	int prog, event;

	memcpy(&p[3].imm, format, 4), memcpy(&p[4].imm, format + 4, 4);
	memcpy(&p[6].imm, format + 8, 4), memcpy(&p[7].imm, format + 12, 4);
	memset(&a, 0, sizeof a);
	a.prog_type = BPF_PROG_TYPE_KPROBE, a.insns = (unsigned long)p, a.insn_cnt = sizeof p / sizeof *p;
	a.license = (unsigned long)"GPL", a.log_level = 1, a.log_buf = (unsigned long)log, a.log_size = sizeof log;
	prog = syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof a);
	if (prog < 0)
		return printf("%s", log), 1;
	memset(&e, 0, sizeof e);
	if (argc < 2 || !f || fscanf(f, "%u", &e.type) != 1)
		return puts("no kprobe events"), 1;
	e.size = sizeof e, e.sample_period = 1, e.wakeup_events = 1, e.kprobe_func = (unsigned long)argv[1];
	event = syscall(SYS_perf_event_open, &e, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		return perror("perf_event_open"), 1;
	if (ioctl(event, PERF_EVENT_IOC_SET_BPF, prog))
		return perror("SET_BPF"), 1;
	if (ioctl(event, PERF_EVENT_IOC_SET_BPF, prog))
		perror("again");
	if (ioctl(event, PERF_EVENT_IOC_ENABLE, 0))
		return perror("ENABLE"), 1;
	close(open("/dev/null", O_RDONLY));
	return 0;
}
