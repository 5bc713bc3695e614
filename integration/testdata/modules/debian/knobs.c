// Parameters in /sys/module: of each kind of type, with functions of the module's own,
// without one of them, and hidden.
#include <linux/module.h>
#include <linux/moduleparam.h>

static int number = 3;
module_param(number, int, 0644);
static bool flag;
module_param(flag, bool, 0444);
static char *word = "text";
module_param(word, charp, 0600);
static int list[4] = {1, 2}, listed = 2;
module_param_array(list, int, &listed, 0644);
static char fixed[8] = "short";
module_param_string(fixed, fixed, sizeof(fixed), 0644);
static int hidden = 9;
module_param(hidden, int, 0);

static int own_set(const char *val, const struct kernel_param *kp)
{
	pr_info("knobs: %s is set to <%s>\n", kp->name, val);
	return val[0] == 'x' ? -EPERM : 0;
}

static int own_get(char *buf, const struct kernel_param *kp)
{
	pr_info("knobs: %s is read\n", kp->name);
	return scnprintf(buf, PAGE_SIZE, "%s of %s, %d\n", kp->name, kp->mod->name, hidden);
}

static const struct kernel_param_ops both = {.set = own_set, .get = own_get};
static const struct kernel_param_ops only_set = {.set = own_set};
static const struct kernel_param_ops only_get = {.get = own_get};
module_param_cb(own, &both, NULL, 0644);
module_param_cb(unread, &only_set, NULL, 0644);
module_param_cb(unwritten, &only_get, NULL, 0644);
module_param_cb(secret, &only_set, NULL, 0200);

static ssize_t extra_show(struct module_attribute *a, struct module_kobject *mk, char *buf)
{
	return sprintf(buf, "%s's own, module %s\n", a->attr.name, mk->mod->name);
}

static struct module_attribute extra = __ATTR(extra, 0444, extra_show, NULL);

static int __init knobs_init(void)
{
	return sysfs_create_file(&THIS_MODULE->mkobj.kobj, &extra.attr);
}

static void __exit knobs_exit(void)
{
	pr_info("knobs: number %d word %s list %d of %d\n", number, word, list[0], listed);
}

module_init(knobs_init);
module_exit(knobs_exit);
MODULE_LICENSE("GPL");
MODULE_VERSION("1.2");
