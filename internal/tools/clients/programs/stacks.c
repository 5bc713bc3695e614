/* stacks: makes calls from functions with frame pointers, and from some without, ten times a second for 20 seconds. */
#define _GNU_SOURCE
#pragma GCC optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FRAMED __attribute__((noinline, noclone))
#define FRAMELESS __attribute__((noinline, noclone, optimize("omit-frame-pointer")))

static int zero;
static char b[64];

long FRAMED asks(void)
{
	long nr = SYS_getppid;

	asm volatile("syscall" : "+a"(nr) : : "rcx", "r11", "memory");
	return nr;
}

long FRAMED reads(void)
{
	long n = SYS_read;

	asm volatile("syscall" : "+a"(n) : "D"(zero), "S"(b), "d"(sizeof b) : "rcx", "r11", "memory");
	return n;
}

long FRAMED opens(void)
{
	long n = SYS_openat;

	asm volatile("syscall" : "+a"(n) : "D"(AT_FDCWD), "S"("/none"), "d"(O_RDONLY) : "rcx", "r11", "memory");
	return n;
}

long FRAMED inner(void) { return asks() + reads() + opens() + 1; }
long FRAMED middle(void) { return inner() + 1; }
long FRAMED outer(void) { return middle() + 1; }

/* Its caller is not seen: the frame of it is its caller's. */
long FRAMELESS hidden(void)
{
	long nr = SYS_getpid;

	asm volatile("syscall" : "+a"(nr) : : "rcx", "r11", "memory");
	return nr + 1;
}
long FRAMED skipped(void) { return hidden() + 1; }
long FRAMED first(void) { return skipped() + 1; }

int main(void)
{
	zero = open("/dev/zero", O_RDONLY);
	for (int i = 0; i < 200; i++) {
		outer();
		first();
		usleep(100000);
	}
	return 0;
}
