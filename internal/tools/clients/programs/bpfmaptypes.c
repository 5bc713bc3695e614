/* bpfmaptypes: bloom filters, the storage of tasks, and the ring buffer that user space writes. For each case it prints the
 * errno, or what the program has returned, and the last line of the verifier's log. */
#define _GNU_SOURCE
#include "bpfcalls.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>

static int btf, of_int, of_long, of_proto, of_main, of_callback, of_global;

static int create(int type, int key, int value, int entries, int flags, int extra, int key_type, int value_type)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.map_type = type, a.key_size = key, a.value_size = value, a.max_entries = entries, a.map_flags = flags, a.map_extra = extra;
	if (key_type || value_type)
		a.btf_fd = btf, a.btf_key_type_id = key_type, a.btf_value_type_id = value_type;
	return bpf(BPF_MAP_CREATE, &a);
}

/* Loads a program for raw tracepoints. If it has a callback, that begins at an instruction. */
static int raw_of(const char *name, int callback, int type)
{
	static struct bpf_func_info funcs[2];
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT;
	if (callback) {
		funcs[0] = (struct bpf_func_info){0, of_main};
		funcs[1] = (struct bpf_func_info){callback, type};
		a.prog_btf_fd = btf, a.func_info = (unsigned long)funcs, a.func_info_cnt = 2, a.func_info_rec_size = sizeof *funcs;
	}
	return load_as(name, &a);
}

static int raw(const char *name, int callback) { return raw_of(name, callback, of_callback); }

/* Runs it once and prints what it has returned. */
static void runs(const char *name, int fd)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.test.prog_fd = fd;
	if (bpf(BPF_PROG_TEST_RUN, &a))
		printf("%s fails: %d\n", name, errno);
	else
		printf("%s returns: %d\n", name, (int)a.test.retval);
}

static void bloom(void)
{
	static const struct { int key, value, entries, flags, extra; } t[] = {
		{0, 8, 16, 0, 0}, {0, 8, 16, 0, 3}, {0, 8, 16, 0, 15}, {0, 8, 16, 0, 16}, {4, 8, 16, 0, 0}, {0, 0, 16, 0, 0}, {0, 8, 0, 0, 0},
		{0, 8, 16, BPF_F_NO_PREALLOC, 0}, {0, 8, 16, BPF_F_ZERO_SEED, 0}, {0, 8, 16, BPF_F_RDONLY_PROG, 0}, {0, 8, 16, BPF_F_MMAPABLE, 0},
		{0, 8, 16, BPF_F_RDONLY, 0}, {0, 8, 16, BPF_F_RDONLY | BPF_F_WRONLY, 0}, {0, 1 << 23, 16, 0, 0}, {0, 3, 1, 0, 1},
	};
	long v = 7, next;
	int key = 0, fd, p;

	for (unsigned i = 0; i < sizeof t / sizeof *t; i++) {
		fd = create(BPF_MAP_TYPE_BLOOM_FILTER, t[i].key, t[i].value, t[i].entries, t[i].flags, t[i].extra, 0, 0);
		printf("keys %d, values %d, entries %d, flags %d, functions %d: %d\n", t[i].key, t[i].value, t[i].entries, t[i].flags, t[i].extra, fd < 0 ? errno : 0);
		close(fd);
	}
	says("functions of a queue", create(BPF_MAP_TYPE_QUEUE, 0, 8, 16, 0, 3, 0, 0));
	fd = create(BPF_MAP_TYPE_BLOOM_FILTER, 0, 8, 1000, 0, 0, 0, 0);
	says("find nothing", one(BPF_MAP_LOOKUP_ELEM, fd, NULL, &v));
	says("push", update(fd, NULL, &v));
	says("push again", update(fd, NULL, &v));
	says("push what exists", update_as(fd, NULL, &v, BPF_EXIST));
	says("push what does not", update_as(fd, NULL, &v, BPF_NOEXIST));
	says("push with a lock", update_as(fd, NULL, &v, BPF_F_LOCK));
	says("push with a flag", update_as(fd, NULL, &v, 8));
	says("push with a key", update(fd, &key, &v));
	says("push nothing", update(fd, NULL, NULL));
	says("find", one(BPF_MAP_LOOKUP_ELEM, fd, NULL, &v));
	says("find with a key", one(BPF_MAP_LOOKUP_ELEM, fd, &key, &v));
	says("find with a flag", one_as(BPF_MAP_LOOKUP_ELEM, fd, NULL, &v, 8));
	says("find in nothing", one(BPF_MAP_LOOKUP_ELEM, fd, NULL, NULL));
	v = 8;
	says("find another", one(BPF_MAP_LOOKUP_ELEM, fd, NULL, &v));
	says("delete", one(BPF_MAP_DELETE_ELEM, fd, NULL, NULL));
	says("delete by a key", one(BPF_MAP_DELETE_ELEM, fd, &key, NULL));
	says("next", one(BPF_MAP_GET_NEXT_KEY, fd, NULL, &next));
	says("next of a key", one(BPF_MAP_GET_NEXT_KEY, fd, &key, &next));
	says("find and delete", one(BPF_MAP_LOOKUP_AND_DELETE_ELEM, fd, NULL, &v));
	for (v = 100; v < 600; v++)
		if (update(fd, NULL, &v))
			printf("push %ld: %d\n", v, errno);
	for (v = 100; v < 600; v++)
		if (one(BPF_MAP_LOOKUP_ELEM, fd, NULL, &v))
			printf("find %ld: %d\n", v, errno);
	for (key = 0, v = 10000; v < 11000; v++)
		key += !one(BPF_MAP_LOOKUP_ELEM, fd, NULL, &v);
	printf("found what is not there: %s\n", key < 200 ? "seldom" : "often");

	for (int i = 0; i < 4; i++) {
		static const char *const what[] = {"peek", "push and peek", "pop", "peek what was not written"};

		if (i < 3)
			put(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -8, 77 + i);
		if (i == 1) {
			pointer(1, fd);
			stack(2, -8);
			number(3, 0);
			call(BPF_FUNC_map_push_elem);
		}
		pointer(1, fd);
		stack(2, -8);
		call(i == 2 ? BPF_FUNC_map_pop_elem : BPF_FUNC_map_peek_elem);
		exits();
		p = raw(what[i], 0);
		if (p >= 0 && i < 3)
			runs(what[i], p);
	}
	pointer(1, fd);
	stack(2, -8);
	number(3, BPF_EXIST);
	put(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -8, 1);
	call(BPF_FUNC_map_push_elem);
	exits();
	runs("push what exists", raw("push what exists", 0));
	lookup(fd);
	returns(0);
	raw("look it up", 0);
}

