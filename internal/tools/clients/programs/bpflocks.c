/* bpflocks: which types the keys and values of maps may have, spin locks in values, and timers. For each case it prints the errno,
 * or what the program has returned, and the last line of the verifier's log. */
#define _GNU_SOURCE
#include "bpfcalls.h"

static int btf, of_int, of_long, of_lock, of_timer, of_locked, of_second, of_two, of_bad, of_behind, of_timed, of_twice, of_both, of_key, of_array, of_proto,
	of_main, of_callback, of_nested, of_typedef, of_section;

static int create_as(int type, int key, int value, int entries, int flags, int key_type, int value_type)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.map_type = type, a.key_size = key, a.value_size = value, a.max_entries = entries, a.map_flags = flags;
	strcpy(a.map_name, "named");
	if (key_type || value_type)
		a.btf_fd = btf, a.btf_key_type_id = key_type, a.btf_value_type_id = value_type;
	return bpf(BPF_MAP_CREATE, &a);
}

static int create(int type, int value, int of_value) { return create_as(type, 4, value, 4, 0, of_int, of_value); }

static int load_of(const char *name, int type, int callback)
{
	static struct bpf_func_info funcs[2];
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.prog_type = type;
	if (callback) {
		funcs[0] = (struct bpf_func_info){0, of_main};
		funcs[1] = (struct bpf_func_info){callback, of_callback};
		a.prog_btf_fd = btf, a.func_info = (unsigned long)funcs, a.func_info_cnt = 2, a.func_info_rec_size = sizeof *funcs;
	}
	return load_as(name, &a);
}

static int cls(const char *name) { return load_of(name, BPF_PROG_TYPE_SCHED_CLS, 0); }

/* Runs a program once and returns what it has returned. */
static int result(int fd)
{
	static char packet[64];
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.test.prog_fd = fd, a.test.data_in = (unsigned long)packet, a.test.data_size_in = sizeof packet;
	if (bpf(BPF_PROG_TEST_RUN, &a))
		return -1000 - errno;
	return (int)a.test.retval;
}

static void runs(const char *name, int fd) { printf("%s returns: %d\n", name, result(fd)); }

static void made(const char *name, int fd)
{
	says(name, fd);
	close(fd);
}

static void maps(void)
{
	static const struct { const char *name; int type, key, value, entries, flags; } t[] = {
		{"hash", BPF_MAP_TYPE_HASH, 4, 8, 4, 0}, {"array", BPF_MAP_TYPE_ARRAY, 4, 8, 4, 0}, {"prog array", BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 4, 0},
		{"perf event array", BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, 4, 0}, {"per-CPU hash", BPF_MAP_TYPE_PERCPU_HASH, 4, 8, 4, 0}, {"per-CPU array", BPF_MAP_TYPE_PERCPU_ARRAY, 4, 8, 4, 0},
		{"stack trace", BPF_MAP_TYPE_STACK_TRACE, 4, 8, 4, 0}, {"LRU", BPF_MAP_TYPE_LRU_HASH, 4, 8, 4, 0}, {"LPM trie", BPF_MAP_TYPE_LPM_TRIE, 16, 8, 4, BPF_F_NO_PREALLOC},
		{"queue", BPF_MAP_TYPE_QUEUE, 0, 8, 4, 0}, {"stack", BPF_MAP_TYPE_STACK, 0, 8, 4, 0}, {"ring buffer", BPF_MAP_TYPE_RINGBUF, 0, 0, 4096, 0}, {"bloom filter", BPF_MAP_TYPE_BLOOM_FILTER, 0, 8, 4, 0},
		{"task storage", BPF_MAP_TYPE_TASK_STORAGE, 4, 8, 0, BPF_F_NO_PREALLOC}, {"cgroup array", BPF_MAP_TYPE_CGROUP_ARRAY, 4, 4, 4, 0},
	};
	int keys[6], values[4];

	keys[0] = 0, keys[1] = of_int, keys[2] = of_long, keys[3] = of_key, keys[4] = of_typedef, keys[5] = 99;
	values[0] = 0, values[1] = of_int, values[2] = of_long, values[3] = of_lock;
	for (unsigned i = 0; i < sizeof t / sizeof *t; i++) {
		printf("%s:", t[i].name);
		for (int k = 0; k < 6; k++)
			for (int v = 0; v < 4; v++) {
				int fd = create_as(t[i].type, t[i].key, t[i].value, t[i].entries, t[i].flags, keys[k], values[v]);

				printf(" %d", fd < 0 ? errno : 0);
				close(fd);
			}
		printf("\n");
	}
	made("an array of a section", create_as(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0, 0, of_section));
	made("two sections", create_as(BPF_MAP_TYPE_ARRAY, 4, 8, 2, 0, 0, of_section));
	made("one value without a key", create_as(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0, 0, of_long));
	made("a hash of a section", create_as(BPF_MAP_TYPE_HASH, 4, 8, 1, 0, 0, of_section));
	made("a value of an array", create_as(BPF_MAP_TYPE_ARRAY, 4, 16, 1, 0, of_int, of_array));
}

