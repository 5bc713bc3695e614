/* bpfkfunc: loads programs that call functions of the kernel, and prints what bpf(2) says of them and the verifier's log, without
 * the numbers of types. */
#include "bpfkernel.h"
#include "bpfwhole.h"
#include <stdlib.h>

static void calls(int off, int id) { put(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_KFUNC_CALL, off, id); }

static void end(void)
{
	put(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
	put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

/* Loads the program, and says in its log NUMBER for one. */
static void loads(const char *what, int type, int id, int level, const char *license)
{
	static const struct { int type, attach, sleeps; } t[] = {{BPF_PROG_TYPE_KPROBE}, {BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY}, {BPF_PROG_TYPE_SYSCALL, 0, 1}, {BPF_PROG_TYPE_SCHED_CLS}};
	char number[16], *at;
	union bpf_attr a;
	int fd, len = sprintf(number, "%d", id);

	memset(&a, 0, sizeof a);
	a.prog_type = t[type].type, a.expected_attach_type = t[type].attach, a.prog_flags = t[type].sleeps ? BPF_F_SLEEPABLE : 0;
	if (t[type].attach)
		a.attach_btf_id = ktype(BTF_KIND_FUNC, "vfs_read", NULL);
	a.insn_cnt = n, a.insns = (unsigned long)prog, a.license = (unsigned long)license;
	a.log_level = level, a.log_size = sizeof text, a.log_buf = (unsigned long)text;
	text[0] = 0;
	fd = bpf(BPF_PROG_LOAD, &a);
	printf("%s, type %d: %d\n", what, type, fd < 0 ? errno : 0);
	if (fd >= 0)
		close(fd);
	while (len > 2 && (at = strstr(text, number))) {
		memmove(at + 1, at + len, strlen(at + len) + 1);
		*at = 'N';
	}
	whole();
	n = 0;
}

int main(void)
{
	int read = (read_kernel(), ktype(BTF_KIND_FUNC, "vfs_read", NULL)), file = ktype(BTF_KIND_STRUCT, "file", NULL), type;

	(void)map, (void)wide, (void)tell;
	for (type = 0; type < 4; type++) {
		calls(0, read), end();
		loads("a function", type, read, 2, "GPL");
	}
	calls(0, read), end();
	loads("without a license", 0, read, 2, "Proprietary");
	calls(0, file), end();
	loads("a structure", 0, file, 2, "GPL");
	calls(0, 0x7ffffff), end();
	loads("no type", 0, 0x7ffffff, 2, "GPL");
	calls(0, -1), end();
	loads("a negative number", 0, -1, 2, "GPL");
	calls(1, read), end();
	loads("of a module", 0, read, 2, "GPL");
	calls(-1, read), end();
	loads("of a negative module", 0, read, 2, "GPL");
	calls(0, 0), end();
	loads("none", 0, 0, 2, "GPL");
	put(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0);
	calls(0, 0), end();
	loads("none that is never called", 0, 0, 2, "GPL");
	put(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0);
	calls(0, read), end();
	loads("one that is never called", 0, read, 2, "GPL");
	put(BPF_JMP | BPF_CALL, 3, BPF_PSEUDO_KFUNC_CALL, 0, read), end();
	loads("with a register", 0, read, 2, "GPL");
	return 0;
}
