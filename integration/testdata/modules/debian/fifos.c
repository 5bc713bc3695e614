// SPDX-License-Identifier: MIT
/* fifos: queues of elements, bytes and records, memory pools, and counters of all CPUs. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kfifo.h>
#include <linux/mempool.h>
#include <linux/module.h>
#include <linux/percpu_counter.h>
#include <linux/slab.h>

static DEFINE_KFIFO(numbers, int, 8);
static DECLARE_KFIFO_PTR(bytes, u8);
static STRUCT_KFIFO_REC_1(32) records;
static int failing;

static void elements(void)
{
	int in[10] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, out[10] = {}, i, n;

	for (i = 0; i < 10; i++)
		n = kfifo_put(&numbers, i);
	pr_info("last put %d, len %u, full %d\n", n, kfifo_len(&numbers), kfifo_is_full(&numbers));
	n = kfifo_get(&numbers, &i);
	pr_info("got %d: %d\n", n, i);
	n = kfifo_out(&numbers, out, 5);
	pr_info("out %d: %d to %d\n", n, out[0], out[4]);
	pr_info("in %u, avail %u\n", kfifo_in(&numbers, in, 10), kfifo_avail(&numbers));
	n = kfifo_out_peek(&numbers, out, 10);
	pr_info("peek %d: %d to %d\n", n, out[0], out[n - 1]);
	pr_info("len %u\n", kfifo_len(&numbers));
	kfifo_reset(&numbers);
	pr_info("empty %d\n", kfifo_is_empty(&numbers));
}

static void allocated(void)
{
	char text[] = "0123456789", out[16] = "";
	int n;

	pr_info("alloc %d, size %u\n", kfifo_alloc(&bytes, 9, GFP_KERNEL), kfifo_size(&bytes));
	for (n = 0; n < 3; n++)
		pr_info("in %u\n", kfifo_in(&bytes, text, 7));
	n = kfifo_out(&bytes, out, 12);
	pr_info("out %d: %.*s\n", n, n, out);
	n = kfifo_in(&bytes, text, 10);
	n = kfifo_out(&bytes, out, 16);
	pr_info("around %d: %.*s\n", n, n, out);
	kfifo_free(&bytes);
	pr_info("freed %d\n", kfifo_initialized(&bytes));
	pr_info("too small %d\n", kfifo_alloc(&bytes, 1, GFP_KERNEL));
	n = kfifo_init(&bytes, out, 15);
	pr_info("init %d, size %u\n", n, kfifo_size(&bytes));
}

static void lengths(void)
{
	char out[32] = "";
	int n;

	INIT_KFIFO(records);
	pr_info("records %u %u", kfifo_in(&records, "one", 3), kfifo_in(&records, "three", 5));
	pr_cont(", peek %u, len %u\n", kfifo_peek_len(&records), kfifo_len(&records));
	pr_info("no room %u\n", kfifo_in(&records, "a record that is too long for it", 32));
	n = kfifo_out(&records, out, 2);
	pr_info("cut %d: %.*s\n", n, n, out);
	n = kfifo_out(&records, out, 32);
	pr_info("next %d: %.*s\n", n, n, out);
	pr_info("skip %u", kfifo_in(&records, "gone", 4));
	kfifo_skip(&records);
	pr_cont(", empty %d, out %u\n", kfifo_is_empty(&records), kfifo_out(&records, out, 32));
}

static void *get(gfp_t gfp, void *data)
{
	return failing ? NULL : kmalloc((long)data, gfp);
}

static void pools(void)
{
	mempool_t *pool = mempool_create(3, get, mempool_kfree, (void *)64);
	void *p[5];
	int i;

	pr_info("pool of %d, %d there\n", pool->min_nr, pool->curr_nr);
	failing = 1;
	for (i = 0; i < 5; i++) {
		p[i] = mempool_alloc(pool, GFP_NOWAIT);
		pr_info("alloc %d: %d, %d there\n", i, p[i] != NULL, pool->curr_nr);
	}
	for (i = 0; i < 5; i++)
		mempool_free(p[i], pool);
	pr_info("%d there\n", pool->curr_nr);
	failing = 0;
	pr_info("resize %d: %d", mempool_resize(pool, 6), pool->curr_nr);
	pr_cont(", then %d: %d\n", mempool_resize(pool, 1), pool->curr_nr);
	p[0] = mempool_alloc(pool, GFP_KERNEL);
	pr_info("alloc %d, %d there\n", p[0] != NULL, pool->curr_nr);
	mempool_free(p[0], pool);
	mempool_destroy(pool);
	failing = 1;
	pr_info("no pool %d\n", !mempool_create(2, get, mempool_kfree, (void *)64));
	pool = mempool_create_page_pool(2, 1);
	p[0] = mempool_alloc(pool, GFP_KERNEL);
	pr_info("page %d\n", p[0] != NULL);
	mempool_free(p[0], pool);
	mempool_destroy(pool);
}

static void counters(void)
{
	struct percpu_counter c;
	int i;

	pr_info("counter %d", percpu_counter_init(&c, 5, GFP_KERNEL));
	for (i = 0; i < 10; i++)
		percpu_counter_inc(&c);
	pr_cont(": %lld, sum %lld\n", percpu_counter_read(&c), percpu_counter_sum(&c));
	percpu_counter_add(&c, 100000);
	percpu_counter_sub(&c, 3);
	pr_info("sum %lld, compare %d %d %d\n", percpu_counter_sum(&c), percpu_counter_compare(&c, 100012),
		percpu_counter_compare(&c, 100013), percpu_counter_compare(&c, 7));
	percpu_counter_set(&c, -4);
	pr_info("set %lld, sum %lld, positive %lld\n", percpu_counter_read(&c), percpu_counter_sum(&c), percpu_counter_sum_positive(&c));
	percpu_counter_destroy(&c);
}

static int __init fifos_init(void)
{
	elements();
	allocated();
	lengths();
	pools();
	counters();
	return 0;
}

static void __exit fifos_exit(void)
{
}

module_init(fifos_init);
module_exit(fifos_exit);
MODULE_LICENSE("GPL");
