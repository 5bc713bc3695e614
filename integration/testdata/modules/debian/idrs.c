// SPDX-License-Identifier: MIT
/* idrs: numbers with pointers, numbers alone, and a radix tree. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/module.h>
#include <linux/idr.h>

static DEFINE_IDR(idr);
static DEFINE_IDA(ida);
static RADIX_TREE(tree, GFP_KERNEL);
static int things[8];

static long number(void *p)
{
	return p ? (int *)p - things : -1;
}

static int show(int id, void *p, void *data)
{
	pr_info(" each %d: %ld\n", id, number(p));
	return id > 100 ? id : 0;
}

static void pointers(void)
{
	u32 u = 5;
	int id, i;
	void *p;

	for (i = 0; i < 70; i++)
		id = idr_alloc(&idr, &things[i % 8], 0, 0, GFP_KERNEL);
	pr_info("last %d\n", id);
	pr_info("remove %ld %ld %ld\n", number(idr_remove(&idr, 5)), number(idr_remove(&idr, 64)), number(idr_remove(&idr, 64)));
	pr_info("find %ld %ld %ld\n", number(idr_find(&idr, 5)), number(idr_find(&idr, 6)), number(idr_find(&idr, 7000)));
	pr_info("alloc %d\n", idr_alloc(&idr, things, 0, 0, GFP_KERNEL));
	pr_info("full %d, from 60: %d\n", idr_alloc(&idr, things, 10, 20, GFP_KERNEL), idr_alloc(&idr, things, 60, 66, GFP_KERNEL));
	pr_info("replace %ld, then %ld, none %ld\n", number(idr_replace(&idr, &things[7], 7)), number(idr_find(&idr, 7)),
		PTR_ERR(idr_replace(&idr, &things[7], 1000)));
	pr_info("u32 %d", idr_alloc_u32(&idr, things, &u, 200, GFP_KERNEL));
	pr_cont(": %u\n", u);
	idr_preload(GFP_KERNEL);
	id = idr_alloc(&idr, NULL, 500, 501, GFP_NOWAIT);
	idr_preload_end();
	pr_info("without a pointer %d: %ld, again %d\n", id, number(idr_find(&idr, 500)),
		idr_alloc(&idr, NULL, 500, 501, GFP_KERNEL));
	pr_info("replaced %ld: %ld\n", number(idr_replace(&idr, &things[3], 500)), number(idr_find(&idr, 500)));
	for (i = 0; i < 6; i++)
		pr_info("cyclic %d, cursor %u\n", idr_alloc_cyclic(&idr, things, 300, i < 4 ? 303 : 310, GFP_KERNEL), idr_get_cursor(&idr));
	for (i = 10; i < 300; i++)
		idr_remove(&idr, i);
	idr_for_each_entry(&idr, p, id)
		pr_info(" %d: %ld\n", id, number(p));
	pr_info("for_each %d\n", idr_for_each(&idr, show, NULL));
	id = 9;
	p = idr_get_next(&idr, &id);
	pr_info("next %d: %ld\n", id, number(p));
	idr_destroy(&idr);
	pr_info("empty %d\n", idr_is_empty(&idr));
	idr_init_base(&idr, 1);
	pr_info("from 1: %d %d\n", idr_alloc(&idr, things, 0, 0, GFP_KERNEL), idr_alloc(&idr, things, 0, 0, GFP_KERNEL));
	pr_info("%ld %ld\n", number(idr_remove(&idr, 1)), number(idr_remove(&idr, 2)));
	pr_info("empty %d\n", idr_is_empty(&idr));
}

static void numbers(void)
{
	int i, id;

	for (i = 0; i < 1030; i++)
		id = ida_alloc(&ida, GFP_KERNEL);
	pr_info("ida %d\n", id);
	ida_free(&ida, 3);
	ida_free(&ida, 1025);
	pr_info("ida %d %d %d\n", ida_alloc(&ida, GFP_KERNEL), ida_alloc(&ida, GFP_KERNEL), ida_alloc(&ida, GFP_KERNEL));
	pr_info("ida from 5000: %d %d\n", ida_alloc_min(&ida, 5000, GFP_KERNEL), ida_alloc_min(&ida, 5000, GFP_KERNEL));
	pr_info("ida up to 100: %d\n", ida_alloc_max(&ida, 100, GFP_KERNEL));
	pr_info("ida simple: %d %d\n", ida_simple_get(&ida, 2047, 2049, GFP_KERNEL), ida_simple_get(&ida, 2047, 2049, GFP_KERNEL));
	pr_info("ida simple: %d\n", ida_simple_get(&ida, 2047, 2049, GFP_KERNEL));
	pr_info("ida empty %d\n", ida_is_empty(&ida));
	for (i = 0; i < 1031; i++)
		ida_free(&ida, i);
	ida_free(&ida, 2047);
	ida_free(&ida, 2048);
	ida_free(&ida, 5000);
	pr_info("ida empty %d\n", ida_is_empty(&ida));
	ida_free(&ida, 5001);
	pr_info("ida empty %d\n", ida_is_empty(&ida));
	ida_destroy(&ida);
}

static void trees(void)
{
	static const unsigned long at[] = { 0, 3, 64, 70, 5000, ULONG_MAX };
	struct radix_tree_iter iter;
	void **slot, *got[4];
	unsigned int i, n;

	for (i = 0; i < ARRAY_SIZE(at); i++)
		pr_info("insert %lu: %d\n", at[i], radix_tree_insert(&tree, at[i], &things[i]));
	pr_info("again: %d\n", radix_tree_insert(&tree, 64, things));
	pr_info("lookup %ld %ld\n", number(radix_tree_lookup(&tree, 70)), number(radix_tree_lookup(&tree, 71)));
	slot = radix_tree_lookup_slot(&tree, 70);
	radix_tree_replace_slot(&tree, slot, &things[7]);
	pr_info("replaced %ld, no slot %d\n", number(radix_tree_lookup(&tree, 70)), !radix_tree_lookup_slot(&tree, 71));
	radix_tree_tag_set(&tree, 3, 1);
	radix_tree_tag_set(&tree, 5000, 1);
	pr_info("tags %d %d %d\n", radix_tree_tag_get(&tree, 3, 1), radix_tree_tag_get(&tree, 64, 1), radix_tree_tagged(&tree, 0));
	radix_tree_for_each_slot(slot, &tree, &iter, 1)
		pr_info(" slot %lu: %ld\n", iter.index, number(*slot));
	radix_tree_for_each_tagged(slot, &tree, &iter, 0, 1)
		pr_info(" tagged %lu: %ld\n", iter.index, number(*slot));
	n = radix_tree_gang_lookup(&tree, got, 1, 4);
	pr_info("gang %u: %ld %ld\n", n, number(got[0]), number(got[n - 1]));
	n = radix_tree_gang_lookup_tag(&tree, got, 4, 4, 1);
	pr_info("gang with tag %u: %ld\n", n, number(got[0]));
	pr_info("clear %ld, tagged %d\n", number(radix_tree_tag_clear(&tree, 3, 1)), radix_tree_tagged(&tree, 1));
	pr_info("preload %d\n", radix_tree_preload(GFP_KERNEL));
	pr_info("insert %d\n", radix_tree_insert(&tree, 1UL << 50, &things[6]));
	radix_tree_preload_end();
	pr_info("not that item %ld\n", number(radix_tree_delete_item(&tree, 3, things)));
	radix_tree_for_each_slot(slot, &tree, &iter, 0) {
		pr_info("delete %lu: %ld\n", iter.index, number(*slot));
		radix_tree_delete(&tree, iter.index);
	}
	pr_info("empty %d\n", radix_tree_empty(&tree));
}

static int __init idrs_init(void)
{
	pointers();
	numbers();
	trees();
	return 0;
}

static void __exit idrs_exit(void)
{
}

module_init(idrs_init);
module_exit(idrs_exit);
MODULE_LICENSE("GPL");
