/*
 * mmap.c: areas of an mm. All tasks share the page tables. Each mm has its own window
 * of addresses for brk and mmap.
 */
#include <linux/sched.h>
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/mm.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/syscalls.h>

#define MM_WINDOW_BASE 0x0000600000000000UL
#define MM_WINDOW_SIZE 0x40000000UL
#define MM_WINDOWS 4096

static unsigned long mm_windows[MM_WINDOWS / 64];
static DEFINE_SPINLOCK(mm_windows_lock);
static struct kmem_cache *vm_area_cachep;
struct mm_struct init_mm = { .mm_list = LIST_HEAD_INIT(init_mm.mm_list), .mm_users = ATOMIC_INIT(2), .mm_count = ATOMIC_INIT(1) };

void unmap_page_range(struct vm_area_struct *vma, unsigned long start, unsigned long end);
int copy_page_range(struct vm_area_struct *dst_vma, struct vm_area_struct *src_vma);

static int find_window(void)
{
	int i;

	for (i = 0; i < MM_WINDOWS; i++)
		if (!__test_and_set_bit(i, mm_windows))
			return i;
	return MM_WINDOWS - 1;
}

/* Chooses the window of a new mm. */
void mm_place(struct mm_struct *mm)
{
	unsigned long base;

	spin_lock(&mm_windows_lock);
	base = MM_WINDOW_BASE + find_window() * MM_WINDOW_SIZE;
	spin_unlock(&mm_windows_lock);
	mm->start_brk = mm->brk = base + PAGE_SIZE;
	mm->mmap_base = base + MM_WINDOW_SIZE / 2;
	mm->task_size = base + MM_WINDOW_SIZE;
}

static void mm_unplace(struct mm_struct *mm)
{
	spin_lock(&mm_windows_lock);
	__clear_bit((mm->start_brk - MM_WINDOW_BASE) / MM_WINDOW_SIZE, mm_windows);
	spin_unlock(&mm_windows_lock);
}

/* Returns the first area that ends above addr. */
struct vm_area_struct *find_vma(struct mm_struct *mm, unsigned long addr)
{
	struct vm_area_struct *vma;

	list_for_each_entry(vma, &mm->mm_list, vm_list)
		if (vma->vm_end > addr)
			return vma;
	return NULL;
}
EXPORT_SYMBOL(find_vma);

noinline struct vm_area_struct *vm_area_alloc(struct mm_struct *mm)
{
	struct vm_area_struct *vma = kmem_cache_zalloc(vm_area_cachep, GFP_KERNEL);

	if (vma) {
		vma->vm_mm = mm;
		INIT_LIST_HEAD(&vma->vm_list);
		INIT_LIST_HEAD(&vma->anon_pages);
	}
	return vma;
}

noinline void vm_area_free(struct vm_area_struct *vma)
{
	kmem_cache_free(vm_area_cachep, vma);
}

static noinline void vma_link(struct mm_struct *mm, struct vm_area_struct *vma)
{
	struct vm_area_struct *next = find_vma(mm, vma->vm_start);

	list_add_tail(&vma->vm_list, next ? &next->vm_list : &mm->mm_list);
	mm->map_count++;
	mm->total_vm += (vma->vm_end - vma->vm_start) >> PAGE_SHIFT;
}

/* Returns the address of a gap of len bytes in [low, high), or -ENOMEM. */
unsigned long vm_unmapped_area(struct mm_struct *mm, unsigned long low, unsigned long high, unsigned long len)
{
	struct vm_area_struct *vma;
	unsigned long addr = low;

	list_for_each_entry(vma, &mm->mm_list, vm_list) {
		if (vma->vm_end <= addr)
			continue;
		if (vma->vm_start >= addr + len)
			break;
		addr = vma->vm_end;
	}
	return addr + len <= high ? addr : (unsigned long)-ENOMEM;
}

