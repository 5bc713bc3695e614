/* Calls of bpf(2), and a program that is put together instruction by instruction. */
#include <linux/bpf.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int bpf(int cmd, union bpf_attr *a) { return syscall(SYS_bpf, cmd, a, sizeof *a); }

static inline int map(int type, int key, int value, int entries, int flags)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.map_type = type, a.key_size = key, a.value_size = value, a.max_entries = entries, a.map_flags = flags;
	return bpf(BPF_MAP_CREATE, &a);
}

static struct bpf_insn prog[256];
static int n;

static void put(int code, int dst, int src, int off, int imm)
{
	prog[n++] = (struct bpf_insn){code, dst, src, off, imm};
}

/* A load of a 64-bit number, or of a map. */
static inline void wide(int dst, int src, int imm, int high)
{
	put(BPF_LD | BPF_IMM | BPF_DW, dst, src, 0, imm);
	put(0, 0, 0, 0, high);
}
