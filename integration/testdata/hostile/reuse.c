// reuse CALL: a process of user 65534 makes a call with an argument on a page that userfaultfd(2)
// holds back, and is killed. Its pid goes to a process of root, and the page is filled. What the
// call would have done must not be done for that process, or to its memory.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char *page;
static char buffer[4096] __attribute__((aligned(4096)));

static void call(const char *name)
{
	if (!strcmp(name, "mount"))
		mount("nodev", "victim", "tracefs", 0, page);
	if (!strcmp(name, "mountdir"))
		mount("nodev", page, "debugfs", 0, 0);
	if (!strcmp(name, "statfs"))
		syscall(SYS_statfs, page, buffer);
	if (!strcmp(name, "perf")) // of which the size is corrected
		syscall(SYS_perf_event_open, page, 0, -1, -1, 0);
	if (!strcmp(name, "open"))
		open(page, O_RDONLY);
}

static void fill(const char *name, char *to)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT, .size = 1 << 20 };
	if (!strcmp(name, "mountdir"))
		strcpy(to, "victim");
	if (!strcmp(name, "statfs") || !strcmp(name, "open"))
		strcpy(to, "/sys/kernel/tracing");
	if (!strcmp(name, "perf"))
		memcpy(to, &attr, sizeof(attr));
}

int main(int argc, char **argv)
{
	page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile int *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	static char filled[4096];
	fill(argv[1], filled);
	mkdir("victim", 0700);
	int a = fork();
	if (!a) {
		int u = syscall(SYS_userfaultfd, O_CLOEXEC);
		struct uffdio_api api = { .api = UFFD_API };
		struct uffdio_register r = { .range = { (long)page, 4096 }, .mode = UFFDIO_REGISTER_MODE_MISSING };
		ioctl(u, UFFDIO_API, &api);
		int failed = u < 0 || ioctl(u, UFFDIO_REGISTER, &r);
		shared[1] = u;
		setresgid(65534, 65534, 65534);
		setresuid(65534, 65534, 65534);
		shared[0] = failed ? -1 : 1;
		while (shared[0] == 1)
			usleep(1000);
		call(argv[1]);
		_exit(0);
	}
	while (!shared[0])
		usleep(1000);
	if (shared[0] < 0) {
		puts("no userfaultfd");
		return 0;
	}
	int process = syscall(SYS_pidfd_open, a, 0);
	int u = syscall(SYS_pidfd_getfd, process, shared[1], 0);
	shared[0] = 2;
	usleep(300000); // the supervisor reads the page
	kill(a, SIGKILL);
	waitpid(a, 0, 0);
	int b = 0;
	for (int i = 0; i < 50 && b != a; i++) {
		int f = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
		dprintf(f, "%d", a - 1);
		close(f);
		b = fork();
		if (!b) {
			memcpy(page, filled, sizeof(filled));
			for (int i = 0; i < 15; i++)
				usleep(100000);
			for (int i = 0; i < 4096; i++)
				if (buffer[i] || page[i] != filled[i]) {
					printf("%s: root's memory was written\n", argv[1]);
					break;
				}
			fflush(stdout);
			_exit(0);
		}
		if (b != a) {
			kill(b, SIGKILL);
			waitpid(b, 0, 0);
		}
	}
	if (b != a) {
		puts("the pid is not given again");
		return 0;
	}
	usleep(100000);
	struct uffdio_copy copy = { .dst = (long)page, .src = (long)filled, .len = 4096 };
	if (ioctl(u, UFFDIO_COPY, &copy))
		perror("UFFDIO_COPY");
	if (waitpid(b, 0, 0) != b)
		puts("root's process was not there");
	if (umount2("victim", MNT_DETACH) == 0)
		printf("%s: mounted\n", argv[1]);
	puts("done");
	return 0;
}
