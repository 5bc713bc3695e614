/* bpfmodify: programs of the attach type BPF_MODIFY_RETURN, which decide in place of the kernel's security hooks. Prints which functions may
 * be modified, what their programs see, and what calls do that are refused so. */
#define _GNU_SOURCE
#include "bpfcalls.h"
#include "bpfkernel.h"
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { PID, ENTRIES, MODIFIES, EXITS, FIRST, RESULT, INSIDE, VALUES };

static int the_map;

static void get(long long *v)
{
	int key = 0;

	one(BPF_MAP_LOOKUP_ELEM, the_map, &key, v);
}

static void begin(int pid)
{
	long long v[VALUES] = {pid};
	int key = 0;

	update(the_map, &key, v);
}

static void add(int at)
{
	value(6, the_map, at * 8);
	put(BPF_LDX | BPF_MEM | BPF_DW, 7, 6, 0, 0);
	put(BPF_ALU64 | BPF_ADD | BPF_K, 7, 0, 0, 1);
	put(BPF_STX | BPF_MEM | BPF_DW, 6, 7, 0, 0);
}

/* A program that counts the hits of the process PID at an element, stores the word of its context at an offset, if that is not -1, into
 * another element, and returns ret there, and 0 elsewhere. */
static int loaded(const char *function, int attach, int count, int word_at, int to, int ret, int flags, int kind)
{
	union bpf_attr a;
	int skip;

	n = 0;
	copy(9, 1);
	call(BPF_FUNC_get_current_pid_tgid);
	put(BPF_ALU64 | BPF_RSH | BPF_K, 0, 0, 0, 32);
	value(6, the_map, PID * 8);
	put(BPF_LDX | BPF_MEM | BPF_DW, 7, 6, 0, 0);
	skip = n, put(BPF_JMP | BPF_JNE | BPF_X, 0, 7, 0, 0);
	add(count);
	if (word_at >= 0) {
		put(BPF_LDX | BPF_MEM | BPF_DW, 8, 9, word_at, 0);
		value(6, the_map, to * 8);
		put(BPF_STX | BPF_MEM | BPF_DW, 6, 8, 0, 0);
	}
	returns(ret);
	prog[skip].off = n - skip - 1;
	returns(0);
	memset(&a, 0, sizeof a), memset(text, 0, sizeof text);
	a.prog_type = kind, a.expected_attach_type = attach, a.insns = (unsigned long)prog, a.insn_cnt = n, a.license = (unsigned long)"GPL";
	a.attach_btf_id = ktype(BTF_KIND_FUNC, function, NULL), a.prog_flags = flags;
	a.log_level = 1, a.log_buf = (unsigned long)text, a.log_size = sizeof text;
	return bpf(BPF_PROG_LOAD, &a);
}

static int attached(const char *function, int attach, int count, int word_at, int to, int ret)
{
	int fd = loaded(function, attach, count, word_at, to, ret, 0, BPF_PROG_TYPE_TRACING), link;
	union bpf_attr a;

	if (fd < 0) {
		printf("%s: %s\n%s", function, strerror(errno), text);
		return -1;
	}
	memset(&a, 0, sizeof a);
	a.raw_tracepoint.prog_fd = fd;
	link = bpf(BPF_RAW_TRACEPOINT_OPEN, &a);
	if (link < 0)
		printf("%s: %s\n", function, strerror(errno));
	close(fd);
	return link;
}