/* A map of maps that are like another one. */
static int holder(int inner)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.map_type = BPF_MAP_TYPE_ARRAY_OF_MAPS, a.key_size = 4, a.value_size = 4, a.max_entries = 1, a.inner_map_fd = inner;
	return bpf(BPF_MAP_CREATE, &a);
}

static void locked_maps(void)
{
	static const int types[] = {
		BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_PERCPU_HASH, BPF_MAP_TYPE_PERCPU_ARRAY, BPF_MAP_TYPE_LRU_HASH, BPF_MAP_TYPE_LRU_PERCPU_HASH, BPF_MAP_TYPE_LPM_TRIE,
		BPF_MAP_TYPE_QUEUE, BPF_MAP_TYPE_TASK_STORAGE, BPF_MAP_TYPE_BLOOM_FILTER,
	};

	for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
		int t = types[i], key = t == BPF_MAP_TYPE_LPM_TRIE ? 8 : t == BPF_MAP_TYPE_QUEUE || t == BPF_MAP_TYPE_BLOOM_FILTER ? 0 : 4;
		int flags = t == BPF_MAP_TYPE_LPM_TRIE || t == BPF_MAP_TYPE_TASK_STORAGE ? BPF_F_NO_PREALLOC : 0, entries = t == BPF_MAP_TYPE_TASK_STORAGE ? 0 : 4;
		int key_type = key == 8 ? of_key : key ? of_int : 0, fd;

		printf("map type %d:", t);
		fd = create_as(t, key, 16, entries, flags, key_type, of_locked), printf(" lock %d", fd < 0 ? errno : 0), close(fd);
		fd = create_as(t, key, 24, entries, flags, key_type, of_timed), printf(" timer %d", fd < 0 ? errno : 0), close(fd);
		fd = create_as(t, key, 32, entries, flags, key_type, of_both), printf(" both %d", fd < 0 ? errno : 0), close(fd);
		fd = create_as(t, key, 16, entries, flags | BPF_F_RDONLY_PROG, key_type, of_locked), printf(" lock to read %d", fd < 0 ? errno : 0), close(fd);
		fd = create_as(t, key, 24, entries, flags | BPF_F_RDONLY_PROG, key_type, of_timed), printf(" timer to read %d", fd < 0 ? errno : 0), close(fd);
		printf("\n");
	}
	made("two locks", create(BPF_MAP_TYPE_HASH, 16, of_two));
	made("a lock between", create(BPF_MAP_TYPE_HASH, 16, of_bad));
	made("a lock alone", create(BPF_MAP_TYPE_HASH, 4, of_lock));
	made("two timers", create(BPF_MAP_TYPE_HASH, 32, of_twice));
}

/* Looks element 0 up; r6 is its value. If it is not there the program returns -1. */
static void found(int fd)
{
	lookup(fd);
	put(BPF_JMP | BPF_JNE | BPF_K, 0, 0, 2, 0);
	returns(-1);
	copy(6, 0);
}

static void at(int dst, int off)
{
	copy(dst, 6);
	if (off)
		put(BPF_ADD | BPF_ALU64 | BPF_K, dst, 0, 0, off);
}

static void locks(int off)
{
	at(1, off);
	call(BPF_FUNC_spin_lock);
}

static void unlocks(int off)
{
	at(1, off);
	call(BPF_FUNC_spin_unlock);
}

