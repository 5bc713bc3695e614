// ioctl(2) and poll(2) on the device of devices.c, or on another file: what they return.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

struct pair {
	uint32_t in;
	uint64_t out;
};

static void say(const char *what, long ret)
{
	printf("%s: %ld%s%s\n", what, ret, ret < 0 ? " " : "", ret < 0 ? strerror(errno) : "");
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR);
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
	struct pair pair = {.in = 5};
	uint32_t v = 33;

	if (fd < 0)
		return 1;
	say("none", ioctl(fd, _IO('k', 0x10), 41));
	say("set", ioctl(fd, _IOW('k', 0x11, uint32_t), &v));
	v = 0;
	say("get", ioctl(fd, _IOR('k', 0x12, uint32_t), &v));
	printf("%u\n", v);
	say("both", ioctl(fd, _IOWR('k', 0x13, struct pair), &pair));
	printf("%u %#llx\n", pair.in, (unsigned long long)pair.out);
	say("bad", ioctl(fd, _IO('k', 0x14), 0));
	say("unknown", ioctl(fd, _IO('k', 0x7f), 0));
	say("poll", poll(&p, 1, 1000));
	printf("%#x\n", p.revents);
	say("mmap", (long)mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0));
	return 0;
}
