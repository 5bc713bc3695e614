// File operations of the host's files. A call goes through the same chain of
// functions as on Linux for that kind of file. At its end host_file_op gets the data
// from the host, or passes written data to it.
#include <linux/hostfs.h>
#include <linux/seq_file.h>
#include <linux/host.h>
#include <linux/uaccess.h>

int hostfs_open(struct inode *inode, struct file *file)
{
	struct host_call *call = current_host_call();
	ssize_t ret = call ? host_file_op(call, FILE_OP_OPEN, file->f_flags, 0) : -EIO;

	return ret < 0 ? ret : 0;
}

int hostfs_flush(struct file *file, fl_owner_t id)
{
	struct host_call *call = current_host_call();

	return call && call->nr == HOST_FILP_CLOSE ? host_file_op(call, FILE_OP_FLUSH, 0, 0) : 0;
}

// hostfs_release tells the host that the last reference was dropped, if the host's
// release has dropped it.
int hostfs_release(struct inode *inode, struct file *file)
{
	struct host_call *call = current_host_call();

	if (call && call->nr == HOST_RELEASE)
		host_file_op(call, FILE_OP_RELEASE, 0, 0);
	return 0;
}

ssize_t hostfs_read_iter(struct kiocb *iocb, struct iov_iter *iter)
{
	struct host_call *call = current_host_call();
	size_t want, copied;
	ssize_t ret;

	if (!call || !call->buf)
		return -EIO;
	want = min(iter->count, (size_t)call->buf_len);
	ret = host_file_op(call, FILE_OP_READ, want, iocb->ki_pos);
	if (ret <= 0)
		return ret;
	copied = copy_to_iter((void *)call->buf, ret, iter);
	if (!copied)
		return -EFAULT;
	iocb->ki_pos += copied;
	return copied;
}

// hostfs_write_iter passes the data to the host in parts that fit into the buffer.
ssize_t hostfs_write_iter(struct kiocb *iocb, struct iov_iter *iter)
{
	struct host_call *call = current_host_call();
	size_t done = 0, n;
	ssize_t ret;

	if (!call || (!call->buf && iter->count))
		return -EIO;
	do {
		n = min(iter->count, (size_t)call->buf_len);
		if (n && copy_from_iter((void *)call->buf, n, iter) != n)
			return done ? (ssize_t)done : -EFAULT;
		ret = host_file_op(call, FILE_OP_WRITE, n, iocb->ki_pos);
		if (ret < 0)
			return done ? (ssize_t)done : ret;
		done += ret;
		iocb->ki_pos += ret;
	} while ((size_t)ret == n && iter->count);
	return done;
}

ssize_t hostfs_read(struct file *file, char __user *buf, size_t count, loff_t *ppos)
{
	struct kiocb kiocb = { .ki_filp = file, .ki_pos = *ppos };
	struct iov_iter iter;
	ssize_t ret;

	iov_iter_ubuf(&iter, READ, buf, count);
	ret = hostfs_read_iter(&kiocb, &iter);
	*ppos = kiocb.ki_pos;
	return ret;
}

ssize_t hostfs_write(struct file *file, const char __user *buf, size_t count, loff_t *ppos)
{
	struct kiocb kiocb = { .ki_filp = file, .ki_pos = *ppos };
	struct iov_iter iter;
	ssize_t ret;

	iov_iter_ubuf(&iter, WRITE, (void __user *)buf, count);
	ret = hostfs_write_iter(&kiocb, &iter);
	*ppos = kiocb.ki_pos;
	return ret;
}

static int seq_host_open(struct inode *inode, struct file *file)
{
	int err = hostfs_open(inode, file);

	return err ? err : seq_open(file, NULL);
}

static int seq_host_release(struct inode *inode, struct file *file)
{
	hostfs_release(inode, file);
	return seq_release(inode, file);
}

static const struct file_operations seq_host_fops = {
	.open = seq_host_open,
	.read = seq_read,
	.read_iter = seq_read_iter,
	.write = hostfs_write,
	.llseek = seq_lseek,
	.flush = hostfs_flush,
	.release = seq_host_release,
};

