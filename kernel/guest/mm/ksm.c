/* ksm.c: prctl(2)'s PR_SET_MEMORY_MERGE, from 6.4 on. Pages are not merged. */
#if GUEST_LINUX >= 612
#include <linux/mm.h>
#include <linux/sched.h>
#include <trace/events/ksm.h>

noinline int __ksm_enter(struct mm_struct *mm)
{
	mm->merge |= MERGE_ABLE;
	mmgrab(mm);
	trace_ksm_enter(mm);
	return 0;
}

noinline void __ksm_exit(struct mm_struct *mm)
{
	mm->merge &= ~MERGE_ABLE;
	mmdrop(mm);
	trace_ksm_exit(mm);
}

int ksm_enable_merge_any(struct mm_struct *mm)
{
	int err = 0;

	if (mm->merge & MERGE_ANY)
		return 0;
	if (!(mm->merge & MERGE_ABLE))
		err = __ksm_enter(mm);
	if (!err)
		mm->merge |= MERGE_ANY;
	return err;
}

int ksm_disable_merge_any(struct mm_struct *mm)
{
	mm->merge &= ~MERGE_ANY;
	return 0;
}
#endif
