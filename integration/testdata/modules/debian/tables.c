// Hash tables that grow and shrink while they are used (rhashtable, rhltable), with the paths
// that Linux's headers have inline, and those of the kernel.
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>

struct thing {
	u32 key;
	char name[5];
	bool out;
	struct rhash_head node;
	struct rhlist_head entry;
};

static const struct rhashtable_params by_key = {
	.key_len = sizeof(u32),
	.key_offset = offsetof(struct thing, key),
	.head_offset = offsetof(struct thing, node),
	.automatic_shrinking = true,
};

static const struct rhashtable_params by_name = {
	.key_len = 5,
	.key_offset = offsetof(struct thing, name),
	.head_offset = offsetof(struct thing, node),
	.min_size = 5,
	.max_size = 9,
};

static const struct rhashtable_params listed = {
	.key_len = sizeof(u32),
	.key_offset = offsetof(struct thing, key),
	.head_offset = offsetof(struct thing, entry),
};

#define MANY 3000
static struct thing *things;
static struct rhashtable ht;
static unsigned int freed, sum;

static u32 same(const void *data, u32 len, u32 seed)
{
	return 7;
}

static u32 of_thing(const void *data, u32 len, u32 seed)
{
	return ((const struct thing *)data)->key * 3;
}

static u32 of_key(const void *data, u32 len, u32 seed)
{
	return *(const u32 *)data * 3;
}

static int differs(struct rhashtable_compare_arg *arg, const void *obj)
{
	return *(const u32 *)arg->key != ((const struct thing *)obj)->key;
}

static const struct rhashtable_params by_functions = {
	.head_offset = offsetof(struct thing, node),
	.hashfn = of_key,
	.obj_hashfn = of_thing,
	.obj_cmpfn = differs,
};

static void count(void *ptr, void *arg)
{
	struct thing *t = ptr;

	freed++;
	sum += t->key + *(int *)arg;
}

// until waits until the work of the table has brought it to a size.
static void until(struct rhashtable *t, unsigned int size)
{
	int i;

	for (i = 0; i < 500; i++) {
		unsigned int now;

		rcu_read_lock();
		now = rht_dereference_rcu(t->tbl, t)->size;
		rcu_read_unlock();
		if (now == size)
			break;
		msleep(10);
	}
	flush_work(&t->run_work);
	pr_info("tables: size %u, %d entries\n", t->tbl->size, atomic_read(&t->nelems));
}

// around goes once through a table, which nobody changes.
static void around(struct rhashtable *t, const char *when)
{
	unsigned int n = 0, total = 0, again = 0;
	struct rhashtable_iter it;
	struct thing *e;

	rhashtable_walk_enter(t, &it);
	rhashtable_walk_start(&it);
	while ((e = rhashtable_walk_next(&it))) {
		if (IS_ERR(e)) {
			pr_info("tables: %s: %ld\n", when, PTR_ERR(e));
			continue;
		}
		again += rhashtable_walk_peek(&it) == e;
		n++;
		total += e->key;
		if (n % 7 == 0) {
			rhashtable_walk_stop(&it);
			if (rhashtable_walk_start_check(&it))
				pr_info("tables: %s: again\n", when);
		}
	}
	pr_info("tables: %s: %u entries, sum %u, peeked %u, after the end %d %d\n", when, n, total, again,
		rhashtable_walk_next(&it) == NULL, rhashtable_walk_peek(&it) == NULL);
	rhashtable_walk_stop(&it);
	rhashtable_walk_exit(&it);
}

static void sizes(u16 hint, unsigned int min, unsigned int max)
{
	struct rhashtable_params p = by_key;
	struct rhashtable t;

	p.nelem_hint = hint;
	p.min_size = min;
	p.max_size = max;
	pr_info("tables: hint %u, min %u, max %u: %d\n", hint, min, max, rhashtable_init(&t, &p));
	pr_info("tables: size %u, min %u, max %u, at most %u, key %u of %u\n", t.tbl->size, t.p.min_size, t.p.max_size, t.max_elems, t.key_len, t.p.key_len);
	rhashtable_destroy(&t);
}