static int pidfd(int pid) { return syscall(SYS_pidfd_open, pid, 0); }

/* The storage of the current task: r0 is a pointer to it, or NULL. */
static void storage(int fd, int init, int flags)
{
	call(BPF_FUNC_get_current_task_btf);
	pointer(1, fd);
	copy(2, 0);
	number(3, 0);
	if (init) {
		put(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -8, init);
		stack(3, -8);
	}
	number(4, flags);
	call(BPF_FUNC_task_storage_get);
}

/* Adds 1 to it and returns what it was. */
static void counts(void)
{
	put(BPF_JMP | BPF_JNE | BPF_K, 0, 0, 2, 0);
	returns(-1);
	number(1, 1);
	put(BPF_STX | BPF_ATOMIC | BPF_DW, 0, 1, 0, BPF_ADD | BPF_FETCH);
	copy(0, 1);
	exits();
}

static void task_storage(void)
{
	static const struct { int key, value, entries, flags, types; } t[] = {
		{4, 8, 0, BPF_F_NO_PREALLOC, 1}, {4, 8, 0, 0, 1}, {4, 8, 0, BPF_F_NO_PREALLOC, 0}, {8, 8, 0, BPF_F_NO_PREALLOC, 1}, {4, 8, 1, BPF_F_NO_PREALLOC, 1},
		{4, 0, 0, BPF_F_NO_PREALLOC, 1}, {4, 4, 0, BPF_F_NO_PREALLOC, 1}, {4, 1 << 16, 0, BPF_F_NO_PREALLOC, 1}, {4, 8, 0, BPF_F_NO_PREALLOC | BPF_F_CLONE, 1},
		{4, 8, 0, BPF_F_NO_PREALLOC | BPF_F_RDONLY_PROG, 1}, {4, 8, 0, BPF_F_NO_PREALLOC | BPF_F_RDONLY, 1}, {4, 8, 0, BPF_F_NO_PREALLOC | BPF_F_NUMA_NODE, 1}, {4, 8, 0, BPF_F_NO_PREALLOC, 2},
		{4, 8, 0, BPF_F_NO_PREALLOC, 3}, {4, 8, 0, BPF_F_NO_PREALLOC, 4},
	};
	long v = 5, w = 0;
	int fd, self, child, p, get, status, bad = -1, file = open("/", O_RDONLY);

	for (unsigned i = 0; i < sizeof t / sizeof *t; i++) {
		static int k[5], m[5];

		k[1] = of_int, m[1] = of_long, k[2] = of_long, m[2] = of_long, k[3] = of_int, k[4] = of_int, m[4] = 99;
		fd = create(BPF_MAP_TYPE_TASK_STORAGE, t[i].key, t[i].value, t[i].entries, t[i].flags, 0, k[t[i].types], m[t[i].types]);
		printf("keys %d, values %d, entries %d, flags %d, types %d: %d\n", t[i].key, t[i].value, t[i].entries, t[i].flags, t[i].types, fd < 0 ? errno : 0);
		close(fd);
	}
	fd = create(BPF_MAP_TYPE_TASK_STORAGE, 4, 8, 0, BPF_F_NO_PREALLOC, 0, of_int, of_long);
	self = pidfd(getpid());
	says("find nothing", one(BPF_MAP_LOOKUP_ELEM, fd, &self, &w));
	says("delete nothing", one(BPF_MAP_DELETE_ELEM, fd, &self, NULL));
	says("update what exists", update_as(fd, &self, &v, BPF_EXIST));
	says("update", update(fd, &self, &v));
	says("update what does not exist", update_as(fd, &self, &v, BPF_NOEXIST));
	says("update what exists", update_as(fd, &self, &v, BPF_EXIST));
	says("update with a lock", update_as(fd, &self, &v, BPF_F_LOCK));
	says("update with a flag", update_as(fd, &self, &v, 8));
	says("find", one(BPF_MAP_LOOKUP_ELEM, fd, &self, &w));
	printf("value %ld\n", w);
	says("find with a lock", one_as(BPF_MAP_LOOKUP_ELEM, fd, &self, &w, BPF_F_LOCK));
	says("find by no descriptor", one(BPF_MAP_LOOKUP_ELEM, fd, &bad, &w));
	says("find by a file", one(BPF_MAP_LOOKUP_ELEM, fd, &file, &w));
	says("find by a map", one(BPF_MAP_LOOKUP_ELEM, fd, &fd, &w));
	says("update by a file", update(fd, &file, &v));
	says("delete by a file", one(BPF_MAP_DELETE_ELEM, fd, &file, NULL));
	says("next", one(BPF_MAP_GET_NEXT_KEY, fd, NULL, &w));
	says("next of a key", one(BPF_MAP_GET_NEXT_KEY, fd, &self, &w));
	says("find and delete", one(BPF_MAP_LOOKUP_AND_DELETE_ELEM, fd, &self, &w));
	says("delete", one(BPF_MAP_DELETE_ELEM, fd, &self, NULL));
	says("find what was deleted", one(BPF_MAP_LOOKUP_ELEM, fd, &self, &w));

	storage(fd, 0, 0), counts();
	get = raw("get", 0);
	storage(fd, 20, BPF_LOCAL_STORAGE_GET_F_CREATE), counts();
	p = raw("create", 0);
	runs("get", get);
	runs("create", p);
	runs("create", p);
	runs("get", get);
	says("find", one(BPF_MAP_LOOKUP_ELEM, fd, &self, &w));
	printf("value %ld\n", w);
	fflush(stdout);
	child = fork();
	if (!child) {
		runs("get of a child", get);
		runs("create of a child", p);
		runs("get of a child", get);
		fflush(stdout);
		_exit(0);
	}
	bad = pidfd(child);
	waitpid(child, &status, 0);
	says("find what a child had", one(BPF_MAP_LOOKUP_ELEM, fd, &bad, &w));
	says("update what a child had", update(fd, &bad, &v));
	call(BPF_FUNC_get_current_task_btf);
	pointer(1, fd);
	copy(2, 0);
	call(BPF_FUNC_task_storage_delete);
	exits();
	p = raw("delete", 0);
	runs("delete", p);
	runs("delete", p);
	runs("get", get);
	storage(fd, 0, 1), counts();
	runs("create zero", raw("create zero", 0));
	storage(fd, 0, 2), counts();
	runs("a flag", raw("a flag", 0));

	storage(fd, 0, 1);
	put(BPF_LDX | BPF_MEM | BPF_DW, 0, 0, 0, 0);
	exits();
	raw("not checked", 0);
	storage(fd, 0, 1);
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0);
	put(BPF_LDX | BPF_MEM | BPF_DW, 0, 0, 8, 0);
	exits();
	raw("behind it", 0);
	call(BPF_FUNC_get_current_task);
	pointer(1, fd);
	copy(2, 0);
	number(3, 0);
	number(4, 0);
	call(BPF_FUNC_task_storage_get);
	returns(0);
	raw("of a number", 0);
	pointer(1, fd);
	number(2, 0);
	number(3, 0);
	number(4, 0);
	call(BPF_FUNC_task_storage_get);
	returns(0);
	raw("of nothing", 0);
	call(BPF_FUNC_get_current_task_btf);
	pointer(1, fd);
	copy(2, 0);
	number(3, 5);
	number(4, 0);
	call(BPF_FUNC_task_storage_get);
	returns(0);
	raw("a number for the value", 0);
	call(BPF_FUNC_get_current_task_btf);
	pointer(1, fd);
	copy(2, 0);
	put(BPF_ADD | BPF_ALU64 | BPF_K, 2, 0, 0, 8);
	call(BPF_FUNC_task_storage_delete);
	exits();
	raw("of the middle of a task", 0);
	lookup(fd);
	returns(0);
	raw("look it up", 0);
	call(BPF_FUNC_get_current_task_btf);
	pointer(1, map(BPF_MAP_TYPE_HASH, 4, 8, 1, 0));
	copy(2, 0);
	call(BPF_FUNC_task_storage_delete);
	exits();
	raw("of a hash table", 0);
	storage(fd, 0, 1);
	returns(0);
	load("for a kprobe");
}

