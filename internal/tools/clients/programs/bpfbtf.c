/* bpfbtf [-h N=VALUE]... [-s STRINGS] [-l LEVEL] WORD...: loads types that are given as words, and prints the errno and the
 * log. -h sets a byte of the header, -s the strings ('/' ends one; the first one is empty), -t the total size. Of the strings
 * that are there otherwise, x begins at 1, int at 3, .data at 7, 9a at 13, y at 16 and f at 18. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static char b[65536], log[65536], strings[4096] = "/x/int/.data/9a/y/f/";
	struct btf_header *h = (struct btf_header *)b;
	int level = 1, size = -1, at[64], value[64], sets = 0, option;
	unsigned *type = (unsigned *)(b + sizeof *h);
	union bpf_attr a;
	int ret;

	while ((option = getopt(argc, argv, "+h:s:l:t:")) > 0) {
		if (option == 'h' && sets < 64)
			sscanf(optarg, "%i=%i", &at[sets], &value[sets]), sets++;
		else if (option == 's')
			snprintf(strings, sizeof strings, "%s", optarg);
		else if (option == 'l')
			level = atoi(optarg);
		else if (option == 't')
			size = atoi(optarg);
	}
	h->magic = BTF_MAGIC, h->version = 1, h->hdr_len = sizeof *h;
	for (; optind < argc; optind++)
		*type++ = strtoul(argv[optind], NULL, 0);
	h->type_len = h->str_off = (char *)type - b - sizeof *h, h->str_len = strlen(strings);
	for (char *c = strings; *c; c++)
		((char *)type)[c - strings] = *c == '/' ? 0 : *c;
	if (size < 0)
		size = sizeof *h + h->str_off + h->str_len;
	for (int n = 0; n < sets; n++)
		b[at[n]] = value[n];
	memset(&a, 0, sizeof a);
	a.btf = (unsigned long)b, a.btf_size = size;
	if (level)
		a.btf_log_buf = (unsigned long)log, a.btf_log_size = sizeof log, a.btf_log_level = level;
	ret = syscall(SYS_bpf, BPF_BTF_LOAD, &a, sizeof a);
	printf("%s\n%s", ret < 0 ? errno == 524 ? "ENOTSUPP" : strerrorname_np(errno) : "ok", log);
	return 0;
}
