#ifndef _LINUX_SMP_H
#define _LINUX_SMP_H
#include <linux/cpumask.h>
#include <linux/llist.h>
typedef void (*smp_call_func_t)(void *info);
int smp_call_function_single(int cpu, smp_call_func_t func, void *info, int wait);
void smp_call_function_many(const struct cpumask *mask, smp_call_func_t func, void *info, bool wait);
#if defined(MODULE)
#define on_each_cpu(func, info, wait) on_each_cpu_cond_mask(NULL, func, info, wait, cpu_online_mask)
#define on_each_cpu_cond(cond, func, info, wait) on_each_cpu_cond_mask(cond, func, info, wait, cpu_online_mask)
#else
void on_each_cpu(smp_call_func_t func, void *info, int wait);
#endif
void generic_smp_call_function_single_interrupt(void);
/* In 6.12 the csd is traced. */
#if GUEST_LINUX >= 612
#include <trace/events/ipi.h>
void native_smp_send_reschedule(int cpu);
#define smp_send_reschedule(cpu) do { \
	trace_ipi_send_cpu(cpu, _RET_IP_, NULL); \
	native_smp_send_reschedule(cpu); \
} while (0)
#else
void smp_send_reschedule(int cpu);
#endif
void smp_init(void);
void smp_call_function(smp_call_func_t func, void *info, int wait);
void on_each_cpu_cond_mask(bool (*cond)(int cpu, void *info), smp_call_func_t func, void *info, bool wait,
			   const struct cpumask *mask);
int smp_call_on_cpu(unsigned int cpu, int (*func)(void *), void *par, bool phys);
int smp_call_function_any(const struct cpumask *mask, smp_call_func_t func, void *info, int wait);
#endif
