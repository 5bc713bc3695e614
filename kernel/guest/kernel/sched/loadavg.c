/* loadavg.c: the number of runnable tasks, averaged over 1, 5 and 15 minutes, in
 * units of 1/2048. */
#include "sched.h"

#define FSHIFT 11
#define FIXED_1 (1 << FSHIFT)
#define LOAD_FREQ (5 * HZ + 1)

unsigned long avenrun[3];
EXPORT_SYMBOL(avenrun);
static atomic_long_t calc_load_tasks;
static unsigned long calc_load_update;
DEFINE_PER_CPU(long, calc_load_active);
static const unsigned int exps[3] = { 1884, 2014, 2037 };

/* One step of the exponential average. */
unsigned long calc_load(unsigned long load, unsigned long exp, unsigned long active)
{
	unsigned long newload = load * exp + active * (FIXED_1 - exp);

	if (active >= load)
		newload += FIXED_1 - 1;
	return newload / FIXED_1;
}

/* x to the n-th power, frac_bits of which are the fraction. */
unsigned long fixed_power_int(unsigned long x, unsigned int frac_bits, unsigned int n)
{
	unsigned long result = 1UL << frac_bits;

	for (; n; n >>= 1) {
		if (n & 1)
			result = (result * x + (1UL << (frac_bits - 1))) >> frac_bits;
		x = (x * x + (1UL << (frac_bits - 1))) >> frac_bits;
	}
	return result;
}

unsigned long calc_load_n(unsigned long load, unsigned long exp, unsigned long active, unsigned int n)
{
	return calc_load(load, fixed_power_int(exp, FSHIFT, n), active);
}

void get_avenrun(unsigned long *loads, unsigned long offset, int shift)
{
	int i;

	for (i = 0; i < 3; i++)
		loads[i] = (avenrun[i] + offset) << shift;
}

void calc_global_load_tick(struct rq *this_rq)
{
	long now = this_rq->nr_running, delta = now - this_cpu_read(calc_load_active);

	if (time_before(jiffies, this_rq->calc_load_update))
		return;
	this_cpu_write(calc_load_active, now);
	if (delta)
		atomic_long_add(delta, &calc_load_tasks);
	this_rq->calc_load_update = jiffies + LOAD_FREQ;
}

/* Called every five seconds by the CPU that counts jiffies. */
void calc_global_load(void)
{
	long active;
	int i;

	if (!calc_load_update)
		calc_load_update = jiffies + LOAD_FREQ;
	if (time_before(jiffies, calc_load_update + 10))
		return;
	active = atomic_long_read(&calc_load_tasks);
	active = active > 0 ? active * FIXED_1 : 0;
	for (i = 0; i < 3; i++)
		avenrun[i] = calc_load(avenrun[i], exps[i], active);
	calc_load_update += LOAD_FREQ;
}
