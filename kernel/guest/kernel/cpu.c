/* cpu.c: CPUs neither come nor go. */
#include <linux/sched.h>
#include <linux/cpu.h>

void cpus_read_lock(void)
{
	might_sleep();
}
EXPORT_SYMBOL_GPL(cpus_read_lock);

int cpus_read_trylock(void)
{
	return 1;
}
EXPORT_SYMBOL_GPL(cpus_read_trylock);

void cpus_read_unlock(void)
{
}
EXPORT_SYMBOL_GPL(cpus_read_unlock);
