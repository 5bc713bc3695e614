/* unicorn FILE n: runs a program's bytes in Unicorn, 3 times, and prints its
 * result and the shortest processor time in nanoseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unicorn/unicorn.h>

#define TEXT 0x100000
#define DATA 0x200000
#define STACK 0x300000
#define SIZE 0x10000

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000l + t.tv_nsec;
}

int main(int argc, char **argv)
{
	static char text[4096];
	FILE *f = argc == 3 ? fopen(argv[1], "rb") : 0;
	unsigned long res = 0, end = TEXT + 0x2000;
	long best = 0;
	uc_engine *uc;

	if (!f || !fread(text, 1, sizeof(text), f) || uc_open(UC_ARCH_X86, UC_MODE_64, &uc))
		return 1;
	if (uc_mem_map(uc, TEXT, SIZE, UC_PROT_ALL) || uc_mem_map(uc, DATA, SIZE, UC_PROT_ALL) ||
	    uc_mem_map(uc, STACK, SIZE, UC_PROT_ALL) || uc_mem_write(uc, TEXT, text, sizeof(text)))
		return 1;
	for (int i = 0; i < 3; i++) {
		unsigned long n = strtoul(argv[2], 0, 0), mem = DATA, sp = STACK + SIZE - 64;
		long t;

		if (uc_mem_write(uc, sp, &end, sizeof(end)) || uc_reg_write(uc, UC_X86_REG_RDI, &n) ||
		    uc_reg_write(uc, UC_X86_REG_RSI, &mem) || uc_reg_write(uc, UC_X86_REG_RSP, &sp))
			return 1;
		t = now();
		if (uc_emu_start(uc, TEXT, end, 0, 0))
			return 1;
		t = now() - t;
		if (!best || t < best)
			best = t;
		uc_reg_read(uc, UC_X86_REG_RAX, &res);
	}
	printf("%lu %ld\n", res, best);
	return 0;
}