static void refused(void)
{
	struct rhashtable_params p = by_key, q = by_functions;
	struct rhashtable t;

	p.key_len = 0;
	q.obj_cmpfn = NULL;
	pr_info("tables: no key %d, no comparison %d\n", rhashtable_init(&t, &p), rhashtable_init(&t, &q));
}

static void keys(void)
{
	unsigned int i, found = 0, missing = 0;
	struct rhashtable_iter it;
	struct thing other = {.key = 3};
	u32 key = 17;

	pr_info("tables: init %d\n", rhashtable_init(&ht, &by_key));
	around(&ht, "empty");
	for (i = 0; i < 40; i++)
		missing += rhashtable_insert_fast(&ht, &things[i].node, by_key) != 0;
	pr_info("tables: 40 inserted, %u failed, size %u\n", missing, ht.tbl->size);
	around(&ht, "40");
	pr_info("tables: twice %d\n", rhashtable_lookup_insert_fast(&ht, &other.node, by_key));
	pr_info("tables: twice %d\n", rhashtable_lookup_get_insert_fast(&ht, &other.node, by_key) == &things[3]);
	pr_info("tables: slow path twice %d\n", rhashtable_insert_slow(&ht, &other.key, &other.node) == &things[3]);
	for (; i < MANY; i++)
		missing += rhashtable_lookup_insert_fast(&ht, &things[i].node, by_key) != 0;
	until(&ht, 4096);
	for (i = 0; i < MANY + 100; i++)
		found += rhashtable_lookup_fast(&ht, &i, by_key) == &things[i];
	pr_info("tables: %u failed, %u found\n", missing, found);
	around(&ht, "many");

	pr_info("tables: remove %d\n", rhashtable_remove_fast(&ht, &things[17].node, by_key));
	pr_info("tables: again %d\n", rhashtable_remove_fast(&ht, &things[17].node, by_key));
	pr_info("tables: found %d\n", rhashtable_lookup_fast(&ht, &key, by_key) != NULL);
	pr_info("tables: replace %d\n", rhashtable_replace_fast(&ht, &things[3].node, &other.node, by_key));
	pr_info("tables: with another key %d\n", rhashtable_replace_fast(&ht, &things[4].node, &things[17].node, by_key));
	pr_info("tables: what is not there %d\n", rhashtable_replace_fast(&ht, &things[3].node, &other.node, by_key));
	key = 3;
	pr_info("tables: the other %d\n", rhashtable_lookup_fast(&ht, &key, by_key) == &other);
	rhashtable_replace_fast(&ht, &other.node, &things[3].node, by_key);

	// A walk that a smaller table comes into begins again.
	rhashtable_walk_enter(&ht, &it);
	rhashtable_walk_start(&it);
	pr_info("tables: walk begun %d\n", !IS_ERR_OR_NULL(rhashtable_walk_next(&it)));
	rhashtable_walk_stop(&it);
	for (i = 40; i < MANY; i++)
		missing += rhashtable_remove_fast(&ht, &things[i].node, by_key) != 0;
	until(&ht, 64);
	pr_info("tables: walk after that %d\n", rhashtable_walk_start_check(&it));
	for (i = 0; !IS_ERR_OR_NULL(rhashtable_walk_next(&it)); i++)
		;
	pr_info("tables: walked %u, %u failed\n", i, missing);
	rhashtable_walk_stop(&it);
	rhashtable_walk_exit(&it);
	around(&ht, "few");
	i = 1000;
	freed = sum = 0;
	rhashtable_free_and_destroy(&ht, count, &i);
	pr_info("tables: freed %u, sum %u\n", freed, sum);
}