unsigned long get_unmapped_area(struct file *file, unsigned long addr, unsigned long len, unsigned long pgoff, unsigned long flags)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;

	if (host_mirrors())
		return host_made();
	if (flags & MAP_FIXED)
		return addr & ~PAGE_MASK ? (unsigned long)-EINVAL : addr;
	addr = PAGE_ALIGN(addr);
	if (addr >= mm->mmap_base && addr + len <= mm->task_size) {
		vma = find_vma(mm, addr);
		if (!vma || addr + len <= vma->vm_start)
			return addr;
	}
	return vm_unmapped_area(mm, mm->mmap_base, mm->task_size, len);
}

static bool in_window(struct mm_struct *mm, unsigned long addr, unsigned long len)
{
	return addr >= mm->start_brk && len <= mm->task_size - mm->start_brk && addr <= mm->task_size - len;
}

static struct vm_area_struct *__vma_new(struct mm_struct *mm, unsigned long addr, unsigned long len, unsigned long vm_flags)
{
	struct vm_area_struct *vma = vm_area_alloc(mm);

	if (!vma)
		return NULL;
	vma->vm_start = addr;
	vma->vm_end = addr + len;
	vma->vm_flags = vm_flags;
	vma_link(mm, vma);
	return vma;
}

/* Makes the area of a new program's stack, at the end of the mm's window. */
struct vm_area_struct *stack_vma(struct mm_struct *mm, unsigned long len)
{
	return __vma_new(mm, mm->task_size - len, len, VM_READ | VM_WRITE);
}

noinline __noclone unsigned long mmap_region(struct file *file, unsigned long addr, unsigned long len, unsigned long vm_flags,
					     unsigned long pgoff, struct list_head *uf)
{
	struct mm_struct *mm = current->mm;
	int err;

	if (host_mirrors())
		return host_made();
	err = do_munmap(mm, addr, len, NULL);
	if (err)
		return err;
	return __vma_new(mm, addr, len, vm_flags) ? addr : (unsigned long)-ENOMEM;
}

unsigned long do_mmap(struct file *file, unsigned long addr, unsigned long len, unsigned long prot, unsigned long flags,
		      unsigned long pgoff, unsigned long *populate, struct list_head *uf)
{
	struct mm_struct *mm = current->mm;

	len = PAGE_ALIGN(len);
	if (!len)
		return -EINVAL;
	if (mm->map_count > 65530 || (file && !host_mirrors()))
		return file ? -ENODEV : -ENOMEM;
	addr = get_unmapped_area(file, addr, len, pgoff, flags);
	if (IS_ERR_VALUE(addr))
		return addr;
	if (!host_mirrors() && !in_window(mm, addr, len))
		return -ENOMEM;
	return mmap_region(file, addr, len, prot & (PROT_READ | PROT_WRITE), pgoff, uf);
}

/* Splits an area at addr. */
static int __split_vma(struct mm_struct *mm, struct vm_area_struct *vma, unsigned long addr)
{
	struct vm_area_struct *new = vm_area_alloc(mm);
	struct anon_page *ap, *n;

	if (!new)
		return -ENOMEM;
	new->vm_start = addr;
	new->vm_end = vma->vm_end;
	new->vm_flags = vma->vm_flags;
	vma->vm_end = addr;
	list_add(&new->vm_list, &vma->vm_list);
	mm->map_count++;
	list_for_each_entry_safe(ap, n, &vma->anon_pages, list)
		if (ap->addr >= addr)
			list_move_tail(&ap->list, &new->anon_pages);
	return 0;
}

static void remove_vma(struct mm_struct *mm, struct vm_area_struct *vma)
{
	unmap_page_range(vma, vma->vm_start, vma->vm_end);
	list_del(&vma->vm_list);
	mm->map_count--;
	mm->total_vm -= (vma->vm_end - vma->vm_start) >> PAGE_SHIFT;
	vm_area_free(vma);
}