static struct { volatile unsigned long *consumer, *producer; char *data; unsigned size; } ring;

/* Writes a record and lets it be read. */
static void sample(unsigned length, unsigned bits, long v)
{
	unsigned long at = *ring.producer;
	unsigned *head = (unsigned *)(ring.data + (at & (ring.size - 1)));

	*(long *)(ring.data + ((at + 8) & (ring.size - 1))) = v;
	head[1] = 0;
	head[0] = length | bits;
	*ring.producer = at + ((length + 8 + 7) & ~7u);
}

static void drain(int fd, int flags)
{
	pointer(1, fd);
	wide(2, BPF_PSEUDO_FUNC, 5, 0); /* the instruction after exit */
	number(3, 0);
	number(4, flags);
	call(BPF_FUNC_user_ringbuf_drain);
	exits();
}

/* The beginning of a callback: reads 8 bytes of the record. */
static void reads(int off, int flags)
{
	put(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -8, 0);
	copy(3, 1);
	stack(1, -8);
	number(2, 8);
	number(4, off);
	number(5, flags);
	call(BPF_FUNC_dynptr_read);
}

static int drainer(const char *name, int fd, int sum, int flags, int result)
{
	drain(fd, flags);
	reads(0, 0);
	value(1, sum, 0);
	put(BPF_LDX | BPF_MEM | BPF_DW, 2, 10, -8, 0);
	put(BPF_STX | BPF_ATOMIC | BPF_DW, 1, 2, 0, BPF_ADD);
	returns(result);
	return raw(name, 8);
}