static void spin_locks(void)
{
	struct { unsigned lock, n; long m; } v = {77, 5, 6}, w;
	int fd = create(BPF_MAP_TYPE_HASH, 16, of_locked), array = create(BPF_MAP_TYPE_ARRAY, 16, of_locked), second = create(BPF_MAP_TYPE_HASH, 16, of_second);
	int plain = map(BPF_MAP_TYPE_HASH, 4, 16, 4, 0), key = 0, p, outer, other;

	locked_maps();
	made("in a map of maps", holder(fd));
	made("in a map of maps, a timer", holder(create(BPF_MAP_TYPE_HASH, 24, of_timed)));
	outer = holder(create(BPF_MAP_TYPE_HASH, 24, of_timed));
	other = create(BPF_MAP_TYPE_HASH, 24, of_timed);
	says("put a map with a timer there", update(outer, &key, &other));
	other = map(BPF_MAP_TYPE_HASH, 4, 24, 4, 0);
	says("put a map without there", update(outer, &key, &other));
	for (int i = 0; i < 2; i++) {
		int m = i ? array : fd;

		says("update with a lock", update_as(m, &key, &v, BPF_F_LOCK));
		says("update what exists", update_as(m, &key, &v, BPF_F_LOCK | BPF_EXIST));
		says("update what does not", update_as(m, &key, &v, BPF_F_LOCK | BPF_NOEXIST));
		says("update with another flag", update_as(m, &key, &v, BPF_F_LOCK | 8));
		says("find with a lock", one_as(BPF_MAP_LOOKUP_ELEM, m, &key, &w, BPF_F_LOCK));
		printf("%u %u %ld\n", w.lock, w.n, w.m);
		says("find", one(BPF_MAP_LOOKUP_ELEM, m, &key, &w));
		printf("%u %u %ld\n", w.lock, w.n, w.m);
	}
	key = 3;
	says("update what does not exist", update_as(fd, &key, &v, BPF_F_LOCK | BPF_EXIST));
	key = 0;
	says("in a map without", update_as(plain, &key, &v, BPF_F_LOCK));
	says("find in a map without", one_as(BPF_MAP_LOOKUP_ELEM, plain, &key, &w, BPF_F_LOCK));
	update(plain, &key, &v);
	update(second, &key, &v);

	found(fd), locks(0);
	put(BPF_LDX | BPF_MEM | BPF_W, 7, 6, 4, 0);
	put(BPF_ADD | BPF_ALU64 | BPF_K, 7, 0, 0, 1);
	put(BPF_STX | BPF_MEM | BPF_W, 6, 7, 4, 0);
	unlocks(0);
	copy(0, 7), exits();
	p = cls("count");
	runs("count", p), runs("count", p);
	says("find with a lock", one_as(BPF_MAP_LOOKUP_ELEM, fd, &key, &w, BPF_F_LOCK));
	printf("%u %u %ld\n", w.lock, w.n, w.m);
	value(6, array, 0), locks(0), unlocks(0), returns(1);
	p = cls("a value that is known");
	made("an array of one", array = create_as(BPF_MAP_TYPE_ARRAY, 4, 16, 1, 0, of_int, of_locked));
	array = create_as(BPF_MAP_TYPE_ARRAY, 4, 16, 1, 0, of_int, of_locked);
	value(6, array, 0), locks(0), unlocks(0), returns(1);
	runs("a value that is known", cls("a value that is known"));
	found(second), locks(8), unlocks(8), returns(1);
	runs("not at the beginning", cls("not at the beginning"));
	found(second), locks(0), unlocks(0), returns(1);
	cls("at another place");
	found(fd), locks(0), returns(1);
	cls("not given back");
	found(fd), locks(0), locks(0), unlocks(0), returns(1);
	cls("taken twice");
	found(fd), unlocks(0), returns(1);
	cls("not taken");
	found(fd), locks(0);
	call(BPF_FUNC_ktime_get_ns);
	unlocks(0), returns(1);
	cls("a helper meanwhile");
	found(fd), locks(0), unlocks(0), unlocks(0), returns(1);
	cls("given back twice");
	found(fd);
	copy(7, 6);
	found(fd), locks(0);
	copy(1, 7);
	call(BPF_FUNC_spin_unlock);
	returns(1);
	cls("of another value");
	found(fd);
	put(BPF_LDX | BPF_MEM | BPF_W, 0, 6, 0, 0);
	exits();
	cls("loaded");
	found(fd);
	put(BPF_ST | BPF_MEM | BPF_W, 6, 0, 0, 0);
	returns(0);
	cls("stored");
	found(fd);
	at(1, 0), number(2, 8), copy(3, 10);
	call(BPF_FUNC_probe_read_kernel);
	returns(0);
	cls("written by a helper");
	found(fd);
	put(BPF_LDX | BPF_MEM | BPF_W, 0, 6, 4, 0);
	exits();
	runs("what is behind it", cls("what is behind it"));
	found(plain), locks(0), unlocks(0), returns(1);
	cls("without types");
	found(create(BPF_MAP_TYPE_HASH, 8, of_long)), locks(0), unlocks(0), returns(1);
	cls("of a number");
	found(create(BPF_MAP_TYPE_HASH, 16, of_key)), locks(0), unlocks(0), returns(1);
	cls("of a structure without");
	found(create(BPF_MAP_TYPE_HASH, 16, of_two)), locks(0), unlocks(0), returns(1);
	cls("of two");
	found(create(BPF_MAP_TYPE_HASH, 24, of_nested)), locks(8), unlocks(8), returns(1);
	cls("in a structure in it");
	stack(1, -8);
	put(BPF_ST | BPF_MEM | BPF_W, 10, 0, -8, 0);
	call(BPF_FUNC_spin_lock);
	returns(0);
	cls("on the stack");
	found(fd);
	put(BPF_LDX | BPF_MEM | BPF_W, 7, 6, 4, 0);
	put(BPF_AND | BPF_ALU64 | BPF_K, 7, 0, 0, 4);
	put(BPF_ADD | BPF_ALU64 | BPF_X, 6, 7, 0, 0);
	locks(0), unlocks(0), returns(1);
	cls("at a place that is not known");
	lookup(fd);
	copy(1, 0);
	call(BPF_FUNC_spin_lock);
	returns(0);
	cls("not checked");
	found(fd), locks(0);
	put(BPF_LDX | BPF_MEM | BPF_W, 7, 6, 4, 0);
	put(BPF_JMP | BPF_JEQ | BPF_K, 7, 0, 2, 0);
	unlocks(0);
	returns(1);
	cls("on one way only");
	for (unsigned i = 0; i < 5; i++) {
		static const int kinds[] = {BPF_PROG_TYPE_KPROBE, BPF_PROG_TYPE_SOCKET_FILTER, BPF_PROG_TYPE_XDP, BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_PROG_TYPE_PERF_EVENT};

		found(fd), locks(0), unlocks(0), returns(1);
		printf("program type %d: ", kinds[i]);
		close(load_of("taken", kinds[i], 0));
		found(fd), returns(1);
		printf("program type %d: ", kinds[i]);
		close(load_of("not taken", kinds[i], 0));
	}
}

