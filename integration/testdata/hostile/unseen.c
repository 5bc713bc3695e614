/* The program makes calls in ways that are not mirrored, and one that is. */
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	char params[120] = "";
	struct timespec t;
	long pid, ring;
	int status;

	__asm__ volatile("int $0x80" : "=a"(pid) : "a"(20) : "memory"); /* getpid of i386 */
	printf("32-bit: %d\n", pid == syscall(SYS_getpid));
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
