/* native FILE n: runs a program's bytes on the bare processor, 3 times, and
 * prints its result and the shortest time in nanoseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000l + t.tv_nsec;
}

int main(int argc, char **argv)
{
	char *text = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *mem = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FILE *f = argc == 3 ? fopen(argv[1], "rb") : 0;
	long best = 0;
	unsigned long res = 0;

	if (!f || text == MAP_FAILED || mem == MAP_FAILED || !fread(text, 1, 4096, f))
		return 1;
	for (int i = 0; i < 3; i++) {
		long t = now();

		res = ((unsigned long (*)(unsigned long, void *))text)(strtoul(argv[2], 0, 0), mem);
		t = now() - t;
		if (!best || t < best)
			best = t;
	}
	printf("%lu %ld\n", res, best);
	return 0;
}