/* Calls a helper of timers with the timer of the value, and ends the program if that fails. */
static void timer(int off, int helper)
{
	at(1, off);
	call(helper);
}

static void unless_ok(void)
{
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0);
	exits();
}

static void init(int fd, int off, int clock)
{
	pointer(2, fd), number(3, clock);
	timer(off, BPF_FUNC_timer_init);
}

static int names_callback, callback_at;

static void set_callback(int off)
{
	names_callback = n;
	wide(2, BPF_PSEUDO_FUNC, 0, 0);
	timer(off, BPF_FUNC_timer_set_callback);
}

static void start(int off, int ns, int flags)
{
	number(2, ns), number(3, flags);
	timer(off, BPF_FUNC_timer_start);
}

/* The callback begins here. */
static void callback(void)
{
	exits();
	prog[names_callback].imm = n - names_callback - 1;
	callback_at = n;
}

static int counter;

/* A callback that counts its calls in the array counter. */
static void counts(int ret)
{
	callback();
	put(BPF_LDX | BPF_MEM | BPF_W, 7, 2, 0, 0);
	put(BPF_LDX | BPF_MEM | BPF_DW, 8, 3, 16, 0);
	value(1, counter, 0);
	put(BPF_ADD | BPF_ALU64 | BPF_X, 8, 7, 0, 0);
	put(BPF_ADD | BPF_ALU64 | BPF_K, 8, 0, 0, 1);
	put(BPF_STX | BPF_ATOMIC | BPF_DW, 1, 8, 0, BPF_ADD);
	returns(ret);
}

