/* usercopy.c: checked copies between kernel and user addresses. */
#include <linux/uaccess.h>
#include <linux/sched.h>
#include <linux/string.h>

unsigned long copy_user_enhanced_fast_string(void *to, const void *from, unsigned long n);
unsigned long clear_user_rep_good(void *to, unsigned long n);
int __copy_nofault(void *dst, const void *src, size_t n);

unsigned long copy_user_generic(void *to, const void *from, unsigned long n)
{
	return copy_user_enhanced_fast_string(to, from, n);
}

/* The part that could not be copied is cleared. */
notrace unsigned long _copy_from_user(void *to, const void __user *from, unsigned long n)
{
	unsigned long res = n;

	if (likely(access_ok(from, n)))
		res = copy_user_generic(to, from, n);
	if (unlikely(res))
		memset((char *)to + (n - res), 0, res);
	return res;
}
EXPORT_SYMBOL(_copy_from_user);

notrace unsigned long _copy_to_user(void __user *to, const void *from, unsigned long n)
{
	if (likely(access_ok(to, n)))
		n = copy_user_generic(to, from, n);
	return n;
}
EXPORT_SYMBOL(_copy_to_user);

unsigned long clear_user(void __user *to, unsigned long n)
{
	if (access_ok(to, n))
		n = clear_user_rep_good(to, n);
	return n;
}

noinline bool copy_from_kernel_nofault_allowed(const void *unsafe_src, size_t size)
{
	return (unsigned long)unsafe_src >= TASK_SIZE_MAX + PAGE_SIZE;
}

/* -ERANGE for user addresses, -EFAULT where nothing is mapped. */
long copy_from_kernel_nofault(void *dst, const void *src, size_t size)
{
	long ret;

	if (!copy_from_kernel_nofault_allowed(src, size))
		return -ERANGE;
	current->pagefault_disabled++;
	ret = __copy_nofault(dst, src, size);
	current->pagefault_disabled--;
	return ret;
}
EXPORT_SYMBOL(copy_from_kernel_nofault);

/* Copies without sleeping: -EFAULT where a page is not present. For handlers of probes. */
long copy_from_user_nofault(void *dst, const void __user *src, size_t size)
{
	unsigned long left;

	current->pagefault_disabled++;
	left = _copy_from_user(dst, src, size);
	current->pagefault_disabled--;
	return left ? -EFAULT : 0;
}
EXPORT_SYMBOL_GPL(copy_from_user_nofault);

notrace long copy_to_user_nofault(void __user *dst, const void *src, size_t size)
{
	unsigned long left;

	current->pagefault_disabled++;
	left = _copy_to_user(dst, src, size);
	current->pagefault_disabled--;
	return left ? -EFAULT : 0;
}
EXPORT_SYMBOL_GPL(copy_to_user_nofault);

/* Returns the number of bytes including the NUL, count if there is none, or -EFAULT.
 * */
long strncpy_from_kernel_nofault(char *dst, const void *unsafe_addr, long count)
{
	const char *src = unsafe_addr;
	long i;

	if (count <= 0)
		return 0;
	for (i = 0; i < count; i++) {
		if (copy_from_kernel_nofault(dst + i, src + i, 1)) {
			dst[0] = 0;
			return -EFAULT;
		}
		if (!dst[i])
			return i + 1;
	}
	dst[count - 1] = 0;
	return count;
}

/* Returns the length without the NUL, count if there is none, or -EFAULT. */
notrace long strncpy_from_user(char *dst, const char __user *src, long count)
{
	long i;

	for (i = 0; i < count; i++) {
		char c;

		if (get_user(c, src + i))
			return -EFAULT;
		dst[i] = c;
		if (!c)
			return i;
	}
	return count;
}
EXPORT_SYMBOL(strncpy_from_user);

/* Returns the length including the NUL, more than n if there is none, 0 for a bad
 * address. */
notrace long strnlen_user(const char __user *str, long n)
{
	long i;

	for (i = 0; i < n; i++) {
		char c;

		if (get_user(c, str + i))
			return 0;
		if (!c)
			return i + 1;
	}
	return n + 1;
}
EXPORT_SYMBOL(strnlen_user);
