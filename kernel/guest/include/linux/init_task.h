// init_task.h: init_task.
#ifndef _KPROBEFS_LINUX_INIT_TASK_H
#define _KPROBEFS_LINUX_INIT_TASK_H

#include <linux/sched.h>

#endif