static void verdicts(void)
{
	static const char *functions[] = {
		"security_ptrace_access_check", "security_sb_mount", "security_task_kill", "security_file_alloc", "security_file_free", "security_file_open",
		"security_mmap_file", "security_file_lock", "security_file_permission", "security_inode_alloc", "security_inode_free",
		"security_inode_permission", "security_inode_getattr", "security_inode_mkdir", "security_inode_symlink", "security_inode_unlink",
		"security_inode_create", "security_inode_rmdir", "security_inode_rename", "security_inode_follow_link", "security_d_instantiate",
		"security_bprm_creds_for_exec", "security_bprm_check", "security_bprm_committing_creds", "security_bprm_committed_creds",
		"security_locked_down", "security_sock_rcv_skb", "security_socket_create", "security_socket_post_create", "security_socket_socketpair",
		"security_socket_bind", "security_socket_connect", "security_socket_listen", "security_socket_accept", "security_socket_sendmsg",
		"security_socket_recvmsg", "security_socket_getsockname", "security_socket_getpeername", "security_socket_setsockopt",
		"security_socket_getsockopt", "security_socket_shutdown", "bpf_lsm_file_open", "vfs_read", "do_unlinkat", "kernel_clone", "__x64_sys_read",
		"do_sys_openat2",
	};
	unsigned i;

	for (i = 0; i < sizeof functions / sizeof *functions; i++) {
		said(functions[i], loaded(functions[i], BPF_MODIFY_RETURN, MODIFIES, -1, 0, -1, 0, BPF_PROG_TYPE_TRACING));
		said("  sleepable", loaded(functions[i], BPF_MODIFY_RETURN, MODIFIES, -1, 0, 0, BPF_F_SLEEPABLE, BPF_PROG_TYPE_TRACING));
	}
	said("the result so far", loaded("security_file_open", BPF_MODIFY_RETURN, MODIFIES, 8, FIRST, 0, 0, BPF_PROG_TYPE_TRACING));
	said("after that", loaded("security_file_open", BPF_MODIFY_RETURN, MODIFIES, 16, FIRST, 0, 0, BPF_PROG_TYPE_TRACING));
	said("a result of 5", loaded("security_file_open", BPF_MODIFY_RETURN, MODIFIES, -1, 0, 5, 0, BPF_PROG_TYPE_TRACING));
	said("the result of a function without one", loaded("security_file_free", BPF_MODIFY_RETURN, MODIFIES, 8, FIRST, 0, 0, BPF_PROG_TYPE_TRACING));
	said("a kprobe", loaded("security_file_open", BPF_MODIFY_RETURN, MODIFIES, -1, 0, 0, 0, BPF_PROG_TYPE_KPROBE));
	said("fentry that returns -1", loaded("security_file_open", BPF_TRACE_FENTRY, MODIFIES, -1, 0, -1, 0, BPF_PROG_TYPE_TRACING));
	n = 0;
	number(2, 1);
	call(BPF_FUNC_override_return);
	returns(0);
	load("override_return");
}

static int calls_helper(const char *function, int attach, int helper)
{
	union bpf_attr a;

	n = 0;
	number(2, 0);
	if (helper == BPF_FUNC_get_func_ret)
		stack(2, -8);
	if (helper == BPF_FUNC_get_func_arg)
		stack(3, -8);
	call(helper);
	returns(0);
	memset(&a, 0, sizeof a), memset(text, 0, sizeof text);
	a.prog_type = BPF_PROG_TYPE_TRACING, a.expected_attach_type = attach, a.insns = (unsigned long)prog, a.insn_cnt = n;
	a.license = (unsigned long)"GPL", a.attach_btf_id = ktype(BTF_KIND_FUNC, function, NULL);
	a.log_level = 1, a.log_buf = (unsigned long)text, a.log_size = sizeof text;
	return bpf(BPF_PROG_LOAD, &a);
}

static struct shared {
	volatile int waits, go, err;
	volatile long ret;
} *shared;

/* Waits until the programs look at this process. */
static void ready(void)
{
	shared->waits = 1;
	while (!shared->go)
		sched_yield();
}

