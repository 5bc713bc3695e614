/* fault.c: page faults. Faults of user addresses are handled by the mm's areas, those
 * of kernel addresses by __ex_table. */
#include <linux/sched.h>
#include <linux/mm.h>
#include <linux/interrupt.h>
#include <asm/traps.h>
#include <asm/host.h>
#include <asm/processor.h>
#include <trace/events/exceptions.h>

#define X86_PF_PROT 1
#define X86_PF_WRITE 2
#define X86_PF_INSTR 16

static bool fault_in_kernel_space(unsigned long address)
{
	return address >= TASK_SIZE_MAX;
}

static noinline void page_fault_oops(struct pt_regs *regs, unsigned long error_code, unsigned long address)
{
	unsigned long oops_begin(void);
	unsigned long flags = oops_begin();

	if ((error_code & X86_PF_INSTR) && (error_code & X86_PF_PROT))
		printk(KERN_CRIT "kernel tried to execute NX-protected page - exploit attempt? (uid: %d)\n", current_uid().val);
	hypercall4(HC_BUG, regs, BUG_FAULT, error_code, address);
	oops_end(flags, regs, 9);
}

static noinline void kernelmode_fixup_or_oops(struct pt_regs *regs, unsigned long error_code, unsigned long address)
{
	if (fixup_exception(regs, 14, error_code, address))
		return;
	page_fault_oops(regs, error_code, address);
}
NOKPROBE_SYMBOL(kernelmode_fixup_or_oops);

static noinline void bad_area_nosemaphore(struct pt_regs *regs, unsigned long error_code, unsigned long address)
{
	kernelmode_fixup_or_oops(regs, error_code, address);
}

static noinline void bad_area(struct pt_regs *regs, unsigned long error_code, unsigned long address)
{
	mmap_read_unlock(current->mm);
	bad_area_nosemaphore(regs, error_code, address);
}

static noinline notrace bool access_error(unsigned long error_code, struct vm_area_struct *vma)
{
	if (error_code & X86_PF_WRITE)
		return !(vma->vm_flags & VM_WRITE);
	return (error_code & X86_PF_PROT) || !(vma->vm_flags & (VM_READ | VM_WRITE | VM_EXEC));
}

static noinline void do_kern_addr_fault(struct pt_regs *regs, unsigned long hw_error_code, unsigned long address)
{
	bad_area_nosemaphore(regs, hw_error_code, address);
}
NOKPROBE_SYMBOL(do_kern_addr_fault);

static inline notrace void do_user_addr_fault(struct pt_regs *regs, unsigned long error_code, unsigned long address)
{
	struct task_struct *tsk = current;
	struct mm_struct *mm = tsk->mm;
	struct vm_area_struct *vma;
	unsigned int flags = 0;

	if (unlikely(in_atomic() || tsk->pagefault_disabled || !mm)) {
		bad_area_nosemaphore(regs, error_code, address);
		return;
	}
	if (regs->flags & X86_EFLAGS_IF)
		local_irq_enable();
	if (error_code & X86_PF_WRITE)
		flags |= FAULT_FLAG_WRITE;
	mmap_read_lock(mm);
	vma = find_vma(mm, address);
	if (!vma || vma->vm_start > address || access_error(error_code, vma)) {
		bad_area(regs, error_code, address);
		return;
	}
	if (handle_mm_fault(vma, address, flags, regs) & VM_FAULT_ERROR) {
		bad_area(regs, error_code, address);
		return;
	}
	mmap_read_unlock(mm);
}
NOKPROBE_SYMBOL(do_user_addr_fault);

static __always_inline void handle_page_fault(struct pt_regs *regs, unsigned long error_code, unsigned long address)
{
	if (user_mode(regs))
		trace_page_fault_user(address, regs, error_code);
	else
		trace_page_fault_kernel(address, regs, error_code);
	if (unlikely(fault_in_kernel_space(address)))
		do_kern_addr_fault(regs, error_code, address);
	else
		do_user_addr_fault(regs, error_code, address);
	local_irq_disable();
}

noinstr void exc_page_fault(struct pt_regs *regs, unsigned long error_code);
noinstr void exc_page_fault(struct pt_regs *regs, unsigned long error_code)
{
	unsigned long address = read_cr2();
	irqentry_state_t state = irqentry_enter(regs);

	handle_page_fault(regs, error_code, address);
	irqentry_exit(regs, state);
}
