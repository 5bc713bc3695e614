// Work that a task does before it leaves the kernel. It is added without a lock of
// the task; the list is closed when the task exits.
#include <linux/sched.h>
#include <linux/task_work.h>
#include <linux/export.h>

static struct callback_head work_exited; // marks task_works of a task that accepts no more work

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
EXPORT_SYMBOL(task_work_add);

// task_work_run calls the added functions, newest first, until there are none left.
// In an exiting task it then closes the list.
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
