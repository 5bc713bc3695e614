/* kprobe_target.c: a module with various functions to probe. */
#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/printk.h>
#include <linux/slab.h>
#include <linux/list.h>

/* A function with an fentry site and a loop. */
noinline int kprobe_target_sum(int from, int to)
{
	int sum = 0;

	for (; from <= to; from++) {
		sum += from;
		barrier();
	}
	return sum;
}
EXPORT_SYMBOL_GPL(kprobe_target_sum);

/* Recursive, so that return probes nest. */
__noipa unsigned long kprobe_target_fact(unsigned long n)
{
	unsigned long less;

	if (n < 2)
		return 1;
	less = kprobe_target_fact(n - 1);
	barrier();
	return n * less;
}
EXPORT_SYMBOL_GPL(kprobe_target_fact);

/* Not probeable. */
noinline int kprobe_target_blacklisted(int x)
{
	barrier();
	return x ^ 0x55;
}
NOKPROBE_SYMBOL(kprobe_target_blacklisted);

/* Without an fentry site. */
static __noipa notrace int kprobe_target_notrace(int x)
{
	barrier();
	return x * 3;
}

struct node {
	struct node *next;
	int value;
};

static struct node *nodes;

/* Uses kmalloc and the module's own data. */
noinline int kprobe_target_push(int value)
{
	struct node *n = kmalloc(sizeof(*n), GFP_KERNEL);

	if (!n)
		return -ENOMEM;
	n->value = value;
	n->next = nodes;
	nodes = n;
	return 0;
}

noinline int kprobe_target_pop(void)
{
	struct node *n = nodes;
	int value;

	if (!n)
		return -ENOENT;
	nodes = n->next;
	value = n->value;
	kfree(n);
	return value;
}

static __noipa int __init kprobe_target_once(int x)
{
	barrier();
	return kprobe_target_notrace(x) + kprobe_target_blacklisted(x);
}

static int __init kprobe_target_init(void)
{
	pr_info("kprobe_target: sum %d, factorial %lu, once %d\n",
		kprobe_target_sum(1, 10), kprobe_target_fact(5), kprobe_target_once(7));
	return kprobe_target_push(1);
}

static void __exit kprobe_target_exit(void)
{
	while (kprobe_target_pop() >= 0)
		;
	pr_info("kprobe_target: gone\n");
}

module_init(kprobe_target_init);
module_exit(kprobe_target_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Functions to put probes on");
