/* The kernel's types. */
#include <fcntl.h>
#include <linux/btf.h>
#include <string.h>
#include <unistd.h>

static char all[16 << 20], *ktypes, *kend, *knames;

static void read_kernel(void)
{
	int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY), got, sum = 0;
	struct btf_header *h = (void *)all;

	while ((got = read(fd, all + sum, sizeof all - sum)) > 0)
		sum += got;
	close(fd);
	ktypes = all + h->hdr_len + h->type_off, kend = ktypes + h->type_len, knames = all + h->hdr_len + h->str_off;
}

/* A type's number by its kind and name, or -1. *found is the type, unless found is NULL. */
static int ktype(int kind, const char *name, struct btf_type **found)
{
	int id = 1;

	for (char *at = ktypes; at < kend; id++) {
		struct btf_type *t = (void *)at;
		int count = BTF_INFO_VLEN(t->info), each = 0, k = BTF_INFO_KIND(t->info);

		if (k == kind && !strcmp(knames + t->name_off, name)) {
			if (found)
				*found = t;
			return id;
		}
		if (k == BTF_KIND_INT || k == BTF_KIND_VAR || k == BTF_KIND_DECL_TAG)
			count = 1, each = 4;
		else if (k == BTF_KIND_ARRAY)
			count = 1, each = 12;
		else if (k == BTF_KIND_STRUCT || k == BTF_KIND_UNION || k == BTF_KIND_DATASEC || k == BTF_KIND_ENUM64)
			each = 12;
		else if (k == BTF_KIND_ENUM || k == BTF_KIND_FUNC_PROTO)
			each = 8;
		at += sizeof *t + count * each;
	}
	return -1;
}
