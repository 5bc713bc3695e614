// umh.h: programs that the kernel starts. There are none here.
#ifndef _LINUX_UMH_H
#define _LINUX_UMH_H

#include <linux/gfp.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#define UMH_NO_WAIT 0
#define UMH_WAIT_EXEC 1
#define UMH_WAIT_PROC 2
#define UMH_KILLABLE 4

struct cred;
struct completion;

struct subprocess_info {
	struct work_struct work;
	struct completion *complete;
	const char *path;
	char **argv, **envp;
	int wait, retval;
	int (*init)(struct subprocess_info *info, struct cred *new);
	void (*cleanup)(struct subprocess_info *info);
	void *data;
};
static_assert(sizeof(struct subprocess_info) == 96, "struct subprocess_info");

int call_usermodehelper(const char *path, char **argv, char **envp, int wait);
struct subprocess_info *call_usermodehelper_setup(const char *path, char **argv, char **envp, gfp_t gfp_mask,
						  int (*init)(struct subprocess_info *info, struct cred *new),
						  void (*cleanup)(struct subprocess_info *), void *data);
int call_usermodehelper_exec(struct subprocess_info *info, int wait);

#endif