// kprobes/enabled.
static __noipa ssize_t read_enabled_file_bool(struct file *file, char __user *user_buf, size_t count, loff_t *ppos)
{
	struct host_call *call = current_host_call();
	loff_t from = 0;
	ssize_t ret;

	if (!call || !call->buf)
		return -EIO;
	ret = host_file_op(call, FILE_OP_READ, min(count, (size_t)call->buf_len), *ppos);
	if (ret <= 0)
		return ret;
	ret = simple_read_from_buffer(user_buf, count, &from, (void *)call->buf, ret);
	*ppos += from;
	return ret;
}

static __noipa ssize_t write_enabled_file_bool(struct file *file, const char __user *user_buf, size_t count, loff_t *ppos)
{
	return hostfs_write(file, user_buf, count, ppos);
}

static const struct file_operations fops_kp = {
	.open = hostfs_open,
	.read = read_enabled_file_bool,
	.write = write_enabled_file_bool,
	.llseek = default_llseek,
	.flush = hostfs_flush,
	.release = hostfs_release,
};

// Simple files of tracefs: enable, filter, trace_pipe, ...
static __noipa notrace ssize_t event_enable_read(struct file *filp, char __user *ubuf, size_t cnt, loff_t *ppos)
{
	return hostfs_read(filp, ubuf, cnt, ppos);
}

static __noipa notrace ssize_t event_enable_write(struct file *filp, const char __user *ubuf, size_t cnt, loff_t *ppos)
{
	return hostfs_write(filp, ubuf, cnt, ppos);
}

noinline __noclone notrace int tracing_open_generic(struct inode *inode, struct file *filp)
{
	return hostfs_open(inode, filp);
}

static const struct file_operations ftrace_enable_fops = {
	.open = tracing_open_generic,
	.read = event_enable_read,
	.write = event_enable_write,
	.llseek = default_llseek,
	.flush = hostfs_flush,
	.release = hostfs_release,
};

// trace_marker and trace_marker_raw. As all of kernel/trace, they are not traced.
static __noipa notrace ssize_t tracing_mark_write(struct file *filp, const char __user *ubuf, size_t cnt, loff_t *fpos)
{
	return hostfs_write(filp, ubuf, cnt, fpos);
}

static __noipa notrace ssize_t tracing_mark_raw_write(struct file *filp, const char __user *ubuf, size_t cnt, loff_t *fpos)
{
	return hostfs_write(filp, ubuf, cnt, fpos);
}

static const struct file_operations tracing_mark_fops = {
	.open = tracing_open_generic,
	.write = tracing_mark_write,
	.llseek = default_llseek,
	.flush = hostfs_flush,
	.release = hostfs_release,
};

static const struct file_operations tracing_mark_raw_fops = {
	.open = tracing_open_generic,
	.write = tracing_mark_raw_write,
	.llseek = default_llseek,
	.flush = hostfs_flush,
	.release = hostfs_release,
};

// kprobe_events.
static __noipa notrace int probes_open(struct inode *inode, struct file *file)
{
	return seq_host_open(inode, file);
}

// create_or_delete_trace_kprobe passes commands in the buffer to the host. One write
// is one call, however many lines it has.
static __noipa notrace ssize_t create_or_delete_trace_kprobe(struct host_call *call, size_t count, loff_t pos)
{
	return host_file_op(call, FILE_OP_WRITE, count, pos);
}

noinline __noclone notrace ssize_t trace_parse_run_command(struct file *file, const char __user *buffer, size_t count, loff_t *ppos)
{
	struct host_call *call = current_host_call();
	size_t done = 0, n;
	ssize_t ret;

	if (!call || (!call->buf && count))
		return -EIO;
	do {
		n = min(count - done, (size_t)call->buf_len);
		if (n && copy_from_user((void *)call->buf, buffer + done, n))
			return -EFAULT;
		ret = create_or_delete_trace_kprobe(call, n, *ppos + done);
		if (ret < 0)
			return done ? (ssize_t)done : ret;
		done += ret;
	} while ((size_t)ret == n && done < count);
	*ppos += done;
	return done;
}

static __noipa notrace ssize_t probes_write(struct file *file, const char __user *buffer, size_t count, loff_t *ppos)
{
	return trace_parse_run_command(file, buffer, count, ppos);
}

