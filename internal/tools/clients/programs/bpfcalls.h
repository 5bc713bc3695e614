/* What programs share that ask about maps: calls on elements, a program that is loaded and whose log is printed, and types. */
#include "bpflast.h"
#include "bpfprog.h"
#include <errno.h>
#include <stdio.h>

static inline int update_as(int fd, const void *key, const void *value, unsigned long flags)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.map_fd = fd, a.key = (unsigned long)key, a.value = (unsigned long)value, a.flags = flags;
	return bpf(BPF_MAP_UPDATE_ELEM, &a);
}

static inline int update(int fd, const void *key, const void *value) { return update_as(fd, key, value, 0); }

static inline int one_as(int cmd, int fd, const void *key, void *value, unsigned long flags)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.map_fd = fd, a.key = (unsigned long)key, a.flags = flags;
	if (value)
		a.value = (unsigned long)value;
	return bpf(cmd, &a);
}

static inline int one(int cmd, int fd, const void *key, void *value) { return one_as(cmd, fd, key, value, 0); }

static inline void value(int dst, int fd, int off) { wide(dst, BPF_PSEUDO_MAP_VALUE, fd, off); }

static inline void pointer(int dst, int fd) { wide(dst, BPF_PSEUDO_MAP_FD, fd, 0); }

static inline void call(int helper) { put(BPF_JMP | BPF_CALL, 0, 0, 0, helper); }

static inline void copy(int dst, int src) { put(BPF_MOV | BPF_ALU64 | BPF_X, dst, src, 0, 0); }

static inline void number(int dst, int n) { put(BPF_MOV | BPF_ALU64 | BPF_K, dst, 0, 0, n); }

/* The address of a byte of the stack. */
static inline void stack(int dst, int off)
{
	copy(dst, 10);
	put(BPF_ADD | BPF_ALU64 | BPF_K, dst, 0, 0, off);
}

/* Looks element 0 of a map up. */
static inline void lookup(int fd)
{
	put(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, 0);
	stack(2, -4);
	pointer(1, fd);
	call(BPF_FUNC_map_lookup_elem);
}

static inline void exits(void) { put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }

static inline void returns(int n)
{
	number(0, n);
	exits();
}

static inline void says(const char *name, int result) { printf("%s: %d\n", name, result < 0 ? errno : 0); }

/* Types in BTF. A type's number is what the function returns that adds it. */
static struct {
	struct { unsigned short magic; unsigned char version, flags; unsigned header, types, types_len, names, names_len; } h;
	unsigned b[2048];
} types;
static unsigned words[1024], nwords, ntypes, nnames = 1;
static char names[1024];

static inline int text_of(const char *s)
{
	int at = nnames;

	if (!*s)
		return 0;
	strcpy(names + at, s);
	nnames += strlen(s) + 1;
	return at;
}

static inline void word(unsigned w) { words[nwords++] = w; }

static inline int type(const char *name, int kind, int count, unsigned size)
{
	word(text_of(name)), word((unsigned)kind << 24 | count), word(size);
	return ++ntypes;
}

static inline int integer(const char *name, int size)
{
	int id = type(name, 1, 0, size);

	word(1u << 24 | size * 8);
	return id;
}

static inline void member(const char *name, int of, int byte) { word(text_of(name)), word(of), word(byte * 8); }

static inline int load_types(void)
{
	union bpf_attr a;

	types.h.magic = 0xeb9f, types.h.version = 1, types.h.header = sizeof types.h;
	types.h.types_len = nwords * 4, types.h.names = nwords * 4, types.h.names_len = nnames;
	memcpy(types.b, words, nwords * 4);
	memcpy(types.b + nwords, names, nnames);
	memset(&a, 0, sizeof a);
	a.btf = (unsigned long)&types, a.btf_size = sizeof types.h + nwords * 4 + nnames;
	return bpf(BPF_BTF_LOAD, &a);
}

static char text[1 << 16];

/* A program that was put together, loaded as a says, if it is not NULL. Prints the errno, and the last line of the log but for
 * its statistics. */
static inline int load_as(const char *name, union bpf_attr *with)
{
	union bpf_attr a;
	int fd, err;

	memset(&a, 0, sizeof a);
	if (with)
		a = *with;
	else
		a.prog_type = BPF_PROG_TYPE_KPROBE;
	memset(text, 0, sizeof text);
	a.insns = (unsigned long)prog, a.insn_cnt = n, a.license = (unsigned long)"GPL";
	a.log_level = 1, a.log_buf = (unsigned long)text, a.log_size = sizeof text;
	fd = bpf(BPF_PROG_LOAD, &a);
	err = fd < 0 ? errno : 0;
	printf("%s: %d %s\n", name, err, err ? last_line(text) : "");
	n = 0;
	return fd;
}

static inline void load(const char *name) { close(load_as(name, NULL)); }

/* Says whether a program was loaded, or why not, and closes it. */
static inline void said(const char *what, int fd)
{
	int err = errno;

	printf("%s: %s %s\n", what, fd < 0 ? strerror(err) : "loaded", fd < 0 ? last_line(text) : "");
	if (fd >= 0)
		close(fd);
}