static int file(const char *name)
{
	int fd = open(name, O_CREAT | O_RDWR, 0600);

	if (write(fd, "text", 4) < 0)
		exit(1);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static long opens(void) { ready(); return open("f", O_RDONLY); }
static long creates(void) { ready(); return open("new", O_CREAT | O_EXCL | O_RDWR, 0600); }
static long truncates(void) { ready(); return open("f", O_TRUNC | O_WRONLY); }
static long opens_null(void) { ready(); return open("/dev/null", O_RDONLY); }
static long reads(void) { char c; int fd = file("f"); ready(); return read(fd, &c, 1); }
static long writes(void) { int fd = file("f"); ready(); return write(fd, "x", 1); }
static long pipes(void) { int p[2]; if (pipe(p)) exit(1); ready(); return write(p[1], "x", 1); }
static long makes(void) { ready(); return mkdir("made", 0700); }
static long removes(void) { mkdir("made", 0700); ready(); return rmdir("made"); }
static long unlinks(void) { ready(); return unlink("f"); }
static long renames(void) { ready(); return rename("f", "g"); }
static long symlinks(void) { ready(); return symlink("f", "link"); }
static long stats(void) { struct stat st; ready(); return stat("f", &st); }
static long accesses(void) { ready(); return access("f", R_OK); }
static long locks(void) { int fd = file("f"); ready(); return flock(fd, LOCK_EX | LOCK_NB); }
static long maps(void) { int fd = file("f"); ready(); return mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0; }
static long kills(void) { ready(); return kill(getpid(), 0); }
static long mounts(void) { mkdir("made", 0700); ready(); return mount("none", "made", "tmpfs", 0, NULL); }
static long execs(void) { ready(); return execl("/proc/self/exe", "x", "exit", NULL); }
static long makes_socket(void) { ready(); return socket(AF_INET, SOCK_STREAM, 0); }
static long makes_pair(void) { int p[2]; ready(); return socketpair(AF_UNIX, SOCK_STREAM, 0, p); }

static long on_socket(int which)
{
	struct sockaddr_in { unsigned short family, port; unsigned addr; char zero[8]; } in = {AF_INET, 0, 0x0100007f, {0}};
	int fd = socket(AF_INET, which == 4 ? SOCK_DGRAM : SOCK_STREAM, 0), on = 1, p[2];
	socklen_t len = sizeof in;
	char c = 'x';

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, p) || write(p[1], "x", 1) != 1)
		exit(1);
	ready();
	switch (which) {
	case 0: return bind(fd, (void *)&in, sizeof in);
	case 1: return listen(fd, 1);
	case 2: return setsockopt(fd, 1, 2, &on, sizeof on);
	case 3: return getsockname(fd, (void *)&in, &len);
	case 4: return in.port = 0x0900, connect(fd, (void *)&in, sizeof in);
	case 5: return send(p[0], &c, 1, 0);
	case 6: return recv(p[0], &c, 1, 0);
	case 7: return shutdown(p[0], SHUT_RDWR);
	case 8: return len = sizeof on, getsockopt(fd, 1, 2, &on, &len);
	}
	return 0;
}

#define SOCKET(name, which) static long name(void) { return on_socket(which); }
SOCKET(binds, 0)
SOCKET(listens, 1)
SOCKET(sets, 2)
SOCKET(names_of, 3)
SOCKET(connects, 4)
SOCKET(sends, 5)
SOCKET(receives, 6)
SOCKET(shuts, 7)
SOCKET(asks, 8)

/* Has a child make a call, and prints what that has returned and done. */
static void child(const char *what, long (*does)(void))
{
	long long v[VALUES] = {0};
	int status, i;
	struct stat st;
	pid_t pid;

	rmdir("made"), unlink("new"), unlink("g"), unlink("link"), unlink("f");
	close(file("f"));
	memset(shared, 0, sizeof *shared);
	pid = fork();
	if (!pid) {
		shared->ret = does();
		shared->err = errno;
		_exit(0);
	}
	for (i = 0; !shared->waits && i < 10000; i++)
		usleep(1000);
	begin(pid);
	shared->go = 1;
	waitpid(pid, &status, 0);
	get(v);
	begin(0);
	printf("%s: %s, status %#x; %lld %lld %lld, results %d %d, inside %lld;", what, shared->ret < 0 ? strerror(shared->err) : "done", status,
		v[ENTRIES], v[MODIFIES], v[EXITS], (int)v[FIRST], (int)v[RESULT], v[INSIDE]);
	printf("%s%s%s%s%s", access("made", F_OK) ? "" : " made", access("new", F_OK) ? "" : " new", access("g", F_OK) ? "" : " g",
		lstat("link", &st) ? "" : " link", access("f", F_OK) ? "" : " f");
	if (!stat("f", &st))
		printf(" of %lld", (long long)st.st_size);
	putchar('\n');
	fflush(stdout);
}

static void refused(const char *function, const char *what, long (*does)(void))
{
	int link = attached(function, BPF_MODIFY_RETURN, MODIFIES, -1, 0, -EACCES);

	if (link < 0)
		return;
	printf("%s, ", function);
	child(what, does);
	close(link);
}

