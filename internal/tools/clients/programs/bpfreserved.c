/* bpfreserved: loads programs with an instruction of which a field is not 0 that has to be, or with a register that there is not. */
#include "bpfwhole.h"

int main(void)
{
	static const struct bpf_insn t[] = {
		{5, 0, 0, 0, 0}, {5, 1, 0, 0, 0}, {5, 0, 1, 0, 0}, {5, 0, 0, 0, 1}, {5, 11, 0, 0, 0}, {0x7b, 10, 0, -8, 1}, {0xb7, 0, 0, 1, 0}, {0xb7, 0, 1, 0, 0}, {0xbf, 0, 1, 1, 0},
		{0xbf, 0, 1, 0, 1}, {0x87, 0, 0, 0, 1}, {0x87, 0, 1, 0, 0}, {0x87, 0, 0, 1, 0}, {0x8f, 0, 0, 0, 0}, {0xd4, 0, 1, 0, 16}, {0xd4, 0, 0, 1, 16}, {0xd4, 0, 0, 0, 8},
		{0x07, 0, 1, 0, 1}, {0x07, 0, 0, 1, 1}, {0x0f, 0, 0, 0, 1}, {0x15, 0, 1, 0, 0}, {0x1d, 0, 0, 0, 1}, {0x85, 0, 3, 0, 5}, {0x85, 1, 0, 0, 5}, {0x85, 0, 0, 1, 5},
		{0x95, 1, 0, 0, 0}, {0x95, 0, 0, 0, 1}, {0x79, 0, 1, 0, 1}, {0x7a, 10, 1, -8, 1}, {0xdb, 10, 0, -8, 0x77}, {0x16, 0, 1, 0, 0}, {0xb7, 11, 0, 0, 0}, {0xbf, 0, 12, 0, 0},
		{0xbc, 0, 1, 0, 3}, {0x77, 0, 1, 0, 3}, {0x73, 11, 0, 0, 0}, {0x61, 0, 11, 0, 0}, {0x62, 11, 0, 0, 0}, {0x15, 11, 0, 0, 0}, {0x1d, 0, 11, 0, 0}, {0xd7, 0, 0, 0, 16},
		{0x18, 0, 0, 1, 0},
	};
	union bpf_attr a;
	int i;

	(void)map, (void)wide;
	level = 2;
	for (i = 0; i < sizeof t / sizeof *t; i++) {
		n = 0;
		put(0xb7, 0, 0, 0, 0);
		prog[n++] = t[i];
		if (t[i].code == 0x18)
			put(0, 0, 0, 0, 0);
		put(0xb7, 0, 0, 0, 0);
		put(0x95, 0, 0, 0, 0);
		memset(&a, 0, sizeof a);
		a.prog_type = BPF_PROG_TYPE_KPROBE;
		tell(i, &a);
	}
	return 0;
}