static void names(void)
{
	int i, err = rhashtable_init(&ht, &by_name);

	pr_info("tables: names %d, size %u, at most %u\n", err, ht.tbl->size, ht.max_elems);
	for (i = 0; i < 20 && !err; i++)
		err = rhashtable_lookup_insert_fast(&ht, &things[i].node, by_name);
	pr_info("tables: %d inserted, then %d\n", i - 1, err);
	pr_info("tables: found %d %d\n", rhashtable_lookup_fast(&ht, "n0003", by_name) == &things[3], rhashtable_lookup_fast(&ht, "n0019", by_name) == NULL);
	around(&ht, "names");
	rhashtable_destroy(&ht);
}

static void functions(void)
{
	u32 key = 5;
	int i;

	pr_info("tables: functions %d\n", rhashtable_init(&ht, &by_functions));
	for (i = 0; i < 10; i++)
		rhashtable_lookup_insert_key(&ht, &things[i].key, &things[i].node, by_functions);
	pr_info("tables: again %d, got %d\n", rhashtable_lookup_insert_key(&ht, &key, &things[5].node, by_functions),
		rhashtable_lookup_get_insert_key(&ht, &key, &things[5].node, by_functions) == &things[5]);
	rcu_read_lock();
	pr_info("tables: found %d\n", rhashtable_lookup(&ht, &key, by_functions) == &things[5]);
	rcu_read_unlock();
	rhashtable_destroy(&ht);
}

// chains has all entries in one chain, which other hashes do not shorten.
static void chains(void)
{
	struct rhashtable_params p = by_key;
	unsigned int i, ok = 0;
	int err = 0;

	p.hashfn = same;
	pr_info("tables: chain %d\n", rhashtable_init(&ht, &p));
	for (i = 0; i < 16; i++)
		ok += !rhashtable_insert_fast(&ht, &things[i].node, p);
	pr_info("tables: %u in one chain\n", ok);
	for (i = 0; i < 16; i++)
		err |= rhashtable_remove_fast(&ht, &things[(i * 5) % 16].node, p);
	pr_info("tables: removed %d, %d left\n", err, atomic_read(&ht.nelems));
	rhashtable_destroy(&ht);
}

static void lists(void)
{
	struct rhlist_head *list, *pos;
	struct thing *t, more[4];
	struct rhashtable_iter it;
	struct rhltable hlt;
	int i, j, n, at = 1;
	u32 key = 1;

	pr_info("tables: lists %d\n", rhltable_init(&hlt, &listed));
	memset(more, 0, sizeof(more));
	for (i = 0; i < 100; i++)
		if (rhltable_insert(&hlt, &things[i].entry, listed))
			pr_info("tables: insert fails\n");
	for (i = 0; i < 4; i++) {
		more[i].key = 1;
		sprintf(more[i].name, "m%d", i);
		pr_info("tables: insert %d\n", i % 2 ? rhltable_insert(&hlt, &more[i].entry, listed) : rhltable_insert_key(&hlt, &key, &more[i].entry, listed));
	}
	until(&hlt.ht, 256);
	for (j = 0; j < 6; j++) {
		char text[40], *p = text;

		rcu_read_lock();
		list = rhltable_lookup(&hlt, &key, listed);
		n = 0;
		*p = 0;
		rhl_for_each_entry_rcu(t, pos, list, entry) {
			p += sprintf(p, " %.5s", t->name);
			n++;
		}
		rcu_read_unlock();
		pr_info("tables: %d with the key:%s, %d keys\n", n, text, atomic_read(&hlt.ht.nelems));
		if (j == 0)
			pr_info("tables: from the middle %d\n", rhltable_remove(&hlt, &more[2].entry, listed));
		else if (j == 1)
			pr_info("tables: the first %d\n", rhltable_remove(&hlt, &more[3].entry, listed));
		else if (j == 2)
			pr_info("tables: the last %d\n", rhltable_remove(&hlt, &things[1].entry, listed));
		else if (j == 3)
			pr_info("tables: the others %d %d\n", rhltable_remove(&hlt, &more[0].entry, listed), rhltable_remove(&hlt, &more[1].entry, listed));
		else
			pr_info("tables: again %d\n", rhltable_remove(&hlt, &more[1].entry, listed));
	}
	rhltable_insert(&hlt, &more[1].entry, listed);
	rhltable_insert(&hlt, &more[0].entry, listed);
	rhltable_walk_enter(&hlt, &it);
	rhashtable_walk_start(&it);
	for (n = i = 0; !IS_ERR_OR_NULL((t = rhashtable_walk_next(&it))); n++) {
		i += t->key;
		rhashtable_walk_stop(&it);
		rhashtable_walk_start(&it);
	}
	rhashtable_walk_stop(&it);
	rhashtable_walk_exit(&it);
	pr_info("tables: walked %d, sum %d\n", n, i);
	freed = sum = 0;
	rhltable_free_and_destroy(&hlt, count, &at);
	pr_info("tables: freed %u, sum %u\n", freed, sum);
}

