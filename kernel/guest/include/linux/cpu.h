#include <linux/cpumask.h>
#ifndef _LINUX_CPU_H
#define _LINUX_CPU_H
void cpus_read_lock(void);
int cpus_read_trylock(void);
void cpus_read_unlock(void);
#endif
