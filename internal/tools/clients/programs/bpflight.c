/* bpflight: loads a light skeleton, attaches its programs, has them hit by opens of its own, and prints what they have seen. Then it
 * loads one whose loader has to fail. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "light.lskel.h"

static char said[1 << 20];

static void loads(const char *what, int who, int entries, int level)
{
	struct light *l = light__open();
	union bpf_attr a;
	long value = 0;
	int key = AT_FDCWD, err, i;

	if (!l)
		return perror("open");
	l->rodata->who = who;
	if (entries)
		l->maps.seen.max_entries = entries;
	memset(said, 0, sizeof said);
	if (level)
		l->ctx.log_level = level, l->ctx.log_size = sizeof said, l->ctx.log_buf = (unsigned long)said;
	err = light__load(l);
	printf("%s: %d, errno %d, log %s\n", what, err, err ? errno : 0, *said ? "written" : "empty");
	printf("programs %d %d, maps %d %d %d %d %d\n", l->progs.opens.prog_fd, l->progs.enters.prog_fd, l->maps.seen.map_fd, l->maps.outer.map_fd,
	       l->maps.rodata.map_fd, l->maps.data.map_fd, l->maps.bss.map_fd);
	if (!err) {
		printf("attach: %d\n", light__attach(l) < 0 ? errno : 0);
		for (i = 0; i < 3; i++)
			close(open("/dev/null", O_RDONLY));
		light__detach(l);
		l->links.opens_fd = l->links.enters_fd = 0;
		printf("hits: %ld, other %ld\n", l->bss->hits, l->data->other);
		memset(&a, 0, sizeof a);
		a.map_fd = l->maps.seen.map_fd, a.key = (unsigned long)&key, a.value = (unsigned long)&value;
		printf("seen: %d", skel_sys_bpf(BPF_MAP_LOOKUP_ELEM, &a, sizeof a) ? errno : 0);
		printf(" %ld\n", value);
	}
	light__destroy(l);
}

int main(void)
{
	int fd;

	for (fd = 3; fd < 256; fd++)
		close(fd);
	loads("a light skeleton", getpid(), 0, 0);
	loads("with its log", getpid(), 0, 1);
	loads("with a map that is too large", getpid(), -1, 0);
	fd = open("/dev/null", O_RDONLY);
	printf("the next descriptor: %d\n", fd);
	return 0;
}