// Two threads insert and remove the same keys while the table grows and shrinks, and a third
// looks for one that is always there.
static atomic_t inserted, taken, lost;
static struct completion over;
static bool done;

static int worker(void *arg)
{
	struct thing *mine = arg;
	int round, i;

	for (round = 0; round < 3; round++) {
		for (i = 1; i < 500; i++) {
			mine[i].out = rhashtable_lookup_insert_fast(&ht, &mine[i].node, by_key);
			atomic_add(!mine[i].out, &inserted);
		}
		for (i = 1; i < 500; i++)
			if (!mine[i].out)
				atomic_add(!rhashtable_remove_fast(&ht, &mine[i].node, by_key), &taken);
		cond_resched();
	}
	complete(&over);
	return 0;
}

static int looker(void *arg)
{
	u32 key = 0;

	while (!READ_ONCE(done)) {
		if (rhashtable_lookup_fast(&ht, &key, by_key) != &things[0])
			atomic_inc(&lost);
		cond_resched();
	}
	complete(&over);
	return 0;
}

static void together(void)
{
	int i;

	for (i = 0; i < 500; i++)
		things[1000 + i].key = i;
	init_completion(&over);
	rhashtable_init(&ht, &by_key);
	rhashtable_insert_fast(&ht, &things[0].node, by_key);
	kthread_run(looker, NULL, "looker");
	kthread_run(worker, things, "one");
	kthread_run(worker, things + 1000, "two");
	wait_for_completion(&over);
	wait_for_completion(&over);
	done = true;
	wait_for_completion(&over);
	pr_info("tables: together: all removed %d, lost %d, left %d\n", atomic_read(&inserted) == atomic_read(&taken), atomic_read(&lost), atomic_read(&ht.nelems));
	rhashtable_destroy(&ht);
}

static int __init tables_init(void)
{
	int i;

	things = kvcalloc(MANY + 100, sizeof(*things), GFP_KERNEL);
	if (!things)
		return -ENOMEM;
	for (i = 0; i < MANY; i++) {
		char name[12];

		things[i].key = i;
		sprintf(name, "n%04d", i);
		memcpy(things[i].name, name, 5);
	}
	pr_info("tables: hashes %08x %08x %08x %08x %08x %08x\n", jhash("abc", 3, 1), jhash("abcdefghijkl", 12, 2), jhash("abcdefghijklmnopqrstuvwxyz", 26, 3),
		jhash_1word(1, 2), jhash_2words(1, 2, 3), jhash_3words(1, 2, 3, 4));
	sizes(0, 0, 0);
	sizes(3, 0, 0);
	sizes(100, 0, 0);
	sizes(3, 33, 1000);
	refused();
	keys();
	names();
	functions();
	chains();
	lists();
	together();
	kvfree(things);
	return 0;
}

static void __exit tables_exit(void)
{
}

module_init(tables_init);
module_exit(tables_exit);
MODULE_LICENSE("GPL");
