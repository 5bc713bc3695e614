/* percpu.h: per-CPU variables, addressed through gs. */
#ifndef _LINUX_PERCPU_H
#define _LINUX_PERCPU_H
#include <linux/types.h>
#define NR_CPUS 64
#define PER_CPU_FIRST_SECTION "..first"
#define DECLARE_PER_CPU(type, name) extern __typeof__(type) name
#define DEFINE_PER_CPU(type, name) __section(".data..percpu") __typeof__(type) name
#define DEFINE_PER_CPU_FIRST(type, name) __section(".data..percpu..first") __typeof__(type) name
#define DEFINE_PER_CPU_ALIGNED(type, name) __section(".data..percpu..shared_aligned") __aligned(64) __typeof__(type) name
extern unsigned long __per_cpu_offset[NR_CPUS];
extern unsigned long this_cpu_off;
#define per_cpu_offset(cpu) (__per_cpu_offset[cpu])
#define SHIFT_PERCPU_PTR(p, off) ({ unsigned long __ptr = (unsigned long)(p); \
	OPTIMIZER_HIDE_VAR(__ptr); (__typeof__(p))(__ptr + (off)); })
#define per_cpu_ptr(ptr, cpu) SHIFT_PERCPU_PTR(ptr, per_cpu_offset(cpu))
#define per_cpu(var, cpu) (*per_cpu_ptr(&(var), cpu))
#define this_cpu_ptr(ptr) SHIFT_PERCPU_PTR(ptr, this_cpu_read(this_cpu_off))
#define raw_cpu_ptr this_cpu_ptr
#define this_cpu_read(var) ({ __typeof__(var) __pv; \
	__asm__ __volatile__("mov %%gs:%1,%0" : "=r"(__pv) : "m"(var)); __pv; })
#define this_cpu_read_stable(var) ({ __typeof__(var) __pv; \
	__asm__("mov %%gs:%P1,%0" : "=r"(__pv) : "p"(&(var))); __pv; })
#define this_cpu_write(var, v) do { __typeof__(var) __pv = (v); \
	__asm__ __volatile__("mov %1,%%gs:%0" : "=m"(var) : "r"(__pv)); } while (0)
#define __percpu_op(op, var, v) do { __typeof__(var) __pv = (v); \
	__asm__ __volatile__(op " %1,%%gs:%0" : "+m"(var) : "r"(__pv) : "cc"); } while (0)
#define this_cpu_add(var, v) __percpu_op("add", var, v)
#define this_cpu_sub(var, v) __percpu_op("sub", var, v)
#define this_cpu_or(var, v) __percpu_op("or", var, v)
#define this_cpu_and(var, v) __percpu_op("and", var, v)
#define this_cpu_inc(var) this_cpu_add(var, 1)
#define this_cpu_dec(var) this_cpu_sub(var, 1)
#define __this_cpu_read this_cpu_read
#define __this_cpu_write this_cpu_write
#define __this_cpu_add this_cpu_add
#define __this_cpu_inc this_cpu_inc
#define __this_cpu_dec this_cpu_dec
#define this_cpu_xchg(var, n) ({ __typeof__(var) __pv = (n); \
	__asm__ __volatile__("xchg %0,%%gs:%1" : "+r"(__pv), "+m"(var) : : "memory"); __pv; })
#define this_cpu_add_return(var, v) ({ __typeof__(var) __pv = (v), __pr = __pv; \
	__asm__ __volatile__("xadd %0,%%gs:%1" : "+r"(__pr), "+m"(var) : : "memory", "cc"); __pr + __pv; })
#define get_cpu_var(var) (*({ preempt_disable(); this_cpu_ptr(&(var)); }))
#define put_cpu_var(var) preempt_enable()

struct fixed_percpu_data { char gs_base[40]; unsigned long stack_canary; };
DECLARE_PER_CPU(struct fixed_percpu_data, fixed_percpu_data);
DECLARE_PER_CPU(int, cpu_number);
#define smp_processor_id() this_cpu_read(cpu_number)
#define raw_smp_processor_id() smp_processor_id()
#define get_cpu() ({ preempt_disable(); smp_processor_id(); })
#define put_cpu() preempt_enable()
void setup_per_cpu_areas(void);
void *__alloc_percpu(size_t size, size_t align);
void *__alloc_percpu_gfp(size_t size, size_t align, gfp_t gfp);
void free_percpu(void *p);
#define alloc_percpu_gfp(type, gfp) (__typeof__(type) *)__alloc_percpu_gfp(sizeof(type), __alignof__(type), gfp)
#define alloc_percpu(type) (__typeof__(type) *)__alloc_percpu(sizeof(type), __alignof__(type))
#endif
