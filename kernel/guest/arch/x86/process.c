/* process.c: processor-specific parts of task creation and task switches. */
#include <linux/sched.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <asm/processor.h>

extern void ret_from_fork(void);

/* Popped by __switch_to_asm; ret_from_fork uses rbx and r12. */
struct inactive_task_frame { unsigned long r15, r14, r13, r12, bx, bp, ret_addr; };

DEFINE_PER_CPU(unsigned long, cpu_current_top_of_stack);
DEFINE_PER_CPU(struct task_struct *, current_task) = &init_task;
EXPORT_SYMBOL(current_task);

int arch_dup_task_struct(struct task_struct *dst, struct task_struct *src)
{
	memcpy(dst, src, sizeof(*dst));
	return 0;
}

int copy_thread(struct task_struct *p, const struct kernel_clone_args *args)
{
	struct pt_regs *childregs = task_pt_regs(p);
	struct inactive_task_frame *frame = (struct inactive_task_frame *)childregs - 1;

	frame->bp = 0;
	frame->ret_addr = (unsigned long)ret_from_fork;
	p->thread.sp = (unsigned long)frame;
	p->thread.fsbase = current->thread.fsbase;
	memset(childregs, 0, sizeof(*childregs));
	if (args->fn) {
		frame->bx = (unsigned long)args->fn;
		frame->r12 = (unsigned long)args->fn_arg;
		return 0;
	}
	frame->bx = 0;
	*childregs = *task_pt_regs(current);
	childregs->ax = 0;
	if (args->stack)
		childregs->sp = args->stack;
	if (args->flags & CLONE_SETTLS)
		p->thread.fsbase = args->tls;
	return 0;
}

/* Registers of a new program. */
void start_thread(struct pt_regs *regs, unsigned long new_ip, unsigned long new_sp)
{
	current->thread.fsbase = 0;
	regs->ip = new_ip;
	regs->sp = new_sp;
}

void exit_thread(struct task_struct *tsk)
{
	tsk->thread.io_bitmap = NULL;
}

void release_thread(struct task_struct *dead_task)
{
}

void current_save_fsgs(void)
{
	current->thread.fsbase = rdmsrl(MSR_FS_BASE);
}

/* Runs on next_p's stack and returns prev_p. */
__visible notrace struct task_struct *__switch_to(struct task_struct *prev_p, struct task_struct *next_p)
{
	if (prev_p->thread.fsbase != next_p->thread.fsbase)
		wrmsrl(MSR_FS_BASE, next_p->thread.fsbase);
	this_cpu_write(current_task, next_p);
	this_cpu_write(cpu_current_top_of_stack, (unsigned long)next_p->stack + THREAD_SIZE);
	return prev_p;
}

unsigned long arch_align_stack(unsigned long sp)
{
	return sp & ~0xfUL;
}
