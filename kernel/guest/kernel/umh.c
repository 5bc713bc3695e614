// Programs that the kernel starts. It has no files of programs, and starts none.
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/umh.h>

static void call_usermodehelper_freeinfo(struct subprocess_info *info)
{
	if (info->cleanup)
		info->cleanup(info);
	kfree(info);
}

noinline struct subprocess_info *call_usermodehelper_setup(const char *path, char **argv, char **envp, gfp_t gfp_mask,
							   int (*init)(struct subprocess_info *info, struct cred *new),
							   void (*cleanup)(struct subprocess_info *info), void *data)
{
	struct subprocess_info *info = kzalloc(sizeof(*info), gfp_mask);

	if (!info)
		return NULL;
	info->path = path;
	info->argv = argv;
	info->envp = envp;
	info->init = init;
	info->cleanup = cleanup;
	info->data = data;
	return info;
}
EXPORT_SYMBOL(call_usermodehelper_setup);

// call_usermodehelper_exec finds no program. Who does not wait is not told.
noinline int call_usermodehelper_exec(struct subprocess_info *info, int wait)
{
	int ret = 0;

	if (!info->path)
		ret = -EINVAL;
	else if (*info->path && (wait & ~UMH_KILLABLE) != UMH_NO_WAIT)
		ret = -ENOENT;
	call_usermodehelper_freeinfo(info);
	return ret;
}
EXPORT_SYMBOL(call_usermodehelper_exec);

int call_usermodehelper(const char *path, char **argv, char **envp, int wait)
{
	gfp_t gfp = wait == UMH_NO_WAIT ? GFP_ATOMIC : GFP_KERNEL;
	struct subprocess_info *info = call_usermodehelper_setup(path, argv, envp, gfp, NULL, NULL, NULL);

	return info ? call_usermodehelper_exec(info, wait) : -ENOMEM;
}
EXPORT_SYMBOL(call_usermodehelper);
