/* util.c: copies of strings and memory; krealloc; kvmalloc. */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

extern char __start_rodata[], __end_rodata[];

noinline char *kstrdup(const char *s, gfp_t gfp)
{
	size_t len;
	char *buf;

	if (!s)
		return NULL;
	len = strlen(s) + 1;
	buf = kmalloc(len, gfp);
	if (buf)
		memcpy(buf, s, len);
	return buf;
}
EXPORT_SYMBOL(kstrdup);

static bool is_kernel_rodata(unsigned long addr)
{
	return addr >= (unsigned long)__start_rodata && addr < (unsigned long)__end_rodata;
}

/* Constants in the kernel image are not copied. */
const char *kstrdup_const(const char *s, gfp_t gfp)
{
	if (is_kernel_rodata((unsigned long)s))
		return s;
	return kstrdup(s, gfp);
}
EXPORT_SYMBOL(kstrdup_const);

void kfree_const(const void *x)
{
	if (!is_kernel_rodata((unsigned long)x))
		kfree(x);
}
EXPORT_SYMBOL(kfree_const);

char *kstrndup(const char *s, size_t max, gfp_t gfp)
{
	size_t len;
	char *buf;

	if (!s)
		return NULL;
	len = strnlen(s, max);
	buf = kmalloc(len + 1, gfp);
	if (buf) {
		memcpy(buf, s, len);
		buf[len] = '\0';
	}
	return buf;
}
EXPORT_SYMBOL(kstrndup);

notrace void *kmemdup(const void *src, size_t len, gfp_t gfp)
{
	void *p = kmalloc(len, gfp);

	if (p)
		memcpy(p, src, len);
	return p;
}
EXPORT_SYMBOL(kmemdup);

char *kmemdup_nul(const char *s, size_t len, gfp_t gfp)
{
	char *buf;

	if (!s)
		return NULL;
	buf = kmalloc(len + 1, gfp);
	if (buf) {
		memcpy(buf, s, len);
		buf[len] = '\0';
	}
	return buf;
}
EXPORT_SYMBOL(kmemdup_nul);

void *memdup_user(const void __user *src, size_t len)
{
	void *p = kmalloc(len, GFP_USER);

	if (!p)
		return ERR_PTR(-ENOMEM);
	if (copy_from_user(p, src, len)) {
		kfree(p);
		return ERR_PTR(-EFAULT);
	}
	return p;
}
EXPORT_SYMBOL(memdup_user);

void *vmemdup_user(const void __user *src, size_t len)
{
	void *p = kvmalloc_node(len, GFP_USER, -1);

	if (!p)
		return ERR_PTR(-ENOMEM);
	if (copy_from_user(p, src, len)) {
		kvfree(p);
		return ERR_PTR(-EFAULT);
	}
	return p;
}
EXPORT_SYMBOL(vmemdup_user);

void *memdup_user_nul(const void __user *src, size_t len)
{
	char *p = kmalloc(len + 1, GFP_KERNEL);

	if (!p)
		return ERR_PTR(-ENOMEM);
	if (copy_from_user(p, src, len)) {
		kfree(p);
		return ERR_PTR(-EFAULT);
	}
	p[len] = '\0';
	return p;
}
EXPORT_SYMBOL(memdup_user_nul);

/* n limits the length with the byte that ends the string. */
char *strndup_user(const char __user *s, long n)
{
	long length = strnlen_user(s, n);
	char *p;

	if (!length)
		return ERR_PTR(-EFAULT);
	if (length > n)
		return ERR_PTR(-EINVAL);
	p = memdup_user(s, length);
	if (!IS_ERR(p))
		p[length - 1] = '\0';
	return p;
}
EXPORT_SYMBOL(strndup_user);

void *krealloc(const void *p, size_t new_size, gfp_t flags)
{
	size_t ks;
	void *ret;

	if (!new_size) {
		kfree(p);
		return (void *)16;
	}
	ks = ksize(p);
	if (ks >= new_size)
		return (void *)p;
	ret = kmalloc(new_size, flags);
	if (ret && ks) {
		memcpy(ret, p, ks);
		kfree(p);
	}
	return ret;
}
EXPORT_SYMBOL(krealloc);

noinline void *kvmalloc_node(size_t size, gfp_t flags, int node)
{
	void *ret = kmalloc(size, size > PAGE_SIZE ? flags | __GFP_NOWARN : flags);

	if (ret || size <= PAGE_SIZE)
		return ret;
	return flags & __GFP_ZERO ? vzalloc(size) : vmalloc(size);
}
EXPORT_SYMBOL(kvmalloc_node);

void kvfree(const void *addr)
{
	if (is_vmalloc_addr(addr))
		vfree(addr);
	else
		kfree(addr);
}
EXPORT_SYMBOL(kvfree);

notrace char *kvasprintf(gfp_t gfp, const char *fmt, va_list ap)
{
	va_list aq;
	int first;
	char *p;

	va_copy(aq, ap);
	first = vsnprintf(NULL, 0, fmt, aq);
	va_end(aq);
	p = kmalloc(first + 1, gfp);
	if (p)
		vsnprintf(p, first + 1, fmt, ap);
	return p;
}
EXPORT_SYMBOL(kvasprintf);

notrace char *kasprintf(gfp_t gfp, const char *fmt, ...)
{
	va_list ap;
	char *p;

	va_start(ap, fmt);
	p = kvasprintf(gfp, fmt, ap);
	va_end(ap);
	return p;
}
EXPORT_SYMBOL(kasprintf);
