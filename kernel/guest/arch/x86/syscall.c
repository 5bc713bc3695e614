/* syscall.c: the table of system calls, and do_syscall_64. */
#include <linux/sched.h>
#include <linux/host.h>
#include <linux/syscalls.h>
#include <linux/jump_label.h>
#include <linux/interrupt.h>
#include <asm/traps.h>
#include <trace/events/syscalls.h>

long sys_ni_syscall(const struct pt_regs *regs);
long __x64_sys_ni_syscall(const struct pt_regs *regs);

notrace long __x64_sys_ni_syscall(const struct pt_regs *regs)
{
	return -ENOSYS;
}

/* System calls that not all images have. */
#define __SYSCALL(nr, sym) extern long __weak __x64_##sym(const struct pt_regs *);
#include <asm/syscalls_64.h>
#undef __SYSCALL
#define __SYSCALL(nr, sym) [nr] = __x64_##sym,
__section(".data..ro_after_init") sys_call_ptr_t sys_call_table[__NR_syscalls] = {
#include <asm/syscalls_64.h>
};
#undef __SYSCALL

notrace void syscall_init(void)
{
	int i;

	for (i = 0; i < __NR_syscalls; i++)
		if (!sys_call_table[i])
			sys_call_table[i] = __x64_sys_ni_syscall;
}

/* Linux has it since the kernels of 2024: a switch in the place of an indirect call. */
#if !defined(KERNEL_2_6) && !defined(KERNEL_4_15) && GUEST_LINUX >= 601
long x64_sys_call(const struct pt_regs *regs, unsigned int nr);
noinline __noclone long x64_sys_call(const struct pt_regs *regs, unsigned int nr)
{
	return sys_call_table[nr](regs);
}
#else
#define x64_sys_call(regs, nr) sys_call_table[nr](regs)
#endif

static __always_inline bool do_syscall_x64(struct pt_regs *regs, int nr)
{
	if ((unsigned int)nr >= __NR_syscalls)
		return false;
	regs->ax = x64_sys_call(regs, nr);
	return true;
}

/* The work of a return to user mode. */
noinstr void syscall_exit_to_user_mode(struct pt_regs *regs)
{
	void exit_to_user_mode_prepare(struct pt_regs *regs);

	exit_to_user_mode_prepare(regs);
}

void task_work_run(void);

#if defined(KERNEL_2_6) || defined(KERNEL_4_15)
#define arch_do_signal_or_restart do_signal
#endif
void arch_do_signal_or_restart(struct pt_regs *regs);
noinline void arch_do_signal_or_restart(struct pt_regs *regs)
{
	struct ksignal ksig;

	get_signal(&ksig);
}

void exit_to_user_mode_prepare(struct pt_regs *regs)
{
	clear_tsk_thread_flag(current, TIF_NOTIFY_RESUME);
	if (current->task_works)
		task_work_run();
	if (signal_pending(current))
		arch_do_signal_or_restart(regs);
	if (need_resched())
		schedule();
}

noinstr void do_syscall_64(struct pt_regs *regs, int nr);
noinstr void do_syscall_64(struct pt_regs *regs, int nr)
{
	regs->ax = -ENOSYS;
	trace_sys_enter(regs, nr);
	do_syscall_x64(regs, nr);
	if (host_mirrors() && !host_refused(regs->ax))
		regs->ax = host_made();
	trace_sys_exit(regs, regs->ax);
	syscall_exit_to_user_mode(regs);
}
