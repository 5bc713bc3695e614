/* bpfsignal: programs send signals to the task whose call has hit them. Prints what a child sees of them that makes one call, and
 * what the helpers return. */
#define _GNU_SOURCE
#include "bpfattach.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { PID, NR, SIG, RET, HITS, SECOND, VALUES };	/* the elements */

static int the_map;

static long long get(int at)
{
	long long v[VALUES] = {0};
	int key = 0;

	one(BPF_MAP_LOOKUP_ELEM, the_map, &key, v);
	return v[at];
}

static void set(int at, long long to)
{
	long long v[VALUES] = {0};
	int key = 0;

	one(BPF_MAP_LOOKUP_ELEM, the_map, &key, v);
	v[at] = to;
	update(the_map, &key, v);
}

static void element(int reg, int key, int dst)
{
	value(reg, the_map, key * 8);
	if (dst >= 0)
		put(BPF_LDX | BPF_MEM | BPF_DW, dst, reg, 0, 0);
}

/* A program that sends the signal SIG in the process PID, at the system call NR, if at is not -1 the offset of the call's number in the
 * first argument. twice: a second time. */
static int sender(int type, int attach, int helper, int at, int twice)
{
	int skips[4], k = 0;

	n = 0;
	copy(9, 1);
	call(BPF_FUNC_get_current_pid_tgid);
	put(BPF_ALU64 | BPF_RSH | BPF_K, 0, 0, 0, 32);
	element(6, PID, 7);
	skips[k++] = n, put(BPF_JMP | BPF_JNE | BPF_X, 0, 7, 0, 0);
	if (at >= 0) {
		put(BPF_LDX | BPF_MEM | BPF_DW, 8, 9, at, 0);
		element(6, NR, 7);
		skips[k++] = n, put(BPF_JMP | BPF_JNE | BPF_X, 8, 7, 0, 0);
	}
	element(6, HITS, 7);	/* only the first hit sends */
	put(BPF_ALU64 | BPF_ADD | BPF_K, 7, 0, 0, 1);
	put(BPF_STX | BPF_MEM | BPF_DW, 6, 7, 0, 0);
	skips[k++] = n, put(BPF_JMP | BPF_JNE | BPF_K, 7, 0, 0, 1);
	element(6, SIG, 1);
	call(helper);
	element(6, RET, -1);
	put(BPF_STX | BPF_MEM | BPF_DW, 6, 0, 0, 0);
	if (twice) {
		element(6, SIG, 1);
		call(helper);
		element(6, SECOND, -1);
		put(BPF_STX | BPF_MEM | BPF_DW, 6, 0, 0, 0);
	}
	while (k)
		k--, prog[skips[k]].off = n - skips[k] - 1;
	returns(0);
	return loaded(type, attach);
}

static int out[2], in[2];
static volatile int handled;
static siginfo_t seen;
static int seen_by;

static void handler(int sig, siginfo_t *info, void *context)
{
	handled = sig, seen = *info, seen_by = gettid();
}

static void catches(int sig, int flags)
{
	struct sigaction a;

	memset(&a, 0, sizeof a);
	a.sa_sigaction = handler, a.sa_flags = SA_SIGINFO | flags;
	sigaction(sig, &a, NULL);
}

static void tells(const char *what, long ret)
{
	char line[256];
	int error = ret < 0 ? errno : 0, len;

	len = snprintf(line, sizeof line, "  %s: %ld %s; signal %d", what, ret, error ? strerror(error) : "", handled);
	if (handled)
		len += snprintf(line + len, sizeof line - len, ", code %#x, from %d, user %d, this thread %d", seen.si_code, seen.si_pid, seen.si_uid, seen_by == gettid());
	line[len++] = '\n';
	syscall(SYS_writev, 1, &(struct { void *p; size_t n; }){line, len}, 1);
}

/* What the children do. */
static void unlinks(void) { tells("unlinkat", syscall(SYS_unlinkat, AT_FDCWD, "victim", 0)); }
static void makes(void) { tells("mkdirat", syscall(SYS_mkdirat, AT_FDCWD, "made", 0700)); }
static void creates(void) { tells("openat", syscall(SYS_openat, AT_FDCWD, "created", O_CREAT | O_RDWR, 0600) < 0 ? -1 : 0); }
static void pipes(void) { tells("write to a pipe", syscall(SYS_write, out[1], "hello", 5)); }