static int timed(const char *name) { return load_of(name, BPF_PROG_TYPE_SCHED_CLS, callback_at); }

/* What the callbacks have counted, after enough time for one. */
static long total(long want)
{
	long v = 0, zero = 0;
	int key = 0;

	for (int i = 0; i < 200; i++) {
		one(BPF_MAP_LOOKUP_ELEM, counter, &key, &v);
		if (v >= want)
			break;
		usleep(10000);
	}
	update(counter, &key, &zero);
	return v;
}

static void timers(void)
{
	struct { long timer[2], n; } v = {{77, 78}, 100}, w;
	int fd = create(BPF_MAP_TYPE_ARRAY, 24, of_timed), hash = create(BPF_MAP_TYPE_HASH, 24, of_timed), key = 0, p, cancel, again;

	counter = map(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0);
	update(fd, &key, &v), update(hash, &key, &v);
	one(BPF_MAP_LOOKUP_ELEM, fd, &key, &w);
	printf("%ld %ld %ld\n", w.timer[0], w.timer[1], w.n);
	says("update with a lock", update_as(fd, &key, &v, BPF_F_LOCK));

	found(fd), start(0, 1000, 0), exits(), runs("start before it is made", cls("start before it is made"));
	found(fd), timer(0, BPF_FUNC_timer_cancel), exits(), cancel = cls("cancel before it is made"), runs("cancel before it is made", cancel);
	found(fd), set_callback(0), counts(0), p = timed("a callback before it is made"), runs("a callback before it is made", p);
	found(fd), init(fd, 0, 99), exits(), runs("an unknown clock", cls("an unknown clock"));
	found(fd), init(fd, 0, 8), exits(), runs("a clock of alarms", cls("a clock of alarms"));
	found(fd), init(fd, 0, 1), exits(), p = cls("make it"), runs("make it", p), runs("make it again", p);
	found(fd), start(0, 1000, 0), exits(), runs("start without a callback", cls("start without a callback"));
	found(fd), set_callback(0), unless_ok(), start(0, 1000000, 0), counts(0), p = timed("start");
	runs("start", p);
	printf("counted %ld\n", total(101));
	runs("cancel one that has run", cancel);
	runs("start", p);
	printf("counted %ld\n", total(101));
	found(fd), start(0, 1000, 5), exits(), runs("a flag", cls("a flag"));
	found(fd), set_callback(0), unless_ok(), number(2, 1), put(BPF_LSH | BPF_ALU64 | BPF_K, 2, 0, 0, 40), number(3, 0), timer(0, BPF_FUNC_timer_start), counts(0), again = timed("start it for later");
	runs("start it for later", again), runs("cancel it", cancel), runs("cancel it again", cancel);
	runs("start it for later", again), runs("start it sooner", p);
	printf("counted %ld\n", total(101));

	found(hash), init(hash, 0, 7), unless_ok(), set_callback(0), unless_ok(), start(0, 1000000, 0), counts(0), p = timed("in a hash table");
	runs("in a hash table", p);
	printf("counted %ld\n", total(101));
	found(hash), init(hash, 0, 0), unless_ok(), set_callback(0), unless_ok(), start(0, 50000000, 0), counts(0), p = timed("deleted");
	says("delete", one(BPF_MAP_DELETE_ELEM, hash, &key, NULL));
	update(hash, &key, &v);
	runs("deleted", p);
	says("delete", one(BPF_MAP_DELETE_ELEM, hash, &key, NULL));
	usleep(150000);
	printf("counted %ld\n", total(0));
	/* A callback that starts its own timer again, three times. */
	value(1, counter, 0);
	found(fd), set_callback(0), unless_ok(), start(0, 1000000, 0);
	callback();
	copy(6, 3);
	value(1, counter, 0);
	number(2, 1);
	put(BPF_STX | BPF_ATOMIC | BPF_DW, 1, 2, 0, BPF_ADD | BPF_FETCH);
	put(BPF_JMP | BPF_JGT | BPF_K, 2, 0, 4, 1);
	start(0, 1000000, 0);
	returns(0);
	runs("again", timed("again"));
	printf("counted %ld\n", total(3));
	found(fd), set_callback(0), unless_ok(), start(0, 1000000, 0);
	callback();
	copy(6, 3);
	timer(0, BPF_FUNC_timer_cancel);
	value(1, counter, 0);
	put(BPF_STX | BPF_MEM | BPF_DW, 1, 0, 0, 0);
	returns(0);
	update(counter, &key, &v);
	runs("cancel itself", timed("cancel itself"));
	usleep(100000);
	printf("counted %ld\n", total(0));

	found(fd), init(hash, 0, 1), exits(), cls("with another map");
	found(fd), init(fd, 8, 1), exits(), cls("at another place");
	found(map(BPF_MAP_TYPE_ARRAY, 4, 24, 1, 0)), init(fd, 0, 1), exits(), cls("without types");
	found(create(BPF_MAP_TYPE_ARRAY, 8, of_long)), init(fd, 0, 1), exits(), cls("of a number");
	found(create(BPF_MAP_TYPE_ARRAY, 16, of_key)), init(fd, 0, 1), exits(), cls("of a structure without");
	found(create(BPF_MAP_TYPE_ARRAY, 32, of_twice)), init(fd, 0, 1), exits(), cls("of two");
	found(fd), put(BPF_LDX | BPF_MEM | BPF_DW, 0, 6, 8, 0), exits(), cls("loaded");
	found(fd), put(BPF_ST | BPF_MEM | BPF_W, 6, 0, 0, 0), returns(0), cls("stored");
	found(fd), set_callback(0), counts(1), timed("a callback that returns 1");
	found(fd), set_callback(0), callback(), copy(0, 1), exits(), timed("a callback that returns a pointer");
	found(fd), set_callback(0), callback(), put(BPF_LDX | BPF_MEM | BPF_DW, 0, 3, 0, 0), returns(0), timed("a callback that loads the timer");
	found(fd), set_callback(0), callback(), put(BPF_LDX | BPF_MEM | BPF_DW, 0, 4, 0, 0), returns(0), timed("a callback with a fourth argument");
	stack(1, -16), put(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -16, 0), call(BPF_FUNC_timer_cancel), exits(), cls("on the stack");
	for (unsigned i = 0; i < 5; i++) {
		static const int kinds[] = {BPF_PROG_TYPE_KPROBE, BPF_PROG_TYPE_SOCKET_FILTER, BPF_PROG_TYPE_XDP, BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_PROG_TYPE_PERF_EVENT};

		found(fd), timer(0, BPF_FUNC_timer_cancel), returns(1);
		printf("program type %d: ", kinds[i]);
		close(load_of("cancel", kinds[i], 0));
	}
}

