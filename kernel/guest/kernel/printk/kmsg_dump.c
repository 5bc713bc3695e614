// Dumpers of the log. The log is the host's, and outlives the machine: dumpers are registered,
// are not called, and find no lines.
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/kmsg_dump.h>
#include <linux/spinlock.h>

static DEFINE_SPINLOCK(dump_list_lock);
static LIST_HEAD(dump_list);

int kmsg_dump_register(struct kmsg_dumper *dumper)
{
	int err = -EBUSY;

	if (!dumper->dump)
		return -EINVAL;
	spin_lock(&dump_list_lock);
	if (!dumper->registered) {
		dumper->registered = true;
		list_add_tail(&dumper->list, &dump_list);
		err = 0;
	}
	spin_unlock(&dump_list_lock);
	return err;
}
EXPORT_SYMBOL(kmsg_dump_register);

int kmsg_dump_unregister(struct kmsg_dumper *dumper)
{
	int err = -EINVAL;

	spin_lock(&dump_list_lock);
	if (dumper->registered) {
		dumper->registered = false;
		list_del(&dumper->list);
		err = 0;
	}
	spin_unlock(&dump_list_lock);
	return err;
}
EXPORT_SYMBOL(kmsg_dump_unregister);

bool kmsg_dump_get_line(struct kmsg_dump_iter *iter, bool syslog, char *line, size_t size, size_t *len)
{
	return false;
}
EXPORT_SYMBOL(kmsg_dump_get_line);

bool kmsg_dump_get_buffer(struct kmsg_dump_iter *iter, bool syslog, char *buf, size_t size, size_t *len)
{
	return false;
}
EXPORT_SYMBOL(kmsg_dump_get_buffer);

void kmsg_dump_rewind(struct kmsg_dump_iter *iter)
{
	iter->cur_seq = iter->next_seq = 0;
}
EXPORT_SYMBOL(kmsg_dump_rewind);

const char *kmsg_dump_reason_str(enum kmsg_dump_reason reason)
{
	static const char *const names[] = {
		[KMSG_DUMP_PANIC] = "Panic", [KMSG_DUMP_OOPS] = "Oops", [KMSG_DUMP_EMERG] = "Emergency", [KMSG_DUMP_SHUTDOWN] = "Shutdown",
	};

	return (unsigned int)reason < ARRAY_SIZE(names) && names[reason] ? names[reason] : "Unknown";
}
EXPORT_SYMBOL(kmsg_dump_reason_str);
