/* cpumask.h: sets of CPUs: one word. */
#ifndef _LINUX_CPUMASK_H
#define _LINUX_CPUMASK_H
#include <linux/percpu.h>
#include <linux/bitops.h>
typedef struct cpumask { unsigned long bits[1]; } cpumask_t;
extern struct cpumask __cpu_possible_mask, __cpu_online_mask, __cpu_present_mask, __cpu_active_mask;
extern unsigned int nr_cpu_ids;
#define cpu_possible_mask ((const struct cpumask *)&__cpu_possible_mask)
#define cpu_online_mask ((const struct cpumask *)&__cpu_online_mask)
#define cpu_online(c) (((READ_ONCE(__cpu_online_mask.bits[0])) >> (c)) & 1)
#define cpumask_test_cpu(c, m) (((m)->bits[0] >> (c)) & 1)
#define cpumask_set_cpu(c, m) set_bit(c, (m)->bits)
#define cpumask_clear_cpu(c, m) clear_bit(c, (m)->bits)
#define cpumask_of(c) (&(const struct cpumask){ { 1UL << (c) } })
#define cpumask_weight(m) __builtin_popcountl_guest((m)->bits[0])
static inline unsigned int __builtin_popcountl_guest(unsigned long w) { unsigned int n = 0; for (; w; w &= w - 1) n++; return n; }
static inline unsigned int cpumask_first(const struct cpumask *m) { return m->bits[0] ? __ffs(m->bits[0]) : nr_cpu_ids; }
static inline unsigned int cpumask_next(int n, const struct cpumask *m)
{
	unsigned long w = n >= 63 ? 0 : m->bits[0] & (~0UL << (n + 1));
	return w ? __ffs(w) : nr_cpu_ids;
}
#define for_each_cpu(c, m) for ((c) = cpumask_first(m); (c) < nr_cpu_ids; (c) = cpumask_next((c), m))
#define for_each_possible_cpu(c) for_each_cpu(c, cpu_possible_mask)
#define for_each_online_cpu(c) for_each_cpu(c, cpu_online_mask)
static inline unsigned int num_online_cpus(void) { return cpumask_weight(cpu_online_mask); }
static inline unsigned int num_possible_cpus(void) { return cpumask_weight(cpu_possible_mask); }
#endif