static void writes(void)
{
	int fd = open("file", O_CREAT | O_TRUNC | O_WRONLY, 0600);

	tells("write to a file", syscall(SYS_write, fd, "hello", 5));
}

static void sleeps(void)
{
	struct timespec t = {20, 0};

	tells("nanosleep", syscall(SYS_nanosleep, &t, NULL));
}

static void reads(void)
{
	char c;

	tells("read from a pipe that has something", syscall(SYS_read, in[0], &c, 1));
}

static void reads_nothing(void)
{
	char c;
	int p[2];

	if (!pipe(p))
		tells("read from an empty pipe", syscall(SYS_read, p[0], &c, 1));
}

static void asks(void) { tells("getppid", syscall(SYS_getppid) != getppid()); }

static void caught_unlinks(void) { catches(SIGUSR1, 0), unlinks(); }
static void caught_pipes(void) { catches(SIGUSR1, 0), pipes(); }
static void caught_sleeps(void) { catches(SIGUSR1, 0), sleeps(); }
static void caught_sleeps_again(void) { catches(SIGUSR1, SA_RESTART), sleeps(); }
static void caught_reads(void) { catches(SIGUSR1, 0), reads(); }
static void caught_reads_nothing(void) { catches(SIGUSR1, 0), reads_nothing(); }
static void caught_asks(void) { catches(SIGUSR1, 0), asks(); }
static void ignored_asks(void) { signal(SIGUSR1, SIG_IGN), asks(); }

static void blocked(void)
{
	sigset_t s;

	catches(SIGUSR1, 0);
	sigemptyset(&s), sigaddset(&s, SIGUSR1);
	sigprocmask(SIG_BLOCK, &s, NULL);
	asks();
	sigpending(&s);
	tells("pending", sigismember(&s, SIGUSR1));
	sigemptyset(&s);
	sigprocmask(SIG_SETMASK, &s, NULL);
	tells("unblocked", 0);
}

static void *thread(void *sets)
{
	sigset_t s;

	sigemptyset(&s), sigaddset(&s, SIGUSR1);
	if (sets) {	/* another one may have it at once */
		pthread_sigmask(SIG_BLOCK, &s, NULL);
		syscall(SYS_getppid);
	} else {
		asks();
	}
	usleep(200000);
	tells("in the other thread", 0);
	sigpending(&s);
	tells("pending", sigismember(&s, SIGUSR1));
	return NULL;
}

static void threads_of(void *sets)
{
	pthread_t t;
	int i;

	catches(SIGUSR1, SA_RESTART);
	pthread_create(&t, NULL, thread, sets);
	for (i = 0; i < 10; i++)	/* it may have the signal */
		usleep(100000);
	pthread_join(t, NULL);
	tells("in the first thread", 0);
}

static void threads(void) { threads_of(NULL); }
static void threads_that_block(void) { threads_of(""); }

