/* bpffs STEP...: calls of bpf(2) about the files of a bpffs, each with the errno that it has. Steps: map, prog, raw,
 * link make what is pinned next; pin PATH, get PATH FLAGS, flags PATH FLAGS (of a pin), close, fdinfo, uid N. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int bpf(int cmd, union bpf_attr *a, int size) { return syscall(SYS_bpf, cmd, a, size); }

static int say(const char *what, const char *path, int ret)
{
	printf("%s%s%s: %s\n", what, *path ? " " : "", path, ret < 0 ? strerrorname_np(errno) : "ok");
	fflush(stdout);
	return ret;
}

static int load(int type)
{
	struct bpf_insn code[] = {{BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0}, {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}};
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.prog_type = type, a.insns = (unsigned long)code, a.insn_cnt = 2, a.license = (unsigned long)"GPL";
	strcpy(a.prog_name, "two");
	return bpf(BPF_PROG_LOAD, &a, sizeof a);
}

static const char *kind(int fd)
{
	union bpf_attr a;
	struct bpf_prog_info info;
	static char name[64], target[256];

	memset(&a, 0, sizeof a), memset(&info, 0, sizeof info);
	a.info.bpf_fd = fd, a.info.info_len = sizeof info, a.info.info = (unsigned long)&info;
	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	if (bpf(BPF_OBJ_GET_INFO_BY_FD, &a, sizeof a))
		return strerrorname_np(errno);
	snprintf(name, sizeof name, "type %u", info.type);
	(void)target;
	return name;
}

int main(int argc, char **argv)
{
	int fd = -1;
	union bpf_attr a;

	for (int n = 1; n < argc; n++) {
		char *step = argv[n];

		memset(&a, 0, sizeof a);
		if (!strcmp(step, "map")) {
			a.map_type = BPF_MAP_TYPE_ARRAY, a.key_size = 4, a.value_size = 4, a.max_entries = 2;
			fd = say(step, "", bpf(BPF_MAP_CREATE, &a, sizeof a));
		} else if (!strcmp(step, "prog")) {
			fd = say(step, "", load(BPF_PROG_TYPE_RAW_TRACEPOINT));
		} else if (!strcmp(step, "raw")) {
			a.raw_tracepoint.name = (unsigned long)"sched_process_exit", a.raw_tracepoint.prog_fd = load(BPF_PROG_TYPE_RAW_TRACEPOINT);
			fd = say(step, "", bpf(BPF_RAW_TRACEPOINT_OPEN, &a, sizeof a));
		} else if (!strcmp(step, "file")) {
			fd = say(step, "", open("/proc/self/stat", O_RDONLY));
		} else if (!strcmp(step, "pin")) {
			char *path = argv[++n];
			a.pathname = (unsigned long)path, a.bpf_fd = fd;
			say(step, path, bpf(BPF_OBJ_PIN, &a, sizeof a));
		} else if (!strcmp(step, "flags")) {
			char *path = argv[++n];
			a.pathname = (unsigned long)path, a.bpf_fd = fd, a.file_flags = atoi(argv[++n]);
			say(step, path, bpf(BPF_OBJ_PIN, &a, sizeof a));
		} else if (!strcmp(step, "get")) {
			char *path = argv[++n];
			a.pathname = (unsigned long)path, a.file_flags = atoi(argv[++n]);
			fd = say(step, path, bpf(BPF_OBJ_GET, &a, sizeof a));
			if (fd >= 0)
				printf(" %s\n", kind(fd));
		} else if (!strcmp(step, "getfd")) { /* with bpf_fd, which must be 0 */
			char *path = argv[++n];
			a.pathname = (unsigned long)path, a.bpf_fd = 1;
			fd = say(step, path, bpf(BPF_OBJ_GET, &a, sizeof a));
		} else if (!strcmp(step, "set")) {
			int key = 0, value = atoi(argv[++n]);
			a.map_fd = fd, a.key = (unsigned long)&key, a.value = (unsigned long)&value;
			say(step, argv[n], bpf(BPF_MAP_UPDATE_ELEM, &a, sizeof a));
		} else if (!strcmp(step, "value")) {
			int key = 0, value = -1;
			a.map_fd = fd, a.key = (unsigned long)&key, a.value = (unsigned long)&value;
			say(step, "", bpf(BPF_MAP_LOOKUP_ELEM, &a, sizeof a));
			printf(" %d\n", value);
		} else if (!strcmp(step, "chmod")) {
			char *mode = argv[++n];
			say(step, mode, syscall(SYS_fchmodat, AT_FDCWD, argv[++n], strtol(mode, 0, 8)));
		} else if (!strcmp(step, "open")) {
			say(step, argv[n + 1], open(argv[n + 1], O_RDONLY));
			n++;
		} else if (!strcmp(step, "rename")) {
			char *from = argv[++n];
			say(step, from, syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, argv[n + 1], atoi(argv[n + 2])));
			n += 2;
		} else if (!strcmp(step, "uid")) {
			say(step, argv[n + 1], syscall(SYS_setresuid, -1, atoi(argv[n + 1]), -1));
			n++;
		} else {
			printf("no step %s\n", step);
			return 2;
		}
	}
	return 0;
}
