// SPDX-License-Identifier: MIT
/* xarrays: an array with marks, one that allocates, entries of several indices, and the advanced calls. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/xarray.h>

static DEFINE_XARRAY(plain);
static DEFINE_XARRAY_ALLOC(ids);
static DEFINE_XARRAY_ALLOC1(ids1);
static int things[8];

static long number(void *entry)
{
	if (!entry)
		return -1;
	return xa_is_value(entry) ? (long)xa_to_value(entry) : (int *)entry - things;
}

static void list(const char *what, struct xarray *xa)
{
	unsigned long index;
	void *entry;

	pr_info("%s:\n", what);
	xa_for_each(xa, index, entry)
		pr_info(" %lu: %ld%s\n", index, number(entry), xa_get_mark(xa, index, XA_MARK_1) ? " marked" : "");
}

static void simple(void)
{
	static const unsigned long at[] = { 0, 1, 63, 64, 4096, 1UL << 40, ULONG_MAX };
	unsigned long index = 0;
	void *entry, *got[4];
	int i;

	pr_info("empty %d, load %ld\n", xa_empty(&plain), number(xa_load(&plain, 5)));
	for (i = 0; i < ARRAY_SIZE(at); i++)
		pr_info("store %lu: %ld\n", at[i], number(xa_store(&plain, at[i], &things[i], GFP_KERNEL)));
	pr_info("store again: %ld\n", number(xa_store(&plain, 63, xa_mk_value(77), GFP_KERNEL)));
	pr_info("insert: %d %d\n", xa_insert(&plain, 63, things, GFP_KERNEL), xa_insert(&plain, 65, things, GFP_KERNEL));
	pr_info("cmpxchg: %ld %ld\n", number(xa_cmpxchg(&plain, 65, &things[1], NULL, GFP_KERNEL)),
		number(xa_cmpxchg(&plain, 65, &things[0], &things[5], GFP_KERNEL)));
	xa_set_mark(&plain, 64, XA_MARK_1);
	xa_set_mark(&plain, 1UL << 40, XA_MARK_1);
	xa_set_mark(&plain, 77, XA_MARK_1);
	list("plain", &plain);
	xa_for_each_marked(&plain, index, entry, XA_MARK_1)
		pr_info("marked %lu\n", index);
	index = 2;
	entry = xa_find(&plain, &index, 100, XA_PRESENT);
	pr_info("found %lu: %ld\n", index, number(entry));
	entry = xa_find_after(&plain, &index, 64, XA_PRESENT);
	pr_info("after %lu: %ld\n", index, number(entry));
	entry = xa_find_after(&plain, &index, 64, XA_PRESENT);
	pr_info("none: %d\n", !entry);
	pr_info("extracted %u\n", xa_extract(&plain, got, 1, 4096, 4, XA_PRESENT));
	pr_info("%ld %ld %ld %ld\n", number(got[0]), number(got[1]), number(got[2]), number(got[3]));
	xa_clear_mark(&plain, 64, XA_MARK_1);
	pr_info("marks %d %d\n", xa_get_mark(&plain, 64, XA_MARK_1), xa_marked(&plain, XA_MARK_1));
	pr_info("erased %ld, then %ld\n", number(xa_erase(&plain, 1UL << 40)), number(xa_erase(&plain, 1UL << 40)));
	pr_info("marked %d\n", xa_marked(&plain, XA_MARK_1));
	pr_info("reserve %d, load %ld\n", xa_reserve(&plain, 7, GFP_KERNEL), number(xa_load(&plain, 7)));
	pr_info("into it: %d\n", xa_insert(&plain, 7, things, GFP_KERNEL));
	xa_release(&plain, 7);
	pr_info("released: %d\n", xa_insert(&plain, 7, things, GFP_KERNEL));
	pr_info("internal: %d\n", xa_err(xa_store(&plain, 3, xa_mk_internal(300), GFP_KERNEL)));
	xa_destroy(&plain);
	pr_info("empty %d\n", xa_empty(&plain));
}

static void alloc(const char *what, struct xarray *xa)
{
	u32 id = 0, next = 0;
	int i, err;

	for (i = 0; i < 3; i++) {
		err = xa_alloc(xa, &id, &things[i], xa_limit_32b, GFP_KERNEL);
		pr_info("%s: %d, id %u\n", what, err, id);
	}
	for (i = 0; i < 100; i++)
		err = xa_alloc(xa, &id, NULL, xa_limit_31b, GFP_KERNEL);
	pr_info("%s: %d, id %u, load %ld\n", what, err, id, number(xa_load(xa, id)));
	xa_erase(xa, 2);
	xa_erase(xa, 70);
	err = xa_alloc(xa, &id, &things[4], xa_limit_32b, GFP_KERNEL);
	pr_info("reused: %d, id %u\n", err, id);
	err = xa_alloc(xa, &id, &things[4], XA_LIMIT(10, 60), GFP_KERNEL);
	pr_info("full: %d\n", err);
	err = xa_alloc(xa, &id, &things[4], XA_LIMIT(10, 75), GFP_KERNEL);
	pr_info("limited: %d, id %u\n", err, id);
	for (i = 0; i < 4; i++) {
		err = xa_alloc_cyclic(xa, &id, &things[5], XA_LIMIT(200, 202), &next, GFP_KERNEL);
		pr_info("cyclic: %d, id %u, next %u\n", err, id, next);
		if (i == 2)
			xa_erase(xa, 201);
	}
	list(what, xa);
	xa_destroy(xa);
	err = xa_alloc(xa, &id, &things[4], xa_limit_32b, GFP_KERNEL);
	pr_info("anew: %d, id %u\n", err, id);
	xa_erase(xa, id);
	pr_info("empty %d\n", xa_empty(xa));
}

static void ranges(void)
{
	XA_STATE_ORDER(xas, &plain, 64, 3);
	XA_STATE(walk, &plain, 0);
	unsigned long index;
	void *entry;

	pr_info("range: %d\n", xa_err(xa_store_range(&plain, 5, 140, &things[1], GFP_KERNEL)));
	xa_for_each(&plain, index, entry)
		pr_info(" from %lu: %ld\n", index, number(entry));
	pr_info("%ld %ld %ld %ld\n", number(xa_load(&plain, 4)), number(xa_load(&plain, 100)),
		number(xa_load(&plain, 140)), number(xa_load(&plain, 141)));
	pr_info("backwards: %d\n", xa_err(xa_store_range(&plain, 5, 4, &things[1], GFP_KERNEL)));
	pr_info("erased %ld: %ld %ld\n", number(xa_erase(&plain, 100)), number(xa_load(&plain, 64)), number(xa_load(&plain, 128)));
	xas_lock(&xas);
	xas_create_range(&xas);
	pr_info("conflict %d\n", xas_find_conflict(&xas) != NULL);
	xas_store(&xas, &things[6]);
	pr_info("stored: %d\n", xas_error(&xas));
	xas_set_mark(&xas, XA_MARK_1);
	xas_unlock(&xas);
	rcu_read_lock();
	xas_for_each(&walk, entry, 70) {
		if (xas_retry(&walk, entry))
			continue;
		pr_info(" at %lu: %ld\n", walk.xa_index, number(entry));
		if (walk.xa_index == 8)
			xas_pause(&walk);
	}
	rcu_read_unlock();
	xa_destroy(&plain);
}

static void neighbours(void)
{
	XA_STATE(walk, &plain, 62);
	void *entry;
	int i;

	for (i = 63; i < 66; i++)
		xa_store(&plain, i, &things[i - 60], GFP_KERNEL);
	rcu_read_lock();
	for (i = 0; i < 5; i++) {
		entry = xas_next(&walk);
		pr_info("next %ld at %lu\n", number(entry), walk.xa_index);
	}
	for (i = 0; i < 5; i++) {
		entry = xas_prev(&walk);
		pr_info("prev %ld at %lu\n", number(entry), walk.xa_index);
	}
	rcu_read_unlock();
	xa_destroy(&plain);
}

static int __init xarrays_init(void)
{
	simple();
	alloc("from 0", &ids);
	alloc("from 1", &ids1);
	ranges();
	neighbours();
	return 0;
}

static void __exit xarrays_exit(void)
{
}

module_init(xarrays_init);
module_exit(xarrays_exit);
MODULE_LICENSE("GPL");