static int of_task, of_none, of_kptr, of_kptr_ref, of_kptr_none, of_kptr_int, of_kptr_tag, of_kptr_two, of_plain;

static int pointer_to(const char *tag, int of)
{
	return type("", 2, 0, type(tag, 18, 0, of));
}

static int with_pointer(const char *name, int pointer)
{
	int id = type(name, 4, 2, 16);

	member("p", pointer, 0), member("n", of_long, 8);
	return id;
}

static void kptr_types(void)
{
	of_task = type("task_struct", 4, 1, 8), member("x", of_long, 0);
	of_none = type("no_such_struct", 4, 1, 8), member("x", of_long, 0);
	of_kptr = with_pointer("kptr", pointer_to("kptr", of_task));
	of_kptr_ref = with_pointer("kptr_ref", pointer_to("kptr_ref", of_task));
	of_kptr_none = with_pointer("kptr_none", pointer_to("kptr", of_none));
	of_kptr_int = with_pointer("kptr_int", pointer_to("kptr", of_int));
	of_kptr_tag = with_pointer("kptr_tag", pointer_to("other", of_task));
	of_kptr_two = with_pointer("kptr_two", type("", 2, 0, type("kptr", 18, 0, type("kptr", 18, 0, of_task))));
	of_plain = with_pointer("plain", type("", 2, 0, of_task));
}

static int raw(const char *name) { return load_of(name, BPF_PROG_TYPE_RAW_TRACEPOINT, 0); }

static int raw_result(int fd)
{
	union bpf_attr a;

	memset(&a, 0, sizeof a);
	a.test.prog_fd = fd;
	return bpf(BPF_PROG_TEST_RUN, &a) ? -1000 - errno : (int)a.test.retval;
}

static void stored(int fd)
{
	found(fd);
	call(BPF_FUNC_get_current_task_btf);
	put(BPF_STX | BPF_MEM | BPF_DW, 6, 0, 0, 0);
}

