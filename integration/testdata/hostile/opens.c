// opens RELEASE DIR... <PATHS: opens each file by each way that a program has, and prints those that are
// not in the file system of one of the directories, or that have the text RELEASE in them.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/openat2.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char *low; // memory below 4 GB, for calls by int 0x80

static int by_open(const char *path) { return syscall(SYS_open, path, O_RDONLY | O_NONBLOCK); }

static int by_openat(const char *path) { return syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0); }

static int by_openat2(const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_NONBLOCK };
	return syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

static int by_openat2_resolve(const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_NONBLOCK, .resolve = RESOLVE_NO_MAGICLINKS };
	return syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

static int by_relative(const char *path)
{
	char name[4096];
	snprintf(name, sizeof(name), "%s", path);
	char *slash = strrchr(name, '/');
	*slash = 0;
	int dir = open(*name ? name : "/", O_PATH | O_DIRECTORY), fd;
	if (dir < 0)
		return -1;
	fd = syscall(SYS_openat, dir, slash + 1, O_RDONLY | O_NONBLOCK, 0);
	close(dir);
	return fd;
}

static int call(int nr, long a, long b, long c, long d)
{
	long ret;
	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(d) : "r8", "r9", "r10", "r11", "memory");
	errno = (int)ret < 0 ? -(int)ret : 0;
	return (int)ret < 0 ? -1 : (int)ret;
}

static int by_open32(const char *path)
{
	strcpy(low, path);
	return call(5, (long)low, O_RDONLY | O_NONBLOCK, 0, 0);
}

static int by_openat32(const char *path)
{
	strcpy(low, path);
	return call(295, AT_FDCWD, (long)low, O_RDONLY | O_NONBLOCK, 0);
}

static int by_openat2_32(const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_NONBLOCK };
	strcpy(low, path);
	memcpy(low + 8192, &how, sizeof(how));
	return call(437, AT_FDCWD, (long)low, (long)(low + 8192), sizeof(how));
}

static int ring = -1;
static char *sq, *cq;
static struct io_uring_sqe *sqes;
static struct io_uring_params p;

static int by_io_uring(const char *path)
{
	if (ring < 0)
		return -1;
	unsigned *tail = (unsigned *)(sq + p.sq_off.tail), *array = (unsigned *)(sq + p.sq_off.array);
	struct io_uring_sqe *e = sqes;
	memset(e, 0, sizeof(*e));
	e->opcode = IORING_OP_OPENAT;
	e->fd = AT_FDCWD;
	e->addr = (unsigned long)path;
	e->open_flags = O_RDONLY | O_NONBLOCK;
	array[*tail & (p.sq_entries - 1)] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) < 0)
		return -1;
	unsigned *head = (unsigned *)(cq + p.cq_off.head);
	struct io_uring_cqe *c = (struct io_uring_cqe *)(cq + p.cq_off.cqes) + (*head & (p.cq_entries - 1));
	int res = c->res;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	errno = res < 0 ? -res : 0;
	return res < 0 ? -1 : res;
}

static void open_ring(void)
{
	ring = syscall(SYS_io_uring_setup, 4, &p);
	if (ring < 0)
		return;
	sq = mmap(0, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	cq = mmap(0, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring,
		  IORING_OFF_CQ_RING);
	sqes = mmap(0, p.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
}

static sigjmp_buf refused;

static void on_fault(int sig) { siglongjmp(refused, 1); }

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*open)(const char *);
		int bits32;
	} ways[] = {
		{ "open", by_open }, { "openat", by_openat }, { "openat2", by_openat2 }, { "openat2 with resolve", by_openat2_resolve },
		{ "openat in its directory", by_relative }, { "io_uring", by_io_uring }, { "32-bit open", by_open32, 1 },
		{ "32-bit openat", by_openat32, 1 }, { "32-bit openat2", by_openat2_32, 1 },
	};
	static char path[4096], text[1 << 16];
	int has32 = 1, opened = 0;
	low = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	open_ring();
	signal(SIGSEGV, on_fault);
	if (sigsetjmp(refused, 1))
		has32 = 0;
	else
		call(20, 0, 0, 0, 0);
	if (!has32)
		puts("no 32-bit calls");
	if (ring < 0)
		puts("no io_uring");
	while (fgets(path, sizeof(path), stdin)) {
		path[strcspn(path, "\n")] = 0;
		for (unsigned i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
			if (ways[i].bits32 && !has32)
				continue;
			struct stat st, of;
			int fd = ways[i].open(path), ours = 0;
			if (fd < 0)
				continue;
			fstat(fd, &st);
			for (int d = 2; d < argc; d++)
				ours |= !stat(argv[d], &of) && of.st_dev == st.st_dev;
			if (S_ISREG(st.st_mode)) {
				opened++;
				if (!ours)
					printf("%s by %s: not ours\n", path, ways[i].name);
				long n = read(fd, text, sizeof(text) - 1);
				if (n > 0 && memmem(text, n, argv[1], strlen(argv[1])))
					printf("%s by %s: the host's release is in it\n", path, ways[i].name);
			}
			close(fd);
		}
	}
	printf("opened %d\n", opened);
	return 0;
}
