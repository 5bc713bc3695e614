// stop_machine.h: a function that runs while no other code does.
#ifndef _LINUX_STOP_MACHINE_H
#define _LINUX_STOP_MACHINE_H

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/smp.h>

typedef int (*cpu_stop_fn_t)(void *arg);

int stop_machine(cpu_stop_fn_t fn, void *data, const struct cpumask *cpus);
int stop_machine_cpuslocked(cpu_stop_fn_t fn, void *data, const struct cpumask *cpus);

#endif