static void kptrs(void)
{
	static const int kinds[] = {BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_LRU_HASH, BPF_MAP_TYPE_PERCPU_ARRAY, BPF_MAP_TYPE_PERCPU_HASH};
	struct { long p, n; } v = {77, 100}, w;
	int fd, hash, p, key = 0;

	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		printf("map type %d: ", kinds[i]);
		made("kptr", create(kinds[i], 16, of_kptr));
	}
	made("to read", create_as(BPF_MAP_TYPE_ARRAY, 4, 16, 1, BPF_F_RDONLY_PROG, of_int, of_kptr));
	made("to write", create_as(BPF_MAP_TYPE_ARRAY, 4, 16, 1, BPF_F_WRONLY_PROG, of_int, of_kptr));
	made("with a reference", create(BPF_MAP_TYPE_ARRAY, 16, of_kptr_ref));
	made("of no structure of the kernel", create(BPF_MAP_TYPE_ARRAY, 16, of_kptr_none));
	made("of a number", create(BPF_MAP_TYPE_ARRAY, 16, of_kptr_int));
	made("another tag", create(BPF_MAP_TYPE_ARRAY, 16, of_kptr_tag));
	made("no tag", create(BPF_MAP_TYPE_ARRAY, 16, of_plain));
	made("two tags", create(BPF_MAP_TYPE_ARRAY, 16, of_kptr_two));

	fd = create(BPF_MAP_TYPE_ARRAY, 16, of_kptr), hash = create(BPF_MAP_TYPE_HASH, 16, of_kptr);
	says("update", update(fd, &key, &v)), update(hash, &key, &v);
	one(BPF_MAP_LOOKUP_ELEM, fd, &key, &w), printf("%ld %ld\n", w.p, w.n);
	found(fd);
	put(BPF_LDX | BPF_MEM | BPF_DW, 0, 6, 0, 0);
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0);
	number(0, 1), exits();
	p = raw("is there one");
	printf("is there one: %d\n", raw_result(p));
	stored(fd), returns(2);
	printf("stored: %d\n", raw_result(raw("stored")));
	printf("is there one: %d\n", raw_result(p));
	one(BPF_MAP_LOOKUP_ELEM, fd, &key, &w), printf("%ld %ld\n", w.p, w.n);
	found(fd);
	put(BPF_LDX | BPF_MEM | BPF_DW, 7, 6, 0, 0);
	put(BPF_JMP | BPF_JNE | BPF_K, 7, 0, 2, 0);
	returns(-1);
	put(BPF_LDX | BPF_MEM | BPF_DW, 7, 7, 0, 0);
	returns(3);
	printf("read: %d\n", raw_result(raw("read")));
	found(fd), put(BPF_ST | BPF_MEM | BPF_DW, 6, 0, 0, 0), returns(4);
	printf("cleared: %d\n", raw_result(raw("cleared")));
	printf("is there one: %d\n", raw_result(p));
	found(fd), number(1, 0), put(BPF_STX | BPF_MEM | BPF_DW, 6, 1, 0, 0), returns(5);
	printf("cleared by a register: %d\n", raw_result(raw("cleared by a register")));

	found(fd), put(BPF_LDX | BPF_MEM | BPF_DW, 7, 6, 0, 0), put(BPF_LDX | BPF_MEM | BPF_DW, 0, 7, 0, 0), exits();
	raw("not checked");
	found(fd), put(BPF_LDX | BPF_MEM | BPF_W, 0, 6, 0, 0), exits();
	raw("half of it");
	found(fd), put(BPF_LDX | BPF_MEM | BPF_W, 0, 6, 4, 0), exits();
	raw("the other half");
	found(fd), put(BPF_ST | BPF_MEM | BPF_DW, 6, 0, 0, 5), returns(0);
	raw("a constant");
	found(fd), number(1, 5), put(BPF_STX | BPF_MEM | BPF_DW, 6, 1, 0, 0), returns(0);
	raw("a number");
	found(fd), put(BPF_STX | BPF_MEM | BPF_DW, 6, 6, 0, 0), returns(0);
	raw("a value's address");
	found(fd), number(1, 5), put(BPF_STX | BPF_ATOMIC | BPF_DW, 6, 1, 0, BPF_ADD), returns(0);
	raw("added");
	found(fd), at(1, 0), number(2, 8), number(3, 0), call(BPF_FUNC_probe_read_kernel), returns(0);
	raw("written by a helper");
	found(fd), call(BPF_FUNC_get_current_task_btf), put(BPF_ADD | BPF_ALU64 | BPF_K, 0, 0, 0, 8), put(BPF_STX | BPF_MEM | BPF_DW, 6, 0, 0, 0), returns(0);
	raw("the middle of a task");
	found(fd);
	put(BPF_LDX | BPF_MEM | BPF_DW, 7, 6, 0, 0);
	put(BPF_STX | BPF_MEM | BPF_DW, 6, 7, 0, 0);
	returns(0);
	raw("stored again");
	found(fd);
	put(BPF_LDX | BPF_MEM | BPF_DW, 7, 6, 0, 0);
	put(BPF_JMP | BPF_JNE | BPF_K, 7, 0, 2, 0);
	returns(-1);
	pointer(1, create_as(BPF_MAP_TYPE_TASK_STORAGE, 4, 8, 0, BPF_F_NO_PREALLOC, of_int, of_long)), copy(2, 7);
	call(BPF_FUNC_task_storage_delete);
	exits();
	raw("given to a helper");
	found(fd);
	put(BPF_LDX | BPF_MEM | BPF_W, 7, 6, 8, 0);
	put(BPF_AND | BPF_ALU64 | BPF_K, 7, 0, 0, 8);
	put(BPF_ADD | BPF_ALU64 | BPF_X, 6, 7, 0, 0);
	put(BPF_LDX | BPF_MEM | BPF_DW, 0, 6, 0, 0);
	returns(0);
	raw("at a place that is not known");
	found(fd), put(BPF_LDX | BPF_MEM | BPF_DW, 0, 6, 8, 0), exits();
	raw("what is behind it");
	stored(hash), returns(2);
	printf("in a hash table: %d\n", raw_result(raw("in a hash table")));
	update(fd, &key, &v);
	printf("is there one after an update: %d\n", raw_result(p));
}

