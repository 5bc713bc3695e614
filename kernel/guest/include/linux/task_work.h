#ifndef _LINUX_TASK_WORK_H
#define _LINUX_TASK_WORK_H

#include <linux/types.h>

struct task_struct;

enum task_work_notify_mode { TWA_NONE, TWA_RESUME, TWA_SIGNAL };

// task_work_add has task call twork->func before it leaves the kernel. It returns
// -ESRCH if the task is exiting.
int task_work_add(struct task_struct *task, struct callback_head *twork, enum task_work_notify_mode mode);
void task_work_run(void);

#endif