int do_munmap(struct mm_struct *mm, unsigned long start, size_t len, struct list_head *uf)
{
	unsigned long end = start + PAGE_ALIGN(len);
	struct vm_area_struct *vma, *next;

	if ((start & ~PAGE_MASK) || !len)
		return -EINVAL;
	vma = find_vma(mm, start);
	if (vma && vma->vm_start < start && start < vma->vm_end) {
		if (__split_vma(mm, vma, start))
			return -ENOMEM;
	}
	for (vma = find_vma(mm, start); vma && vma->vm_start < end; vma = next) {
		if (vma->vm_end > end && __split_vma(mm, vma, end))
			return -ENOMEM;
		next = list_is_last(&vma->vm_list, &mm->mm_list) ? NULL : list_next_entry(vma, vm_list);
		remove_vma(mm, vma);
	}
	return 0;
}

int do_brk_flags(struct mm_struct *mm, unsigned long addr, unsigned long len, unsigned long flags)
{
	struct vm_area_struct *vma;

	if (host_mirrors())
		return host_made() == addr ? -ENOMEM : 0;
	list_for_each_entry(vma, &mm->mm_list, vm_list) {
		if (vma->vm_end == addr && vma->vm_start >= mm->start_brk && addr < mm->mmap_base) {
			vma->vm_end += len;
			mm->total_vm += len >> PAGE_SHIFT;
			return 0;
		}
	}
	return __vma_new(mm, addr, len, VM_READ | VM_WRITE) ? 0 : -ENOMEM;
}

int check_brk_limits(unsigned long addr, unsigned long len)
{
	return host_mirrors() || (in_window(current->mm, addr, len) && addr + len <= current->mm->mmap_base) ? 0 : -ENOMEM;
}

/* The end that the host's kernel has set. The old one is known if a program has asked for it. */
static __always_inline unsigned long host_brk(struct mm_struct *mm, unsigned long brk)
{
	unsigned long old = PAGE_ALIGN(mm->host_brk), new = PAGE_ALIGN(brk);

	if (mm->host_brk && brk && new > old && !check_brk_limits(old, new - old))
		do_brk_flags(mm, old, new - old, 0);
	return mm->host_brk = host_made();
}

/* Returns the new end, or the old one if it cannot be moved. */
SYSCALL_DEFINE1(brk, unsigned long, brk)
{
	struct mm_struct *mm = current->mm;
	unsigned long oldbrk, newbrk, ret;

	if (!mm)
		return 0;
	down_write_killable(&mm->mmap_lock);
	if (host_mirrors()) {
		ret = host_brk(mm, brk);
		goto out;
	}
	ret = mm->brk;
	if (brk < mm->start_brk)
		goto out;
	oldbrk = PAGE_ALIGN(mm->brk);
	newbrk = PAGE_ALIGN(brk);
	if (newbrk < oldbrk) {
		if (do_munmap(mm, newbrk, oldbrk - newbrk, NULL))
			goto out;
	} else if (newbrk > oldbrk) {
		if (check_brk_limits(oldbrk, newbrk - oldbrk) || do_brk_flags(mm, oldbrk, newbrk - oldbrk, 0))
			goto out;
	}
	ret = mm->brk = brk;
out:
	mmap_write_unlock(mm);
	return ret;
}

unsigned long vm_mmap_pgoff(struct file *file, unsigned long addr, unsigned long len, unsigned long prot,
			    unsigned long flag, unsigned long pgoff)
{
	struct mm_struct *mm = current->mm;
	unsigned long ret;

	if (!mm)
		return -EINVAL;
	ret = security_mmap_file(file, prot, flag);
	if (ret)
		return ret;
	if (down_write_killable(&mm->mmap_lock))
		return -EINTR;
	ret = do_mmap(file, addr, len, prot, flag, pgoff, NULL, NULL);
	mmap_write_unlock(mm);
	return ret;
}

#define MAP_ANONYMOUS 0x20

