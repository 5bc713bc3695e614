// Files below /proc/sys: values of each kind, a handler of the module's own, and trees.
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/sysctl.h>

static int number = 3, within = 5, three[3] = {1, -2, 3}, plain, soon, ticks, few, ten = 10, watched = 1;
static unsigned int natural = 7, upto = 8;
static unsigned long big = 1UL << 40, bounds[2] = {1, 1000}, longs[2] = {5, 6};
static u8 small = 9;
static bool flag = true;
static char name[12] = "dial";

static int watch(struct ctl_table *table, int write, void *buffer, size_t *lenp, loff_t *ppos)
{
	size_t len = *lenp;
	loff_t at = *ppos;
	int err = proc_dointvec_minmax(table, write, buffer, lenp, ppos);

	if (write)
		pr_info("dials: write of %zu at %lld: %d, %zu to %lld, watched %d\n", len, at, err, *lenp, *ppos, watched);
	else if (!at)
		pr_info("dials: read: %d, %zu to %lld, watched %d\n", err, *lenp, *ppos, watched);
	if (write && watched == 13)
		return -EDOM;
	return err;
}

static struct ctl_table rows[] = {
	{.procname = "number", .data = &number, .maxlen = sizeof(int), .mode = 0644, .proc_handler = proc_dointvec},
	{.procname = "within", .data = &within, .maxlen = sizeof(int), .mode = 0644, .proc_handler = proc_dointvec_minmax, .extra1 = SYSCTL_ONE, .extra2 = &ten},
	{.procname = "three", .data = three, .maxlen = sizeof(three), .mode = 0644, .proc_handler = proc_dointvec},
	{.procname = "natural", .data = &natural, .maxlen = sizeof(int), .mode = 0644, .proc_handler = proc_douintvec},
	{.procname = "upto", .data = &upto, .maxlen = sizeof(int), .mode = 0644, .proc_handler = proc_douintvec_minmax, .extra2 = &ten},
	{.procname = "big", .data = &big, .maxlen = sizeof(long), .mode = 0644, .proc_handler = proc_doulongvec_minmax},
	{.procname = "longs", .data = longs, .maxlen = sizeof(longs), .mode = 0644, .proc_handler = proc_doulongvec_minmax, .extra1 = &bounds[0], .extra2 = &bounds[1]},
	{.procname = "small", .data = &small, .maxlen = 1, .mode = 0644, .proc_handler = proc_dou8vec_minmax, .extra1 = SYSCTL_ZERO, .extra2 = &ten},
	{.procname = "flag", .data = &flag, .maxlen = sizeof(bool), .mode = 0644, .proc_handler = proc_dobool},
	{.procname = "name", .data = name, .maxlen = sizeof(name), .mode = 0644, .proc_handler = proc_dostring},
	{.procname = "soon", .data = &soon, .maxlen = sizeof(int), .mode = 0644, .proc_handler = proc_dointvec_jiffies},
	{.procname = "ticks", .data = &ticks, .maxlen = sizeof(int), .mode = 0644, .proc_handler = proc_dointvec_userhz_jiffies},
	{.procname = "few", .data = &few, .maxlen = sizeof(int), .mode = 0644, .proc_handler = proc_dointvec_ms_jiffies},
	{.procname = "watched", .data = &watched, .maxlen = sizeof(int), .mode = 0600, .proc_handler = watch, .extra1 = SYSCTL_ZERO, .extra2 = SYSCTL_ONE_HUNDRED},
	{.procname = "readonly", .data = &ten, .maxlen = sizeof(int), .mode = 0444, .proc_handler = proc_dointvec},
	{.procname = "writeonly", .data = &plain, .maxlen = sizeof(int), .mode = 0200, .proc_handler = proc_dointvec},
	{}
};
static struct ctl_table more[] = {{.procname = "more", .data = &plain, .maxlen = sizeof(int), .mode = 0644, .proc_handler = proc_dointvec}, {}};
static struct ctl_table bad_mode[] = {{.procname = "bad", .data = &plain, .maxlen = sizeof(int), .mode = 0755, .proc_handler = proc_dointvec}, {}};
static struct ctl_table no_handler[] = {{.procname = "bad", .data = &plain, .maxlen = sizeof(int), .mode = 0644}, {}};
static struct ctl_table no_data[] = {{.procname = "bad", .mode = 0644, .proc_handler = proc_dointvec}, {}};
static struct ctl_table two_naturals[] = {{.procname = "bad", .data = three, .maxlen = 8, .mode = 0644, .proc_handler = proc_douintvec}, {}};

static struct ctl_table leaf[] = {
	{.procname = "inner", .data = &plain, .maxlen = sizeof(int), .mode = 0644, .proc_handler = proc_dointvec},
	{}
};
static struct ctl_table middle[] = {
	{.procname = "outer", .data = &plain, .maxlen = sizeof(int), .mode = 0644, .proc_handler = proc_dointvec},
	{.procname = "deeper", .mode = 0555, .child = leaf},
	{}
};
static struct ctl_table root[] = {{.procname = "kernel", .mode = 0555, .child = middle}, {}};

static struct ctl_table_header *head, *extra, *tree;

static void try(const char *what, struct ctl_table_header *h)
{
	pr_info("dials: %s: %s\n", what, h ? "registered" : "refused");
	unregister_sysctl_table(h);
}

static int __init dials_init(void)
{
	head = register_sysctl("dev/dials", rows);
	extra = register_sysctl("dev/dials", more);
	tree = register_sysctl_table(root);
	if (!head || !extra || !tree)
		return -ENOMEM;
	try("bad_mode", register_sysctl("dev/dials", bad_mode));
	try("no_handler", register_sysctl("dev/dials", no_handler));
	try("no_data", register_sysctl("dev/dials", no_data));
	try("two_naturals", register_sysctl("dev/dials", two_naturals));
	try("empty", register_sysctl("dev/dials/empty", &rows[ARRAY_SIZE(rows) - 1]));
	return 0;
}

static void __exit dials_exit(void)
{
	unregister_sysctl_table(tree);
	unregister_sysctl_table(extra);
	unregister_sysctl_table(head);
	pr_info("dials: number %d, three %d %d %d, plain %d, soon %d, ticks %d, few %d\n", number, three[0], three[1], three[2], plain, soon, ticks, few);
}

module_init(dials_init);
module_exit(dials_exit);
MODULE_LICENSE("GPL");
