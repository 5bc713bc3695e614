// SPDX-License-Identifier: MIT
/* lookups finds what is not exported, by the places of probes, and calls it. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/cred.h>
#include <linux/kprobes.h>
#include <linux/module.h>

static int find(const char *name, void **addr)
{
	struct kprobe kp = { .symbol_name = name };
	int err = register_kprobe(&kp);

	if (!err) {
		*addr = kp.addr;
		unregister_kprobe(&kp);
	}
	pr_info("%s: %d\n", name, err);
	return err;
}

static const char *const names[] = {
	"x64_sys_call", "security_inode_rename", "oops_enter", "prepare_kernel_cred",
	"ftrace_caller", "memcpy", "bsearch", "atomic_notifier_call_chain", "die", "default_idle", "_copy_from_user",
	"kprobe_table", "module_kset", "text_mutex", "no_such_name",
};

static int seen;

static int count(void *data, const char *name, struct module *mod, unsigned long addr)
{
	if (!strcmp(name, "vfs_read") && addr == *(unsigned long *)data)
		seen++;
	return 0;
}

static int __init lookups_init(void)
{
	unsigned long (*lookup)(const char *name);
	int (*each)(int (*fn)(void *, const char *, struct module *, unsigned long), void *data);
	unsigned long vfs_read;
	struct cred *cred;
	void *addr;
	int i;

	if (find("kallsyms_lookup_name", &addr))
		return -ENOENT;
	lookup = addr;
	vfs_read = lookup("vfs_read");
	pr_info("vfs_read %d, of the module %d, nothing %d\n", vfs_read != 0, lookup("lookups:find") != 0, lookup("no_such_name") != 0);
	if (find("kallsyms_on_each_symbol", &addr))
		return -ENOENT;
	each = addr;
	i = each(count, &vfs_read);
	pr_info("each: %d, vfs_read %d times\n", i, seen);
	for (i = 0; i < ARRAY_SIZE(names); i++)
		find(names[i], &addr);
	cred = prepare_kernel_cred(NULL);
	pr_info("cred: uid %u, may load modules %d\n", from_kuid(&init_user_ns, cred->uid), cap_raised(cred->cap_effective, CAP_SYS_MODULE));
	put_cred(cred);
	return 0;
}

static void __exit lookups_exit(void)
{
}

module_init(lookups_init);
module_exit(lookups_exit);
MODULE_LICENSE("GPL");
