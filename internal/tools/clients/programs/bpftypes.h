/* Types for programs, and lines of their source. */
#include "bpfwhole.h"
#include <linux/btf.h>

static struct {
	struct btf_header h;
	unsigned types[23];
	char strings[256];
} types;

static unsigned name(char *s)
{
	unsigned at = types.h.str_len;

	strcpy(types.strings + at, s);
	types.h.str_len += strlen(s) + 1;
	return at;
}

static unsigned lines[8];

static int describe(void)
{
	union bpf_attr a;
	unsigned *t = types.types, i;
	char line[] = "  line 0 of the source;";

	types.h = (struct btf_header){.magic = BTF_MAGIC, .version = 1, .hdr_len = sizeof types.h, .str_off = sizeof types.types};
	name("");
	*t++ = name("long"), *t++ = BTF_KIND_INT << 24, *t++ = 8, *t++ = BTF_INT_SIGNED << 24 | 64; /* 1 */
	*t++ = 0, *t++ = BTF_KIND_FUNC_PROTO << 24, *t++ = 1; /* 2 */
	*t++ = name("entry"), *t++ = BTF_KIND_FUNC << 24 | BTF_FUNC_GLOBAL, *t++ = 2; /* 3 */
	*t++ = 0, *t++ = BTF_KIND_FUNC_PROTO << 24 | 2, *t++ = 1, *t++ = name("a"), *t++ = 1, *t++ = name("b"), *t++ = 1; /* 4 */
	*t++ = name("inner"), *t++ = BTF_KIND_FUNC << 24 | BTF_FUNC_STATIC, *t++ = 4; /* 5 */
	*t++ = name("outer"), *t++ = BTF_KIND_FUNC << 24 | BTF_FUNC_GLOBAL, *t++ = 4; /* 6 */
	types.h.type_len = sizeof types.types;
	for (i = 0; i < 8; i++)
		line[7] = '0' + i, lines[i] = name(line);
	memset(&a, 0, sizeof a);
	a.btf = (unsigned long)&types, a.btf_size = sizeof types.h + sizeof types.types + types.h.str_len;
	return bpf(BPF_BTF_LOAD, &a);
}

/* Tells of programs, which build makes. It returns where the second function of one begins, or 0. */
static inline void tell_cases(int cases, int (*build)(int number), int btf)
{
	union bpf_attr a;
	int i;

	for (i = 0; i < cases; i++) {
		struct bpf_func_info funcs[] = {{0, 3}, {0, 5}};

		n = 0;
		funcs[1].insn_off = build(i);
		memset(&a, 0, sizeof a);
		a.prog_type = BPF_PROG_TYPE_KPROBE;
		if (funcs[1].insn_off) {
			a.prog_btf_fd = btf;
			a.func_info = (unsigned long)funcs, a.func_info_rec_size = sizeof *funcs, a.func_info_cnt = 2;
		}
		tell(i, &a);
	}
}
