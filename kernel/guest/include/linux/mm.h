/* mm.h: pages and address spaces. */
#ifndef _LINUX_MM_H
#define _LINUX_MM_H
#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/rwsem.h>
#include <linux/atomic.h>
#define PAGE_SHIFT 12
#define PAGE_SIZE (1UL << PAGE_SHIFT)
#define PAGE_MASK (~(PAGE_SIZE - 1))
#define PAGE_ALIGN(x) (((x) + PAGE_SIZE - 1) & PAGE_MASK)
#define offset_in_page(p) ((unsigned long)(p) & ~PAGE_MASK)
#define MAX_ORDER 11
#define PAGE_OFFSET 0xffff888000000000UL
#define __START_KERNEL_map 0xffffffff80000000UL
#define VMALLOC_START 0xffffc90000000000UL
#define VMALLOC_END 0xffffe8ffffffffffUL
#define VMEMMAP_START 0xffffea0000000000UL
#define TASK_SIZE_MAX ((1UL << 47) - PAGE_SIZE)
#define TASK_SIZE TASK_SIZE_MAX
unsigned long __phys_addr(unsigned long x);
#define __pa(x) __phys_addr((unsigned long)(x))
#define __va(x) ((void *)((unsigned long)(x) + PAGE_OFFSET))
#define pfn_to_page(pfn) (mem_map + (pfn))
#define page_to_pfn(page) ((unsigned long)((page) - mem_map))
#define virt_to_page(a) pfn_to_page(__pa(a) >> PAGE_SHIFT)
#define page_to_phys(p) (page_to_pfn(p) << PAGE_SHIFT)
#define page_address(p) __va(page_to_phys(p))
#define page_to_virt page_address
bool __virt_addr_valid(unsigned long x);
#define virt_addr_valid(x) __virt_addr_valid((unsigned long)(x))
bool is_vmalloc_addr(const void *x);
extern struct page *mem_map;
/* What a module's __va, __pa and page_address are made of. */
extern unsigned long page_offset_base, vmalloc_base, vmemmap_base, phys_base;
extern unsigned long max_pfn, max_low_pfn;
struct kmem_cache;
/* A page of RAM: 64 bytes, as in 6.1. Pages of slabs use the same words. */
struct page {
	unsigned long flags;		/* PG_* */
	union {
		struct { struct list_head lru; void *mapping; unsigned long index; unsigned long private; };
		struct { struct list_head slab_list; struct kmem_cache *slab_cache; void *freelist; unsigned int inuse, objects; };
	};
	atomic_t _mapcount, _refcount;
	unsigned long memcg_data;
};
static_assert(sizeof(struct page) == 64, "struct page");
#define PG_locked 0
#define PG_slab 9
#define PG_buddy 10
#define PG_head 16
#define PG_reserved 14
#define PageBuddy(p) ((p)->flags & (1UL << PG_buddy))
#define PageSlab(p) ((p)->flags & (1UL << PG_slab))
struct page *compound_head_of(struct page *page);
static inline void get_page(struct page *p) { atomic_inc(&p->_refcount); }
void put_page(struct page *page);
#define set_page_private(p, v) ((p)->private = (v))
#define page_private(p) ((p)->private)
void clear_page(void *page);
void copy_page(void *to, void *from);

