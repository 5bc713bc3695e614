// Work that a task does for itself on its way out of the kernel. Whoever adds
// some needs no lock of the task's; the list is closed when the task exits.
#include <linux/sched.h>
#include <linux/task_work.h>

static struct callback_head work_exited; // stands in task_works of a task that takes no more

int task_work_add(struct task_struct *task, struct callback_head *twork, enum task_work_notify_mode mode)
{
	struct callback_head *head = READ_ONCE(task->task_works);

	do {
		if (head == &work_exited)
			return -ESRCH;
		twork->next = head;
	} while (!try_cmpxchg(&task->task_works, &head, twork));
	if (mode != TWA_NONE) {
		set_tsk_thread_flag(task, TIF_NOTIFY_RESUME);
		if (task != current)
			kick_process(task);
	}
	return 0;
}

// task_work_run calls what was added, the latest first, until there is none. In
// a task that exits it closes the list then.
void task_work_run(void)
{
	struct task_struct *task = current;
	struct callback_head *work, *next, *empty;

	for (;;) {
		work = xchg(&task->task_works, NULL);
		if (!work || work == &work_exited) {
			if (!(task->flags & PF_EXITING))
				return;
			empty = NULL;
			if (work == &work_exited || try_cmpxchg(&task->task_works, &empty, &work_exited)) {
				WRITE_ONCE(task->task_works, &work_exited);
				return;
			}
			continue;
		}
		for (; work; work = next) {
			next = work->next;
			work->func(work);
			cond_resched();
		}
	}
}