int main(int argc, char **argv)
{
	of_int = integer("int", 4);
	of_long = integer("long", 8);
	of_lock = type("bpf_spin_lock", 4, 1, 4), member("val", of_int, 0);
	of_timer = type("bpf_timer", 4, 2, 16), member("a", of_long, 0), member("b", of_long, 8);
	of_locked = type("locked", 4, 3, 16), member("lock", of_lock, 0), member("n", of_int, 4), member("m", of_long, 8);
	of_second = type("second", 4, 2, 16), member("m", of_long, 0), member("lock", of_lock, 8);
	of_two = type("two", 4, 3, 16), member("m", of_long, 0), member("lock", of_lock, 8), member("lock2", of_lock, 12);
	of_bad = type("bad", 4, 1, 16), member("lock", of_lock, 2);
	of_timed = type("timed", 4, 2, 24), member("timer", of_timer, 0), member("n", of_long, 16);
	of_twice = type("twice", 4, 2, 32), member("timer", of_timer, 0), member("timer2", of_timer, 16);
	of_both = type("both", 4, 3, 32), member("timer", of_timer, 0), member("lock", of_lock, 16), member("n", of_long, 24);
	of_key = type("key", 4, 2, 16), member("a", of_long, 0), member("b", of_long, 8);
	of_nested = type("nested", 4, 2, 24), member("m", of_long, 0), member("in", of_locked, 8);
	of_typedef = type("number", 8, 0, of_int);
	of_array = type("", 3, 0, 0), word(of_long), word(of_int), word(2);
	of_proto = type("", 13, 0, of_int);
	of_main = type("main", 12, 1, of_proto);
	of_callback = type("callback", 12, 0, of_proto);
	of_behind = type("x", 14, 0, of_long), word(1);
	of_section = type(".bss", 15, 1, 8), word(of_behind), word(0), word(8);
	if (argc > 1 && !strcmp(argv[1], "kptrs"))
		kptr_types();
	btf = load_types();
	if (btf < 0)
		return perror("BTF"), 1;
	if (argc > 1 && !strcmp(argv[1], "types"))
		maps();
	else if (argc > 1 && !strcmp(argv[1], "locks"))
		spin_locks();
	else if (argc > 1 && !strcmp(argv[1], "kptrs"))
		kptrs();
	else
		timers();
	return 0;
}
