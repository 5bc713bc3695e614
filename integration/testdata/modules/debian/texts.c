// SPDX-License-Identifier: MIT
/* texts uses what the kernel has for text and memory, and says what came out. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/bitmap.h>
#include <linux/ctype.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/list_sort.h>
#include <linux/module.h>
#include <linux/rbtree.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

static int descending(const void *a, const void *b)
{
	return *(const int *)b - *(const int *)a;
}

static void numbers(void)
{
	long long ll;
	unsigned long ul;
	int i, err;
	u8 b;
	bool t;

	err = kstrtoint("-0x1f", 0, &i);
	pr_info("kstrtoint %d %d\n", err, i);
	err = kstrtoint("12 ", 10, &i);
	pr_info("kstrtoint %d\n", err);
	err = kstrtoull("18446744073709551616", 10, (unsigned long long *)&ll);
	pr_info("kstrtoull %d\n", err);
	err = kstrtou8("256", 10, &b);
	pr_info("kstrtou8 %d\n", err);
	err = kstrtoul("777\n", 8, &ul);
	pr_info("kstrtoul %d %lu\n", err, ul);
	err = kstrtobool("on", &t);
	pr_info("kstrtobool %d %d\n", err, t);
	pr_info("simple %lu %ld\n", simple_strtoul("12ab", NULL, 10), simple_strtol("-7", NULL, 0));
}

static void words(void)
{
	char buf[32], *s = buf, *w;
	char *dup = kstrdup("one,two,,three", GFP_KERNEL);
	char *made = kasprintf(GFP_KERNEL, "%s-%03d-%pS", "made", 7, (void *)words);

	if (!dup || !made)
		goto out;
	strscpy(buf, dup, sizeof(buf));
	while ((w = strsep(&s, ",")))
		pr_info("word '%s' %zu\n", w, strlen(w));
	pr_info("strscpy %zd '%s'\n", strscpy(buf, "123456789", 5), buf);
	pr_info("%d %d %d\n", strcmp("a", "b"), strncmp("abc", "abd", 2), strcasecmp("ABC", "abc"));
	pr_info("'%s' '%s' '%s'\n", strchr(dup, ','), strrchr(dup, ','), strstr(dup, "two"));
	pr_info("made %.12s\n", made);
	memset(buf, 'x', 8);
	memmove(buf + 2, buf, 4);
	memcpy(buf, "yz", 2);
	buf[8] = 0;
	pr_info("'%s' %d '%s'\n", buf, memcmp("aa", "ab", 2), (char *)memchr("hello", 'l', 5));
	pr_info("skip '%s' trim '%s'\n", skip_spaces("  x"), strim(strcpy(buf, " y  ")));
out:
	kfree(made);
	kfree(dup);
}

static void memory(void)
{
	static const size_t sizes[] = { 1, 8, 60, 90, 128, 190, 250, 1000, 4000, 8000, 100000 };
	DECLARE_BITMAP(bits, 100);
	int i, ok = 0, a[] = { 3, 9, 1, 7 };

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		u8 *p = kzalloc(sizes[i], GFP_KERNEL);

		ok += p && !p[0] && !p[sizes[i] - 1];
		kfree(p);
	}
	{
		u8 *p = kmalloc(90, GFP_KERNEL), *q = kmalloc(190, GFP_ATOMIC), *v = vzalloc(5000), *k = kvmalloc(300000, GFP_KERNEL);

		pr_info("kzalloc %d, ksize %zu %zu, %d %d\n", ok, ksize(p), ksize(q), v && is_vmalloc_addr(v), k != NULL);
		kvfree(k);
		vfree(v);
		p = krealloc(p, 500, GFP_KERNEL);
		pr_info("krealloc %d\n", p != NULL);
		kfree(q);
		kfree(p);
	}
	bitmap_zero(bits, 100);
	set_bit(5, bits);
	set_bit(99, bits);
	pr_info("bits %d first %lu next %lu, '%*pbl'\n", bitmap_weight(bits, 100), find_first_bit(bits, 100), find_next_bit(bits, 100, 6), 100, bits);
	sort(a, 4, sizeof(int), descending, NULL);
	pr_info("sorted %d %d %d %d\n", a[0], a[1], a[2], a[3]);
	print_hex_dump(KERN_INFO, "hex: ", DUMP_PREFIX_OFFSET, 16, 1, "hello, world", 12, true);
}

static int __init texts_init(void)
{
	char name[KSYM_SYMBOL_LEN];

	numbers();
	words();
	memory();
	sprint_symbol(name, (unsigned long)_printk + 1);
	pr_info("sprint_symbol %.10s\n", name);
	pr_info("CPUs %u of %u, %u\n", num_online_cpus(), num_possible_cpus(), nr_cpu_ids);
	return 0;
}

static void __exit texts_exit(void)
{
}

module_init(texts_init);
module_exit(texts_exit);
MODULE_LICENSE("Dual MIT/GPL");
