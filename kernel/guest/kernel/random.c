/* random.c: random numbers, from the machine. */
#include <linux/kernel.h>
#include <linux/random.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/sched.h>
#include <linux/syscalls.h>
#include <asm/host.h>

u64 get_random_u64(void)
{
	return hypercall0(HC_RANDOM);
}
EXPORT_SYMBOL(get_random_u64);

noinline u32 get_random_u32(void)
{
	return get_random_u64() >> 32;
}
EXPORT_SYMBOL(get_random_u32);

/* Uniformly distributed below ceil: numbers that would make small results more likely
 * are discarded. */
u32 __get_random_u32_below(u32 ceil)
{
	u64 mult;
	u32 bound;

	if (ceil <= 1)
		return 0;
	bound = -ceil % ceil;
	do {
		mult = (u64)ceil * get_random_u32();
	} while ((u32)mult < bound);
	return mult >> 32;
}
EXPORT_SYMBOL(__get_random_u32_below);

u16 get_random_u16(void)
{
	return get_random_u64();
}
EXPORT_SYMBOL(get_random_u16);

u8 get_random_u8(void)
{
	return get_random_u64();
}
EXPORT_SYMBOL(get_random_u8);

noinline void _get_random_bytes(void *buf, size_t len)
{
	u8 *p = buf;

	while (len) {
		u64 v = get_random_u64();
		size_t n = min_t(size_t, len, sizeof(v));

		memcpy(p, &v, n);
		p += n;
		len -= n;
	}
}

void get_random_bytes(void *buf, size_t len)
{
	_get_random_bytes(buf, len);
}
EXPORT_SYMBOL(get_random_bytes);

SYSCALL_DEFINE3(getrandom, char __user *, ubuf, size_t, len, unsigned int, flags)
{
	u8 block[64];
	size_t done = 0;

	if (flags & ~7U)
		return -EINVAL;
	while (done < len) {
		size_t n = min_t(size_t, len - done, sizeof(block));

		_get_random_bytes(block, n);
		if (copy_to_user(ubuf + done, block, n))
			return done ?: -EFAULT;
		done += n;
		cond_resched();
	}
	return done;
}