static void child(const char *name, int nr, int sig, void (*does)(void), int attached)
{
	int status, go[2], first;
	char buf[16] = "", c;
	struct stat st;
	pid_t pid;
	long long began = time(NULL);

	printf("%s:\n", name);
	fflush(stdout);
	if (attached < 0)
		return;
	close(open("victim", O_CREAT | O_WRONLY, 0600)), rmdir("made"), unlink("created");
	if (pipe(out) || pipe(in) || pipe(go) || write(in[1], "x", 1) != 1)
		exit(1);
	set(RET, 999), set(SECOND, 999), set(HITS, 0), set(NR, nr), set(SIG, sig), set(PID, 0);
	pid = fork();
	if (!pid) {
		if (read(go[0], &c, 1) < 0)
			_exit(99);
		set(PID, getpid());
		does();
		set(PID, 0);
		_exit(7);
	}
	if (write(go[1], "", 1) < 0)
		exit(1);
	waitpid(pid, &status, WUNTRACED);
	for (first = 1; WIFSTOPPED(status); first = 0) {
		printf("  stopped by %d\n", WSTOPSIG(status));
		kill(pid, SIGCONT);
		if (!first)
			break;
		waitpid(pid, &status, WUNTRACED);
	}
	if (WIFSIGNALED(status))
		printf("  killed by %d", WTERMSIG(status));
	else
		printf("  exited with %d", WEXITSTATUS(status));
	close(out[1]), fcntl(out[0], F_SETFL, O_NONBLOCK);
	if (read(out[0], buf, sizeof buf) < 0)
		strcpy(buf, "error");
	printf(", it returned %lld and %lld, %s; victim %s, made %s, created %s, pipe \"%s\", file %lld\n", get(RET), get(SECOND),
		time(NULL) - began < 10 ? "soon" : "late", access("victim", F_OK) ? "gone" : "there", access("made", F_OK) ? "not" : "there",
		access("created", F_OK) ? "not" : "there", buf, does == writes && !stat("file", &st) ? (long long)st.st_size : -1);
	fflush(stdout);
	close(out[0]), close(in[0]), close(in[1]), close(go[0]), close(go[1]);
	close(attached);
}

static void verdicts(void)
{
	static const struct { const char *name; int type; } types[] = {
		{"socket filter", BPF_PROG_TYPE_SOCKET_FILTER}, {"sched_cls", BPF_PROG_TYPE_SCHED_CLS}, {"xdp", BPF_PROG_TYPE_XDP},
		{"kprobe", BPF_PROG_TYPE_KPROBE}, {"tracepoint", BPF_PROG_TYPE_TRACEPOINT}, {"perf_event", BPF_PROG_TYPE_PERF_EVENT},
		{"raw tracepoint", BPF_PROG_TYPE_RAW_TRACEPOINT}, {"syscall", BPF_PROG_TYPE_SYSCALL},
	};
	static const int helpers[] = {BPF_FUNC_send_signal, BPF_FUNC_send_signal_thread};
	unsigned i, h;

	for (h = 0; h < 2; h++)
		for (i = 0; i < sizeof types / sizeof *types; i++) {
			union bpf_attr a;

			memset(&a, 0, sizeof a);
			a.prog_type = types[i].type, a.license = (unsigned long)"GPL";
			a.prog_flags = types[i].type == BPF_PROG_TYPE_SYSCALL ? BPF_F_SLEEPABLE : 0;
			n = 0;
			number(1, 10);
			call(helpers[h]);
			returns(0);
			load_as(types[i].name, &a);
		}
	n = 0;
	call(BPF_FUNC_send_signal);
	returns(0);
	load("without a number");
}

#define LOADED(helper) sender(BPF_PROG_TYPE_RAW_TRACEPOINT, 0, helper, 8, 0)
#define AT_ENTRY(name, nr, sig, does) child(name, nr, sig, does, raw("sys_enter", one_of))

static void run_by_the_caller(void)
{
	union bpf_attr a;
	int fd = sender(BPF_PROG_TYPE_RAW_TRACEPOINT, 0, BPF_FUNC_send_signal, -1, 0);

	catches(SIGUSR1, 0);
	memset(&a, 0, sizeof a);
	a.test.prog_fd = fd;
	set(HITS, 0), set(PID, getpid());
	printf("  a program is run: %d", bpf(BPF_PROG_TEST_RUN, &a));
	printf("; signal %d\n", handled);
	close(fd);
}