static long total(int fd)
{
	long v = 0, zero = 0;
	int key = 0;

	one(BPF_MAP_LOOKUP_ELEM, fd, &key, &v);
	update(fd, &key, &zero);
	return v;
}

static void ready(const char *name, int fd)
{
	struct pollfd f = {fd, POLLIN | POLLOUT, 0};

	poll(&f, 1, 0);
	printf("%s: %#x\n", name, f.revents);
}

static void user_ring(void)
{
	static const struct { int key, value, entries, flags; } t[] = {
		{0, 0, 4096, 0}, {4, 0, 4096, 0}, {0, 4, 4096, 0}, {0, 0, 0, 0}, {0, 0, 4095, 0}, {0, 0, 12288, 0}, {0, 0, 4096, BPF_F_RDONLY_PROG}, {0, 0, 4096, BPF_F_MMAPABLE},
	};
	static const struct { const char *name; int prot, page, pages; } maps[] = {
		{"the consumer's page", PROT_READ, 0, 1}, {"the consumer's page to write", PROT_READ | PROT_WRITE, 0, 1}, {"all", PROT_READ, 0, 4}, {"all to write", PROT_READ | PROT_WRITE, 0, 4},
		{"the rest to write", PROT_READ | PROT_WRITE, 1, 3}, {"more than there is", PROT_READ, 0, 5}, {"the rest and more", PROT_READ | PROT_WRITE, 1, 4}, {"the data to write", PROT_READ | PROT_WRITE, 2, 2},
	};
	int fd, sum, key = 0, p, other;
	long v = 0;

	for (unsigned i = 0; i < sizeof t / sizeof *t; i++) {
		fd = map(BPF_MAP_TYPE_USER_RINGBUF, t[i].key, t[i].value, t[i].entries, t[i].flags);
		printf("keys %d, values %d, entries %d, flags %d: %d\n", t[i].key, t[i].value, t[i].entries, t[i].flags, fd < 0 ? errno : 0);
		close(fd);
	}
	fd = map(BPF_MAP_TYPE_USER_RINGBUF, 0, 0, 4096, 0);
	sum = map(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0);
	for (unsigned i = 0; i < sizeof maps / sizeof *maps; i++) {
		void *at = mmap(NULL, maps[i].pages * 4096, maps[i].prot, MAP_SHARED, fd, maps[i].page * 4096L);

		printf("%s: %d\n", maps[i].name, at == MAP_FAILED ? errno : 0);
	}
	other = map(BPF_MAP_TYPE_RINGBUF, 0, 0, 4096, 0);
	for (unsigned i = 0; i < sizeof maps / sizeof *maps; i++) {
		void *at = mmap(NULL, maps[i].pages * 4096, maps[i].prot, MAP_SHARED, other, maps[i].page * 4096L);

		printf("of a ring buffer, %s: %d\n", maps[i].name, at == MAP_FAILED ? errno : 0);
	}
	says("find", one(BPF_MAP_LOOKUP_ELEM, fd, NULL, &v));
	says("update", update(fd, NULL, &v));
	says("delete", one(BPF_MAP_DELETE_ELEM, fd, NULL, NULL));
	says("next", one(BPF_MAP_GET_NEXT_KEY, fd, NULL, &key));
	ring.size = 4096;
	ring.consumer = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	ring.producer = mmap(NULL, 4096 + 2 * ring.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
	ring.data = (char *)ring.producer + 4096;
	ready("an empty one", fd);
	p = drainer("drain", fd, sum, 0, 0);
	runs("nothing", p);
	for (int i = 1; i <= 3; i++)
		sample(8, 0, i);
	ready("three records", fd);
	runs("three records", p);
	printf("sum %ld, consumed %lu of %lu\n", total(sum), *ring.consumer, *ring.producer);
	sample(8, 0, 10), sample(8, BPF_RINGBUF_DISCARD_BIT, 20), sample(12, 0, 30);
	runs("one is discarded", p);
	printf("sum %ld, consumed %lu of %lu\n", total(sum), *ring.consumer, *ring.producer);
	sample(8, 0, 1), sample(8, BPF_RINGBUF_BUSY_BIT, 2), sample(8, 0, 4);
	runs("one is busy", p);
	printf("sum %ld, consumed %lu of %lu\n", total(sum), *ring.consumer, *ring.producer);
	*(unsigned *)(ring.data + (*ring.consumer & (ring.size - 1))) = 8;
	runs("no longer", p);
	printf("sum %ld, consumed %lu of %lu\n", total(sum), *ring.consumer, *ring.producer);
	sample(4, 0, 99);
	runs("four bytes", p);
	printf("sum %ld, consumed %lu of %lu\n", total(sum), *ring.consumer, *ring.producer);
	for (int i = 0; i < 300; i++) {
		sample(40, 0, 1);
		if (i % 64 == 63)
			runs("around the end", p);
	}
	runs("around the end", p);
	printf("sum %ld, consumed %lu of %lu\n", total(sum), *ring.consumer, *ring.producer);
	*ring.producer += 4;
	runs("a position between", p);
	*ring.producer += 4;
	*(unsigned *)(ring.data + (*ring.consumer & (ring.size - 1))) = 64;
	runs("a record beyond the position", p);
	*ring.producer += 8192;
	*(unsigned *)(ring.data + (*ring.consumer & (ring.size - 1))) = 5000;
	runs("a record larger than the ring", p);
	*ring.producer = *ring.consumer;
	runs("nothing", p);
	p = drainer("one record", fd, sum, 0, 1);
	sample(8, 0, 5), sample(8, 0, 6);
	runs("one record", p);
	printf("sum %ld, left %lu\n", total(sum), *ring.producer - *ring.consumer);
	p = drainer("with a flag", fd, sum, 4, 0);
	runs("with a flag", p);
	p = drainer("without wakeup", fd, sum, BPF_RB_NO_WAKEUP, 0);
	runs("without wakeup", p);

	drain(fd, 0);
	reads(0, 1);
	returns(0);
	sample(8, 0, 5);
	runs("read with a flag", raw("read with a flag", 8));
	drain(fd, 0);
	reads(0, 0);
	returns(2);
	raw("a callback that returns 2", 8);
	drain(fd, 0);
	reads(0, 0);
	exits();
	raw("a callback that returns anything", 8);
	drain(fd, 0);
	put(BPF_LDX | BPF_MEM | BPF_DW, 0, 1, 0, 0);
	returns(0);
	raw("a record that is loaded from", 8);
	drain(fd, 0);
	put(BPF_ST | BPF_MEM | BPF_DW, 1, 0, 0, 0);
	returns(0);
	raw("a record that is stored to", 8);
	drain(fd, 0);
	number(2, 0);
	number(3, 8);
	call(BPF_FUNC_dynptr_data);
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0);
	put(BPF_LDX | BPF_MEM | BPF_DW, 1, 0, 0, 0);
	returns(0);
	raw("data of a record", 8);
	drain(fd, 0);
	number(2, 0);
	number(3, 8);
	call(BPF_FUNC_dynptr_data);
	put(BPF_LDX | BPF_MEM | BPF_DW, 1, 0, 0, 0);
	returns(0);
	raw("data that was not checked", 8);
	drain(fd, 0);
	number(2, 0);
	number(3, 8);
	call(BPF_FUNC_dynptr_data);
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0);
	put(BPF_LDX | BPF_MEM | BPF_DW, 1, 0, 8, 0);
	returns(0);
	raw("behind the data", 8);
	drain(fd, 0);
	copy(6, 1);
	put(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -8, 1234);
	number(2, 0);
	stack(3, -8);
	number(4, 8);
	number(5, 0);
	call(BPF_FUNC_dynptr_write);
	returns(0);
	sample(8, 0, 5);
	runs("write to a record", raw("write to a record", 8));
	drain(fd, 0);
	put(BPF_ADD | BPF_ALU64 | BPF_K, 1, 0, 0, 8);
	reads(0, 0);
	returns(0);
	raw("the middle of a record", 8);
	drain(fd, 0);
	returns(0);
	raw("without types", 0);
	drain(fd, 0);
	returns(0);
	raw_of("a global function", 8, of_global);
	drain(other, 0);
	returns(0);
	raw("of a ring buffer", 8);
	lookup(fd);
	returns(0);
	raw("look it up", 0);
	pointer(1, fd);
	number(2, 8);
	number(3, 0);
	call(BPF_FUNC_ringbuf_reserve);
	returns(0);
	raw("reserve", 0);
	pointer(1, fd);
	stack(2, -8);
	number(3, 8);
	number(4, 0);
	put(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -8, 1);
	call(BPF_FUNC_ringbuf_output);
	returns(0);
	raw("output", 0);
	put(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -8, 1);
	put(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -16, 1);
	stack(3, -16);
	stack(1, -8);
	number(2, 8);
	number(4, 0);
	number(5, 0);
	call(BPF_FUNC_dynptr_read);
	exits();
	raw("read the stack", 0);
	number(3, 0);
	stack(1, -8);
	number(2, 8);
	number(4, 0);
	number(5, 0);
	call(BPF_FUNC_dynptr_read);
	exits();
	raw("read a number", 0);
}

int main(int argc, char **argv)
{
	of_int = integer("int", 4);
	of_long = integer("long", 8);
	of_proto = type("", 13, 0, of_int);
	of_main = type("main", 12, 1, of_proto);
	of_callback = type("callback", 12, 0, of_proto);
	of_global = type("global", 12, 1, of_proto);
	btf = load_types();
	if (btf < 0)
		return perror("BTF"), 1;
	if (argc > 1 && !strcmp(argv[1], "bloom"))
		bloom();
	else if (argc > 1 && !strcmp(argv[1], "storage"))
		task_storage();
	else
		user_ring();
	return 0;
}