noinline __noclone unsigned long ksys_mmap_pgoff(unsigned long addr, unsigned long len, unsigned long prot, unsigned long flags,
						 unsigned long fd, unsigned long pgoff)
{
	struct file *file = NULL;
	unsigned long ret;

	if (!(flags & MAP_ANONYMOUS)) {
		if (!host_mirrors())
			return -ENODEV;
		file = fget(fd);
		if (!file)
			return -EBADF;
	}
	ret = vm_mmap_pgoff(file, addr, len, prot, flags, pgoff);
	if (file)
		fput(file);
	return ret;
}

SYSCALL_DEFINE6(mmap, unsigned long, addr, unsigned long, len, unsigned long, prot, unsigned long, flags,
		unsigned long, fd, unsigned long, off)
{
	if (off & ~PAGE_MASK)
		return -EINVAL;
	return ksys_mmap_pgoff(addr, len, prot, flags, fd, off >> PAGE_SHIFT);
}

static __noipa int __vm_munmap(unsigned long start, size_t len, bool unlock)
{
	struct mm_struct *mm = current->mm;
	int ret;

	if (!mm)
		return -EINVAL;
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	ret = host_mirrors() ? host_made() : do_munmap(mm, start, len, NULL);
	mmap_write_unlock(mm);
	return ret;
}

SYSCALL_DEFINE2(munmap, unsigned long, addr, size_t, len)
{
	return __vm_munmap(addr, len, true);
}

static __noipa int do_mprotect_pkey(unsigned long start, size_t len, unsigned long prot, int pkey)
{
	return host_only();
}

SYSCALL_DEFINE3(mprotect, unsigned long, start, size_t, len, unsigned long, prot)
{
	return do_mprotect_pkey(start, len, prot, -1);
}

SYSCALL_DEFINE4(pkey_mprotect, unsigned long, start, size_t, len, unsigned long, prot, int, pkey)
{
	return do_mprotect_pkey(start, len, prot, pkey);
}

noinline __noclone int do_madvise(struct mm_struct *mm, unsigned long start, size_t len_in, int behavior)
{
	return host_only();
}
#if GUEST_LINUX < 601 /* a part of it is called */
#define do_madvise(...) host_only()
#endif

SYSCALL_DEFINE3(madvise, unsigned long, start, size_t, len_in, int, behavior)
{
	return do_madvise(current->mm, start, len_in, behavior);
}

void exit_mmap(struct mm_struct *mm)
{
	struct vm_area_struct *vma, *n;

	mmap_write_lock(mm);
	list_for_each_entry_safe(vma, n, &mm->mm_list, vm_list)
		remove_vma(mm, vma);
	mmap_write_unlock(mm);
	mm_unplace(mm);
}

static noinline int dup_mmap(struct mm_struct *mm, struct mm_struct *oldmm)
{
	unsigned long delta = mm->start_brk - oldmm->start_brk;
	struct vm_area_struct *vma, *tmp;

	mm->brk = oldmm->brk + delta;
	list_for_each_entry(vma, &oldmm->mm_list, vm_list) {
		tmp = __vma_new(mm, vma->vm_start + delta, vma->vm_end - vma->vm_start, vma->vm_flags);
		if (!tmp || copy_page_range(tmp, vma))
			return -ENOMEM;
	}
	return 0;
}

/* The child's areas are at the same offsets in its own window. */
struct mm_struct *dup_mm(struct task_struct *tsk, struct mm_struct *oldmm)
{
	struct mm_struct *mm = mm_alloc();
	int err;

	if (!mm)
		return NULL;
	mm->owner = tsk;
	mmap_write_lock(oldmm);
	err = dup_mmap(mm, oldmm);
	mmap_write_unlock(oldmm);
#if GUEST_LINUX >= 612
	if (!err && oldmm->merge & MERGE_ABLE) {
		err = __ksm_enter(mm);
		mm->merge |= oldmm->merge & MERGE_ANY;
	}
#endif
	if (err) {
		mmput(mm);
		return NULL;
	}
	return mm;
}

static int __init mmap_init(void)
{
	vm_area_cachep = KMEM_CACHE(vm_area_struct, SLAB_PANIC | SLAB_ACCOUNT);
	return 0;
}
core_initcall(mmap_init);
