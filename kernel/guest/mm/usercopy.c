/* usercopy.c: checks that a copy to or from user space is within one object. */
#include <linux/sched.h>
#include <linux/mm.h>
#include <linux/slab.h>

extern char _stext[], _etext[];
enum { NOT_STACK, GOOD_FRAME, GOOD_STACK, BAD_STACK = -1 };

noinline int check_stack_object(const void *obj, unsigned long len)
{
	const void *stack = task_stack_page(current), *stackend = stack + THREAD_SIZE;

	if (obj + len <= stack || stackend <= obj)
		return NOT_STACK;
	if (obj < stack || stackend < obj + len)
		return BAD_STACK;
	return GOOD_STACK;
}

void usercopy_abort(const char *name, const char *detail, bool to_user, unsigned long offset, unsigned long len)
{
	pr_err("usercopy: Kernel memory %s attempt detected %s %s (offset %lu, size %lu)!\n",
	       to_user ? "exposure" : "overwrite", to_user ? "from" : "to", name ?: "unknown?!", offset, len);
	BUG();
}

size_t __ksize(const void *object);

noinline void __check_heap_object(const void *ptr, unsigned long n, const struct page *slab, bool to_user)
{
	unsigned long size = *(const unsigned int *)((const char *)slab->slab_cache + 24);
	unsigned long offset = (ptr - page_address(slab)) % size;

	if (offset + n > size)
		usercopy_abort("SLUB object", NULL, to_user, offset, n);
}

static inline void check_kernel_text_object(unsigned long ptr, unsigned long n, bool to_user)
{
	if (ptr < (unsigned long)_etext && ptr + n > (unsigned long)_stext)
		usercopy_abort("kernel text", NULL, to_user, ptr - (unsigned long)_stext, n);
}

noinline bool is_vmalloc_addr(const void *x)
{
	unsigned long addr = (unsigned long)x;

	return addr >= VMALLOC_START && addr < VMALLOC_END;
}
EXPORT_SYMBOL(is_vmalloc_addr);

static inline void check_heap_object(const void *ptr, unsigned long n, bool to_user)
{
	struct page *page;

	if (is_vmalloc_addr(ptr) || !virt_addr_valid(ptr))
		return;
	page = compound_head_of(virt_to_page(ptr));
	if (PageSlab(page))
		__check_heap_object(ptr, n, page, to_user);
}

void __check_object_size(const void *ptr, unsigned long n, bool to_user)
{
	if (!n)
		return;
	if ((unsigned long)ptr + n < (unsigned long)ptr)
		usercopy_abort("wrapped address", NULL, to_user, 0, n);
	switch (check_stack_object(ptr, n)) {
	case NOT_STACK:
		break;
	case GOOD_FRAME:
	case GOOD_STACK:
		return;
	default:
		usercopy_abort("process stack", NULL, to_user, 0, n);
	}
	check_heap_object(ptr, n, to_user);
	check_kernel_text_object((unsigned long)ptr, n, to_user);
}
EXPORT_SYMBOL(__check_object_size);

/* A copy whose size the compiler did not know is larger than the object: it is not made. */
void __copy_overflow(int size, unsigned long count)
{
	WARN(1, "Buffer overflow detected (%d < %lu)!\n", size, count);
}
EXPORT_SYMBOL(__copy_overflow);
