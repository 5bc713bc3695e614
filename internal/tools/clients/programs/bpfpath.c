/* bpfpath: bpf_d_path and the names of the directories above a file. Prints where the helper is allowed, and the paths of files that this
 * program opens and reads by names of several kinds. */
#define _GNU_SOURCE
#include "bpfcalls.h"
#include "bpfkernel.h"
#include <stdlib.h>
#include <sys/stat.h>

enum { SIZE = 256 };

static int the_map;

/* A program that stores the path of the file that is its first argument, or whose path that is, and the helper's result. */
static int loaded(const char *function, int attach, int off, int size)
{
	union bpf_attr a;
	int skip;

	n = 0;
	copy(9, 1);
	call(BPF_FUNC_get_current_pid_tgid);
	put(BPF_ALU64 | BPF_RSH | BPF_K, 0, 0, 0, 32);
	skip = n, put(BPF_JMP | BPF_JNE | BPF_K, 0, 0, 0, getpid());
	put(BPF_LDX | BPF_MEM | BPF_DW, 1, 9, 0, 0);
	if (off)
		put(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, off);
	value(2, the_map, 8);
	number(3, size);
	call(BPF_FUNC_d_path);
	value(6, the_map, 0);
	put(BPF_STX | BPF_MEM | BPF_DW, 6, 0, 0, 0);
	prog[skip].off = n - skip - 1;
	returns(0);
	memset(&a, 0, sizeof a), memset(text, 0, sizeof text);
	a.prog_type = BPF_PROG_TYPE_TRACING, a.expected_attach_type = attach, a.insns = (unsigned long)prog, a.insn_cnt = n;
	a.license = (unsigned long)"GPL", a.attach_btf_id = ktype(BTF_KIND_FUNC, function, NULL);
	a.log_level = 1, a.log_buf = (unsigned long)text, a.log_size = sizeof text;
	return bpf(BPF_PROG_LOAD, &a);
}

static int link_of(const char *function, int off, int size)
{
	int fd = loaded(function, BPF_TRACE_FENTRY, off, size), link;
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.raw_tracepoint.prog_fd = fd;
	link = bpf(BPF_RAW_TRACEPOINT_OPEN, &a);
	if (fd < 0 || link < 0)
		printf("%s: %s\n%s", function, strerror(errno), text);
	close(fd);
	return link;
}

static void forget(void)
{
	static char none[SIZE + 8];
	int key = 0;

	memset(none + 8, '-', 20);
	update(the_map, &key, none);
}

static void shows(const char *what)
{
	static char v[SIZE + 8];
	int key = 0;

	one(BPF_MAP_LOOKUP_ELEM, the_map, &key, v);
	printf("%s: %lld \"%s\"\n", what, *(long long *)v, v + 8);
}

/* Without its number. */
static void shows_kind(const char *what)
{
	static char v[SIZE + 8];
	int key = 0;

	one(BPF_MAP_LOOKUP_ELEM, the_map, &key, v);
	printf("%s: \"%.6s\"\n", what, v + 8);
}

static void opens(const char *name)
{
	forget();
	close(open(name, O_RDONLY));
	shows(name);
}

int main(void)
{
	static const char *functions[] = {
		"security_file_permission", "security_inode_getattr", "security_file_open", "vfs_truncate", "vfs_fallocate", "dentry_open", "vfs_getattr",
		"filp_close", "vfs_read", "vfs_open", "security_inode_permission",
	};
	unsigned i;
	int link, fd, dir, p[2];
	char c;
	struct btf_type *file = NULL;
	int at = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	read_kernel();
	the_map = map(BPF_MAP_TYPE_ARRAY, 4, SIZE + 8, 1, 0);
	if (ktype(BTF_KIND_STRUCT, "file", &file) > 0)
		for (i = 0; i < BTF_INFO_VLEN(file->info); i++) {
			struct btf_member *m = (struct btf_member *)(file + 1) + i;

			if (!strcmp(knames + m->name_off, "f_path"))
				at = m->offset / 8;
		}
	for (i = 0; i < sizeof functions / sizeof *functions; i++)
		said(functions[i], loaded(functions[i], BPF_TRACE_FENTRY, strstr(functions[i], "file") || strstr(functions[i], "filp") || strstr(functions[i], "vfs_r") || strstr(functions[i], "fallocate") ? at : 0, SIZE));
	said("fexit", loaded("security_file_open", BPF_TRACE_FEXIT, at, SIZE));
	said("fmod_ret", loaded("security_file_open", BPF_MODIFY_RETURN, at, SIZE));
	said("a file", loaded("security_file_open", BPF_TRACE_FENTRY, 0, SIZE));
	said("in a file", loaded("security_file_open", BPF_TRACE_FENTRY, at + 8, SIZE));
	said("no room", loaded("security_file_open", BPF_TRACE_FENTRY, at, 0));
	said("too much room", loaded("security_file_open", BPF_TRACE_FENTRY, at, SIZE + 1));
	n = 0;
	stack(2, -8);
	put(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -8, 0);
	number(3, 8);
	call(BPF_FUNC_d_path);
	returns(0);
	load("a kprobe");
	if (mkdir("/tmp/one", 0755) || mkdir("/tmp/one/two", 0755))
		printf("mkdir: %s\n", strerror(errno));
	close(open("/tmp/one/two/file", O_CREAT | O_RDWR, 0600));
	if (symlink("two", "/tmp/one/link") || chdir("/tmp/one"))
		printf("symlink: %s\n", strerror(errno));
	fd = open("two/file", O_RDWR), dir = open("two", O_RDONLY | O_DIRECTORY);
	if (pipe(p) || write(p[1], "x", 1) != 1)
		return 1;
	link = link_of("security_file_open", at, SIZE);
	opens("/tmp/one/two/file"), opens("two/file"), opens("./two/../two/file"), opens("/dev/null"), opens("/etc"), opens("."), opens("/");
	forget(), close(openat(dir, "file", O_RDONLY)), shows("openat");
	forget(), close(openat(dir, "made", O_RDWR | O_CREAT, 0600)), shows("openat with O_CREAT");
	if (chdir("two"))
		return 1;
	opens("file"), opens("../two/file"), opens("..");
	close(link);
	link = link_of("security_file_open", at, 8);
	opens("/etc"), opens("file");
	close(link);
	link = link_of("security_file_open", at, 0);
	opens("/etc");
	close(link);
	link = link_of("security_file_permission", at, SIZE);
	forget();
	if (read(fd, &c, 1) < 0)
		return 1;
	shows("read");
	forget();
	if (read(p[0], &c, 1) == 1)
		shows_kind("read of a pipe");
	forget();
	if (write(fd, "x", 1) == 1)
		shows("write");
	close(link);
	link = link_of("filp_close", at, SIZE);
	forget(), close(fd), shows("close");
	forget(), close(dir), shows("close of a directory");
	close(link);
	link = link_of("security_inode_getattr", 0, SIZE);
	forget();
	struct stat st;
	if (!stat("file", &st))
		shows("stat");
	forget();
	if (!stat("/etc", &st))
		shows("stat of /etc");
	close(link);
	return system("rm -r /tmp/one");
}
