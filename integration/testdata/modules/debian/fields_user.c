// Uses fields, whose references and lists tell so.
#include <linux/module.h>

extern int fields_exported(int n);

static int __init user_init(void)
{
	struct module_use *use;

	list_for_each_entry(use, &THIS_MODULE->target_list, target_list)
		pr_info("fields_user: uses %s, which has %d references, source %d\n", use->target->name, module_refcount(use->target),
			use->source == THIS_MODULE);
	return fields_exported(1) ? 0 : -EINVAL;
}
static void __exit user_exit(void) { }
module_init(user_init);
module_exit(user_exit);
MODULE_LICENSE("GPL");
