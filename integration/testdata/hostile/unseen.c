/* The program makes calls in ways that are not mirrored, and one that is. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static sigjmp_buf refused;

static void on_segv(int sig)
{
	siglongjmp(refused, sig);
}

int main(void)
{
	char params[120] = "";
	struct timespec t;
	long pid, ring;
	int status;

	signal(SIGSEGV, on_segv); /* where the host has no calls of i386 */
	if (sigsetjmp(refused, 1)) {
		pid = -1;
	} else {
		__asm__ volatile("int $0x80" : "=a"(pid) : "a"(20) : "memory"); /* getpid of i386 */
	}
	if (pid == syscall(SYS_getpid))
		printf("32-bit: 1\n");
	else
		printf("32-bit: %s\n", pid == -1 ? "refused" : "another pid");
	clock_gettime(CLOCK_MONOTONIC, &t); /* in the vDSO */
	ring = syscall(SYS_io_uring_setup, 1, params);
	if (ring >= 0)
		close(ring);
	fflush(stdout);
	if (fork() == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		syscall(SYS_getpgid, 0);
		_exit(0);
	}
	wait(&status);
	printf("traced: %d\n", WEXITSTATUS(status));
	return 0;
}