static const struct file_operations kprobe_events_ops = {
	.open = probes_open,
	.read = seq_read,
	.write = probes_write,
	.llseek = seq_lseek,
	.flush = hostfs_flush,
	.release = seq_host_release,
};

// /dev/kmsg.
static __noipa int devkmsg_open(struct inode *inode, struct file *file)
{
	return hostfs_open(inode, file);
}

static __noipa ssize_t devkmsg_read(struct file *file, char __user *buf, size_t count, loff_t *ppos)
{
	return hostfs_read(file, buf, count, ppos);
}

static __noipa ssize_t devkmsg_write(struct kiocb *iocb, struct iov_iter *from)
{
	return hostfs_write_iter(iocb, from);
}

static __noipa int devkmsg_release(struct inode *inode, struct file *file)
{
	return hostfs_release(inode, file);
}

static const struct file_operations kmsg_fops = {
	.open = devkmsg_open,
	.read = devkmsg_read,
	.write_iter = devkmsg_write,
	.llseek = default_llseek,
	.flush = hostfs_flush,
	.release = devkmsg_release,
};

// Files that kprobefs does not serve. The call is made on the host; here it only runs
// the functions that can be probed.
static int other_open(struct inode *inode, struct file *filp)
{
	long ret = host_mirrors() ? host_made() : 0;

	return ret < 0 ? ret : 0;
}

static const struct file_operations other_fops = {
	.open = other_open,
	.read_iter = hostfs_read_iter,
	.llseek = default_llseek,
};

// ours reports whether the call is on a file that kprobefs serves.
static bool ours(struct host_call *call)
{
	return call && call->nr < HOST_CALL_FUNC && call->fops != FOPS_OTHER;
}

// hostfs_readdir: the host lists its directories itself. The entries in the guest's
// dentry cache go through the same functions as on Linux.
static int hostfs_readdir(struct file *file, struct dir_context *ctx)
{
	struct host_call *call = current_host_call();
	ssize_t ret = ours(call) ? host_file_op(call, FILE_OP_READDIR, ctx->pos, ctx->pos) : 0;

	return ret < 0 ? ret : dcache_readdir(file, ctx);
}

static int hostfs_dir_open(struct inode *inode, struct file *file)
{
	struct host_call *call = current_host_call();
	int err = ours(call) ? hostfs_open(inode, file) : 0;

	return err ? err : dcache_dir_open(inode, file);
}

static int hostfs_dir_release(struct inode *inode, struct file *file)
{
	hostfs_release(inode, file);
	return dcache_dir_close(inode, file);
}

const struct file_operations hostfs_dir_operations = {
	.open = hostfs_dir_open,
	.read = generic_read_dir,
	.iterate_shared = hostfs_readdir,
	.llseek = dcache_dir_lseek,
	.flush = hostfs_flush,
	.release = hostfs_dir_release,
};

const struct file_operations *hostfs_fops(unsigned int fops, const struct super_block *sb)
{
	switch (fops) {
	case FOPS_DEBUG_BOOL:
		return &fops_kp;
	case FOPS_PROC_SYS:
		return &proc_sys_file_operations;
	case FOPS_TRACEFS:
		return &ftrace_enable_fops;
	case FOPS_MARKER:
		return &tracing_mark_fops;
	case FOPS_RAW_MARKER:
		return &tracing_mark_raw_fops;
	case FOPS_PROBES:
		return &kprobe_events_ops;
	case FOPS_DEV:
		return &kmsg_fops;
	case FOPS_DIR:
		return &hostfs_dir_operations;
	case FOPS_OTHER:
		return &other_fops;
	}
	return &seq_host_fops;
}

// host_filp_close is called when a host's process closes one of its descriptors of an
// open file. The guest's descriptor stays open.
long host_filp_close(unsigned int fd)
{
	struct file *file = fget(fd);

	return file ? filp_close(file, current->files) : -EBADF;
}

void task_work_run(void);

// host_release closes a descriptor and releases its file within this call.
long host_release(unsigned int fd)
{
	struct file *file = close_fd_get_file(fd);

	if (!file)
		return -EBADF;
	fput(file);
	task_work_run();
	return 0;
}
