/* smp.c: starting the other CPUs, and per-CPU areas. */
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/hrtimer.h>
#include <linux/random.h>
#include <asm/traps.h>
#include <asm/host.h>
#include <asm/processor.h>

extern char __per_cpu_load[], __per_cpu_start[], __per_cpu_end[];

#define PERCPU_DYNAMIC 65536
DEFINE_PER_CPU_FIRST(struct fixed_percpu_data, fixed_percpu_data) = { .stack_canary = 0x5bd1e9955bd1e900UL };
DEFINE_PER_CPU(int, cpu_number);
EXPORT_SYMBOL(cpu_number);
DEFINE_PER_CPU(unsigned long, this_cpu_off) = (unsigned long)__per_cpu_load;
EXPORT_SYMBOL(this_cpu_off);
unsigned long __per_cpu_offset[NR_CPUS];
EXPORT_SYMBOL(__per_cpu_offset);
/* A module's struct cpumask is longer, but only nr_cpu_ids bits of it mean something. */
struct cpumask __cpu_possible_mask = { { 1 } }, __cpu_online_mask = { { 1 } };
EXPORT_SYMBOL(__cpu_possible_mask);
EXPORT_SYMBOL(__cpu_online_mask);
struct cpumask __cpu_present_mask = { { 1 } }, __cpu_active_mask = { { 1 } };
EXPORT_SYMBOL(__cpu_present_mask);
EXPORT_SYMBOL(__cpu_active_mask);
/* What cpumask_of() and cpu_all_mask are in modules of Debian, where a mask has 8192 bits:
 * row 1 + n has bit n of its first word. */
#define DEBIAN_MASK_LONGS (8192 / 64)
unsigned long cpu_bit_bitmap[64 + 1][DEBIAN_MASK_LONGS];
EXPORT_SYMBOL_GPL(cpu_bit_bitmap);
unsigned int nr_cpu_ids = 1;
EXPORT_SYMBOL(nr_cpu_ids);
atomic_t __num_online_cpus = ATOMIC_INIT(1);
EXPORT_SYMBOL(__num_online_cpus);

static DEFINE_SPINLOCK(pcpu_lock);
static unsigned long pcpu_next, pcpu_end;
#define PCPU_UNIT 16
/* Freed pieces by size in units, linked through CPU 0's copy; and the size of each piece. */
static unsigned long pcpu_free[513];
static u16 pcpu_units[PERCPU_DYNAMIC / PCPU_UNIT];

static void __init setup_one_area(unsigned int cpu, size_t size)
{
	size_t used = __per_cpu_end - __per_cpu_start;
	char *area = memblock_alloc(size, PAGE_SIZE);

	memcpy(area, __per_cpu_load, used);
	__per_cpu_offset[cpu] = (unsigned long)area;
	per_cpu(this_cpu_off, cpu) = (unsigned long)area;
	per_cpu(cpu_number, cpu) = cpu;
}

/* Each CPU has a copy of the template and space for alloc_percpu. */
void __init setup_per_cpu_areas(void)
{
	size_t used = PAGE_ALIGN((size_t)(__per_cpu_end - __per_cpu_start));
	unsigned int cpu;

	pcpu_next = used;
	pcpu_end = used + PERCPU_DYNAMIC;
	for_each_possible_cpu(cpu)
		setup_one_area(cpu, pcpu_end);
	wrmsrl(MSR_GS_BASE, __per_cpu_offset[0]);
}

static u16 *pcpu_size_of(unsigned long off)
{
	return &pcpu_units[(off - (pcpu_end - PERCPU_DYNAMIC)) / PCPU_UNIT];
}

void *__alloc_percpu(size_t size, size_t align)
{
	size_t units = (size + PCPU_UNIT - 1) / PCPU_UNIT;
	unsigned long off = 0;
	unsigned int cpu;

	if (!units || units >= ARRAY_SIZE(pcpu_free) || align > PAGE_SIZE)
		return NULL;
	spin_lock(&pcpu_lock);
	if (pcpu_free[units] && IS_ALIGNED(pcpu_free[units], align)) {
		off = pcpu_free[units];
		pcpu_free[units] = *per_cpu_ptr((unsigned long *)off, 0);
	} else if (ALIGN(pcpu_next, align) + units * PCPU_UNIT <= pcpu_end) {
		off = ALIGN(pcpu_next, align);
		pcpu_next = off + units * PCPU_UNIT;
		*pcpu_size_of(off) = units;
	}
	spin_unlock(&pcpu_lock);
	if (off)
		for_each_possible_cpu(cpu)
			memset(per_cpu_ptr((char *)off, cpu), 0, units * PCPU_UNIT);
	return (void *)off;
}
EXPORT_SYMBOL(__alloc_percpu);

/* The allocation never sleeps. */
void *__alloc_percpu_gfp(size_t size, size_t align, gfp_t gfp)
{
	return __alloc_percpu(size, align);
}
EXPORT_SYMBOL_GPL(__alloc_percpu_gfp);

void free_percpu(void *p)
{
	u16 units;

	if (!p)
		return;
	spin_lock(&pcpu_lock);
	units = *pcpu_size_of((unsigned long)p);
	*per_cpu_ptr((unsigned long *)p, 0) = pcpu_free[units];
	pcpu_free[units] = (unsigned long)p;
	spin_unlock(&pcpu_lock);
}
EXPORT_SYMBOL(free_percpu);

void __init prefill_possible_map(unsigned int cpus)
{
	unsigned int i;

	if (cpus < 1)
		cpus = 1;
	if (cpus > NR_CPUS)
		cpus = NR_CPUS;
	nr_cpu_ids = cpus;
	__cpu_possible_mask.bits[0] = cpus == 64 ? ~0UL : (1UL << cpus) - 1;
	__cpu_present_mask = __cpu_possible_mask;
	for (i = 0; i < 64; i++)
		cpu_bit_bitmap[1 + i][0] = 1UL << i;
}

/* Entry point of other CPUs: on the idle task's stack, with the CPU's own per-CPU
 * area. */
notrace void start_secondary(unsigned long cpu)
{
	load_idt_table();
	this_cpu_write(current_task, idle_task(cpu));
	this_cpu_write(__preempt_count, PREEMPT_NEED_RESCHED | 1);
	this_cpu_write(fixed_percpu_data.stack_canary, current->stack_canary);
	tick_setup_cpu();
	atomic_inc(&__num_online_cpus);
	cpumask_set_cpu(cpu, &__cpu_online_mask);
	cpumask_set_cpu(cpu, &__cpu_active_mask);
	local_irq_enable();
	cpu_startup_entry(0);
}

static int __init do_boot_cpu(unsigned int cpu)
{
	struct task_struct *idle = idle_task(cpu);

	if (hypercall3(HC_START_CPU, cpu, secondary_startup_64, task_pt_regs(idle)) < 0)
		return -EIO;
	while (!cpu_online(cpu))
		cpu_relax();
	return 0;
}

void __init smp_init(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		if (cpu_online(cpu))
			continue;
		if (do_boot_cpu(cpu))
			pr_err("smpboot: CPU%u did not start\n", cpu);
	}
	pr_info("smp: Brought up 1 node, %u CPU%s\n", num_online_cpus(), num_online_cpus() > 1 ? "s" : "");
}