int main(void)
{
	int one_of, thread_of, fd, fd2;

	setvbuf(stdout, NULL, _IOLBF, 0);
	verdicts();
	the_map = map(BPF_MAP_TYPE_ARRAY, 4, VALUES * 8, 1, 0);
	one_of = LOADED(BPF_FUNC_send_signal), thread_of = LOADED(BPF_FUNC_send_signal_thread);
	AT_ENTRY("killed at unlinkat", SYS_unlinkat, SIGKILL, unlinks);
	AT_ENTRY("killed at mkdirat", SYS_mkdirat, SIGKILL, makes);
	AT_ENTRY("killed at openat", SYS_openat, SIGKILL, creates);
	AT_ENTRY("killed at a write to a pipe", SYS_write, SIGKILL, pipes);
	AT_ENTRY("killed at a write to a file", SYS_write, SIGKILL, writes);
	AT_ENTRY("killed at nanosleep", SYS_nanosleep, SIGKILL, sleeps);
	AT_ENTRY("killed at a read", SYS_read, SIGKILL, reads_nothing);
	AT_ENTRY("SIGTERM at unlinkat", SYS_unlinkat, SIGTERM, unlinks);
	AT_ENTRY("SIGTERM at nanosleep", SYS_nanosleep, SIGTERM, sleeps);
	AT_ENTRY("SIGUSR1 at unlinkat", SYS_unlinkat, SIGUSR1, caught_unlinks);
	AT_ENTRY("SIGUSR1 at a write to a pipe", SYS_write, SIGUSR1, caught_pipes);
	AT_ENTRY("SIGUSR1 at nanosleep", SYS_nanosleep, SIGUSR1, caught_sleeps);
	AT_ENTRY("SIGUSR1 at nanosleep, which is made again", SYS_nanosleep, SIGUSR1, caught_sleeps_again);
	AT_ENTRY("SIGUSR1 at a read", SYS_read, SIGUSR1, caught_reads);
	AT_ENTRY("SIGUSR1 at a read that waits", SYS_read, SIGUSR1, caught_reads_nothing);
	AT_ENTRY("SIGUSR1 at getppid", SYS_getppid, SIGUSR1, caught_asks);
	AT_ENTRY("SIGUSR1 that is ignored", SYS_getppid, SIGUSR1, ignored_asks);
	AT_ENTRY("SIGUSR1 that is blocked", SYS_getppid, SIGUSR1, blocked);
	AT_ENTRY("SIGSTOP", SYS_getppid, SIGSTOP, asks);
	AT_ENTRY("SIGSTOP at unlinkat", SYS_unlinkat, SIGSTOP, unlinks);
	AT_ENTRY("no signal", SYS_getppid, 0, asks);
	AT_ENTRY("signal 64", SYS_getppid, 64, asks);
	AT_ENTRY("signal 65", SYS_getppid, 65, asks);
	AT_ENTRY("signal -1", SYS_getppid, -1, asks);
	AT_ENTRY("SIGUSR1 to a process, by a thread", SYS_getppid, SIGUSR1, threads);
	AT_ENTRY("SIGUSR1 to a process, by a thread that blocks it", SYS_getppid, SIGUSR1, threads_that_block);
	one_of = thread_of;
	AT_ENTRY("SIGUSR1 to a thread", SYS_getppid, SIGUSR1, threads);
	AT_ENTRY("SIGUSR1 to a thread that blocks it", SYS_getppid, SIGUSR1, threads_that_block);
	AT_ENTRY("SIGKILL to a thread", SYS_getppid, SIGKILL, threads);
	fd = sender(BPF_PROG_TYPE_KPROBE, 0, BPF_FUNC_send_signal, -1, 1);
	child("twice at an entry", 0, SIGUSR1, caught_unlinks, probe("do_unlinkat", 0, 0, fd));
	child("twice at a return", 0, SIGUSR1, caught_unlinks, probe("do_unlinkat", 0, 1, fd));
	fd2 = open("/proc/sys/debug/kprobes-optimization", O_WRONLY);
	if (fd2 < 0 || write(fd2, "0", 1) != 1)
		printf("optimized\n");
	child("twice in a breakpoint", 0, SIGUSR1, caught_unlinks, probe("do_unlinkat", 5, 0, fd));
	child("twice in a breakpoint, a signal that there is not", 0, 70, caught_unlinks, probe("do_unlinkat", 5, 0, fd));
	if (write(fd2, "1", 1) != 1)
		printf("not optimized\n");
	child("twice, a signal that there is not", 0, 70, caught_unlinks, probe("do_unlinkat", 0, 0, fd));
	child("killed at a return", 0, SIGKILL, makes, probe("do_mkdirat", 0, 1, fd));
	child("the caller of a test", 0, SIGUSR1, run_by_the_caller, 0);
	return 0;
}