static void together(void)
{
	int all[8], many[38], i;

	/* security_file_open has one argument: the result is its second */
	all[0] = attached("security_file_open", BPF_MODIFY_RETURN, MODIFIES, 8, FIRST, 0);
	all[1] = attached("security_file_open", BPF_TRACE_FEXIT, EXITS, 8, RESULT, 0);
	all[2] = attached("bpf_lsm_file_open", BPF_TRACE_FENTRY, INSIDE, -1, 0, 0);
	all[3] = attached("security_file_open", BPF_TRACE_FENTRY, ENTRIES, -1, 0, 0);
	child("allowed", opens);
	all[4] = attached("security_file_open", BPF_MODIFY_RETURN, MODIFIES, 8, FIRST, -EPERM);
	child("refused by the second", opens);
	all[5] = attached("security_file_open", BPF_MODIFY_RETURN, MODIFIES, 8, FIRST, -EIO);
	child("and not asked the third", opens);
	close(all[4]);
	child("refused by the third", opens);
	close(all[0]);
	child("which is the only one", opens);
	close(all[1]), close(all[3]);
	child("without others", opens);
	close(all[5]);
	child("by none", opens);
	close(all[2]);
	for (i = 0; i < 38; i++)
		many[i] = attached("security_inode_rmdir", BPF_MODIFY_RETURN, MODIFIES, 16, FIRST, 0);
	attached("security_inode_rmdir", BPF_MODIFY_RETURN, MODIFIES, -1, 0, 0);
	child("38 programs", removes);
	for (i = 0; i < 38; i++)
		close(many[i]);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	read_kernel();
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	the_map = map(BPF_MAP_TYPE_ARRAY, 4, VALUES * 8, 1, 0);
	verdicts();
	said("get_func_ret", calls_helper("security_file_open", BPF_MODIFY_RETURN, BPF_FUNC_get_func_ret));
	said("get_func_arg", calls_helper("security_file_open", BPF_MODIFY_RETURN, BPF_FUNC_get_func_arg));
	said("get_func_arg_cnt", calls_helper("security_file_open", BPF_MODIFY_RETURN, BPF_FUNC_get_func_arg_cnt));
	said("get_func_ip", calls_helper("security_file_open", BPF_MODIFY_RETURN, BPF_FUNC_get_func_ip));
	said("get_attach_cookie", calls_helper("security_file_open", BPF_MODIFY_RETURN, BPF_FUNC_get_attach_cookie));
	together();
	refused("security_file_open", "open", opens);
	refused("security_file_open", "open of a device", opens_null);
	refused("security_file_open", "open with O_TRUNC", truncates);
	refused("security_inode_create", "open with O_CREAT", creates);
	refused("security_inode_permission", "access", accesses);
	refused("security_inode_permission", "open", opens);
	refused("security_file_permission", "read", reads);
	refused("security_file_permission", "write", writes);
	refused("security_file_permission", "write to a pipe", pipes);
	refused("security_inode_mkdir", "mkdir", makes);
	refused("security_inode_rmdir", "rmdir", removes);
	refused("security_inode_unlink", "unlink", unlinks);
	refused("security_inode_rename", "rename", renames);
	refused("security_inode_symlink", "symlink", symlinks);
	refused("security_inode_getattr", "stat", stats);
	refused("security_file_lock", "flock", locks);
	refused("security_mmap_file", "mmap", maps);
	refused("security_task_kill", "kill", kills);
	refused("security_sb_mount", "mount", mounts);
	refused("security_bprm_check", "execve", execs);
	refused("security_bprm_creds_for_exec", "execve", execs);
	refused("security_socket_create", "socket", makes_socket);
	refused("security_socket_post_create", "socket", makes_socket);
	refused("security_socket_socketpair", "socketpair", makes_pair);
	refused("security_socket_bind", "bind", binds);
	refused("security_socket_listen", "listen", listens);
	refused("security_socket_connect", "connect", connects);
	refused("security_socket_setsockopt", "setsockopt", sets);
	refused("security_socket_getsockopt", "getsockopt", asks);
	refused("security_socket_getsockname", "getsockname", names_of);
	refused("security_socket_sendmsg", "send", sends);
	refused("security_socket_recvmsg", "recv", receives);
	refused("security_socket_shutdown", "shutdown", shuts);
	refused("security_file_alloc", "open", opens);
	return 0;
}