#define VM_READ 1UL
#define VM_WRITE 2UL
#define VM_EXEC 4UL
#define VM_SHARED 8UL
#define VM_GROWSDOWN 0x100UL
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_FIXED 0x10
#define FAULT_FLAG_WRITE 1
#define FAULT_FLAG_USER 0x40
#define VM_FAULT_OOM 1
#define VM_FAULT_SIGSEGV 0x40
#define VM_FAULT_NOPAGE 0x100
#define VM_FAULT_ERROR (VM_FAULT_OOM | VM_FAULT_SIGSEGV)
struct file;
struct anon_page { struct list_head list; unsigned long addr; struct page *page; };
struct vm_area_struct {
	unsigned long vm_start, vm_end;
	struct mm_struct *vm_mm;
	unsigned long vm_flags;
	struct list_head vm_list;	/* of the mm, by address */
	unsigned long vm_pgoff;
	struct file *vm_file;
	struct list_head anon_pages;	/* pages allocated by faults */
};
struct vm_fault { struct vm_area_struct *vma; gfp_t gfp_mask; pgoff_t pgoff; unsigned long address, real_address; unsigned int flags; struct page *page; };
struct mm_struct {
	struct { struct list_head mm_list; u32 ma_flags; u32 merge; }; /* 24 bytes: areas by address; MERGE_* */
	unsigned long (*get_unmapped_area)(struct file *, unsigned long, unsigned long, unsigned long, unsigned long);
	unsigned long mmap_base, mmap_legacy_base, mmap_compat_base, mmap_compat_legacy_base;
	unsigned long task_size;		/* 64 */
	void *pgd;
	atomic_t membarrier_state, mm_users, mm_count;
	atomic_long_t pgtables_bytes;		/* 96 */
	int map_count;
	spinlock_t page_table_lock;
	struct rw_semaphore mmap_lock;		/* 112 */
	struct list_head mmlist;
	unsigned long hiwater_rss, hiwater_vm, total_vm, locked_vm;
	atomic64_t pinned_vm;
	unsigned long data_vm, exec_vm, stack_vm, def_flags;
	unsigned int write_protect_seq;
	spinlock_t arg_lock;
	unsigned long start_code, end_code, start_data, end_data, start_brk, brk, start_stack; /* 248 */
	unsigned long arg_start, arg_end, env_start, env_end;
	char __saved_auxv[384];			/* 336 */
	long rss_stat[6];			/* 720 */
	unsigned long host_brk;			/* what brk(2) of the host has returned last */
	char __rest[920 - 776];
	struct task_struct *owner;		/* 920 */
	char __tail[1088 - 928];
};
static_assert(offsetof(struct mm_struct, task_size) == 64, "mm_struct");
static_assert(offsetof(struct mm_struct, mmap_lock) == 112, "mm_struct");
static_assert(offsetof(struct mm_struct, start_code) == 248, "mm_struct");
static_assert(offsetof(struct mm_struct, brk) == 288, "mm_struct");
static_assert(offsetof(struct mm_struct, owner) == 920, "mm_struct");
static_assert(sizeof(struct mm_struct) == 1088, "mm_struct");
/* 6.12: flags of KSM, set by prctl(2). */
#define MERGE_ABLE 1
#define MERGE_ANY 2
int ksm_enable_merge_any(struct mm_struct *mm);
int ksm_disable_merge_any(struct mm_struct *mm);
int __ksm_enter(struct mm_struct *mm);
void __ksm_exit(struct mm_struct *mm);
extern struct mm_struct init_mm;
struct mm_struct *mm_alloc(void);
void mmput(struct mm_struct *mm);
void __mmdrop(struct mm_struct *mm);
static inline void mmgrab(struct mm_struct *mm) { atomic_inc(&mm->mm_count); }
static inline void mmdrop(struct mm_struct *mm) { if (atomic_dec_and_test(&mm->mm_count)) __mmdrop(mm); }
struct pt_regs;
struct vm_area_struct *find_vma(struct mm_struct *mm, unsigned long addr);
vm_fault_t handle_mm_fault(struct vm_area_struct *vma, unsigned long address, unsigned int flags, struct pt_regs *regs);
int remap_pfn_range(struct vm_area_struct *vma, unsigned long addr, unsigned long pfn, unsigned long size, pgprot_t prot);
int vm_insert_page(struct vm_area_struct *vma, unsigned long addr, struct page *page);
int vm_iomap_memory(struct vm_area_struct *vma, phys_addr_t start, unsigned long len);
int remap_vmalloc_range(struct vm_area_struct *vma, void *addr, unsigned long pgoff);
unsigned long do_mmap(struct file *file, unsigned long addr, unsigned long len, unsigned long prot, unsigned long flags,
		      unsigned long pgoff, unsigned long *populate, struct list_head *uf);
int do_munmap(struct mm_struct *mm, unsigned long start, size_t len, struct list_head *uf);
unsigned long vm_brk_flags(unsigned long addr, unsigned long len, unsigned long flags);
void exit_mmap(struct mm_struct *mm);
struct mm_struct *dup_mm(struct task_struct *tsk, struct mm_struct *oldmm);
#define mmap_read_lock(mm) down_read(&(mm)->mmap_lock)
#define mmap_read_unlock(mm) up_read(&(mm)->mmap_lock)
#define mmap_write_lock_killable(mm) down_write_killable(&(mm)->mmap_lock)
#define mmap_write_lock(mm) down_write(&(mm)->mmap_lock)
#define mmap_write_unlock(mm) up_write(&(mm)->mmap_lock)
void *vmalloc(unsigned long size);
void *vzalloc(unsigned long size);
void *__vmalloc_node_range(unsigned long size, unsigned long align, gfp_t gfp_mask, const void *caller);
void *__vmalloc(unsigned long size, gfp_t gfp_mask);
void *vmalloc_node(unsigned long size, int node);
void *vmalloc_user(unsigned long size);
void vfree(const void *addr);
void mem_init(void);
void *memblock_alloc(size_t size, size_t align);
void memblock_init(unsigned long ram);
void memblock_free_all(void);
unsigned long nr_free_pages(void);
#endif
