// Pipes: a ring of pages between two files.
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/hostfs.h>
#include <linux/mm.h>
#include <linux/poll.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

#define PIPE_BUFS 16 // pages

struct pipe_buffer {
	struct page *page;
	unsigned int offset, len;
};

struct pipe_inode_info {
	struct mutex mutex;
	wait_queue_head_t rd_wait, wr_wait;
	unsigned int head, tail; // next slot to fill, oldest one that is filled
	unsigned int readers, writers, files;
	struct pipe_buffer bufs[PIPE_BUFS];
};

static struct vfsmount *pipe_mnt;

static bool pipe_empty(const struct pipe_inode_info *p)
{
	return READ_ONCE(p->head) == READ_ONCE(p->tail);
}

static bool pipe_full(const struct pipe_inode_info *p)
{
	return READ_ONCE(p->head) - READ_ONCE(p->tail) >= PIPE_BUFS;
}

static struct pipe_buffer *slot(struct pipe_inode_info *p, unsigned int i)
{
	return &p->bufs[i % PIPE_BUFS];
}

noinline __noclone struct pipe_inode_info *alloc_pipe_info(void)
{
	struct pipe_inode_info *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return NULL;
	mutex_init(&p->mutex);
	init_waitqueue_head(&p->rd_wait);
	init_waitqueue_head(&p->wr_wait);
	p->readers = p->writers = 1;
	p->files = 2;
	return p;
}

noinline __noclone void free_pipe_info(struct pipe_inode_info *p)
{
	for (; p->tail != p->head; p->tail++)
		put_page(slot(p, p->tail)->page);
	kfree(p);
}

// drain copies the data in the pipe to the reader, and returns the number of bytes or
// -EFAULT.
static ssize_t drain(struct pipe_inode_info *p, struct iov_iter *to)
{
	ssize_t done = 0;

	while (to->count && !pipe_empty(p)) {
		struct pipe_buffer *b = slot(p, p->tail);
		size_t want = min_t(size_t, b->len, to->count);
		size_t n = copy_to_iter(page_address(b->page) + b->offset, want, to);

		b->offset += n;
		b->len -= n;
		done += n;
		if (n < want)
			return done ? done : -EFAULT;
		if (!b->len) {
			put_page(b->page);
			p->tail++;
		}
	}
	return done;
}

// pipe_read returns the available bytes. If the pipe is empty it sleeps, or returns 0
// without writers, or -EAGAIN with O_NONBLOCK.
static __noipa ssize_t pipe_read(struct kiocb *iocb, struct iov_iter *to)
{
	struct file *filp = iocb->ki_filp;
	struct pipe_inode_info *p = filp->private_data;
	bool was_full;
	ssize_t ret;

	if (host_mirrors())
		return host_transfer(iocb);
	if (!to->count)
		return 0;
	mutex_lock(&p->mutex);
	for (;;) {
		was_full = pipe_full(p);
		ret = drain(p, to);
		if (ret || !p->writers)
			break;
		if (filp->f_flags & O_NONBLOCK) {
			ret = -EAGAIN;
			break;
		}
		mutex_unlock(&p->mutex);
		if (wait_event_interruptible(p->rd_wait, !pipe_empty(p) || !READ_ONCE(p->writers)))
			return -ERESTARTSYS;
		mutex_lock(&p->mutex);
	}
	mutex_unlock(&p->mutex);
	if (was_full && ret > 0)
		wake_up_interruptible(&p->wr_wait);
	return ret;
}

// fill copies as much as fits into the pipe, and returns the number of bytes, or an
// error if there are none.
static ssize_t fill(struct pipe_inode_info *p, struct iov_iter *from)
{
	ssize_t done = 0;

	while (from->count && !pipe_full(p)) {
		struct pipe_buffer *b = pipe_empty(p) ? NULL : slot(p, p->head - 1);
		size_t at = b ? b->offset + b->len : PAGE_SIZE, want, n;

		if (at == PAGE_SIZE) {
			b = slot(p, p->head);
			*b = (struct pipe_buffer){ .page = alloc_pages(GFP_KERNEL, 0) };
			if (!b->page)
				return done ? done : -ENOMEM;
			p->head++;
			at = 0;
		}
		want = min_t(size_t, PAGE_SIZE - at, from->count);
		n = copy_from_iter(page_address(b->page) + at, want, from);
		b->len += n;
		done += n;
		if (!b->len) {
			put_page(b->page);
			p->head--;
		}
		if (n < want)
			return done ? done : -EFAULT;
	}
	return done;
}

// pipe_write writes all data and sleeps while the ring is full. Without readers it
// returns -EPIPE and sends SIGPIPE.
static __noipa ssize_t pipe_write(struct kiocb *iocb, struct iov_iter *from)
{
	struct file *filp = iocb->ki_filp;
	struct pipe_inode_info *p = filp->private_data;
	ssize_t done = 0, n;

	if (host_mirrors())
		return host_transfer(iocb);
	mutex_lock(&p->mutex);
	while (from->count) {
		bool was_empty = pipe_empty(p);

		if (!p->readers) {
			send_sig(SIGPIPE, current, 0);
			done = done ? done : -EPIPE;
			break;
		}
		n = fill(p, from);
		if (n < 0) {
			done = done ? done : n;
			break;
		}
		done += n;
		if (was_empty && n)
			wake_up_interruptible(&p->rd_wait);
		if (!from->count)
			break;
		if (filp->f_flags & O_NONBLOCK) {
			done = done ? done : -EAGAIN;
			break;
		}
		mutex_unlock(&p->mutex);
		if (wait_event_interruptible(p->wr_wait, !pipe_full(p) || !READ_ONCE(p->readers)))
			return done ? done : -ERESTARTSYS;
		mutex_lock(&p->mutex);
	}
	mutex_unlock(&p->mutex);
	return done;
}

static __noipa int pipe_release(struct inode *inode, struct file *file)
{
	struct pipe_inode_info *p = file->private_data;
	bool last;

	if (!p) /* it mirrors a pipe of the host */
		return 0;
	mutex_lock(&p->mutex);
	if (file->f_mode & FMODE_READ)
		p->readers--;
	if (file->f_mode & FMODE_WRITE)
		p->writers--;
	last = !--p->files;
	mutex_unlock(&p->mutex);
	if (last) {
		free_pipe_info(p);
	} else {
		wake_up_interruptible_all(&p->rd_wait);
		wake_up_interruptible_all(&p->wr_wait);
	}
	return 0;
}

HOST_POLL_OP(pipe_poll)

const struct file_operations pipefifo_fops = {
	.poll = pipe_poll,
	.llseek = no_llseek,
	.read_iter = pipe_read,
	.write_iter = pipe_write,
	.release = pipe_release,
};

static __noipa struct inode *get_pipe_inode(void)
{
	struct inode *inode = new_inode_pseudo(pipe_mnt->mnt_sb);

	if (!inode)
		return NULL;
	inode->i_pipe = alloc_pipe_info();
	if (!inode->i_pipe) {
		iput(inode);
		return NULL;
	}
	inode->i_ino = get_next_ino();
	inode->i_mode = S_IFIFO | 0600;
	inode->i_fop = &pipefifo_fops;
	return inode;
}

struct vfsmount *host_pseudo_mnt(void)
{
	return pipe_mnt;
}

static struct file *one_end(struct inode *inode, int flags)
{
	struct file *f = alloc_file_pseudo(inode, pipe_mnt, "", flags, &pipefifo_fops);

	if (!IS_ERR(f)) {
		f->private_data = inode->i_pipe;
		stream_open(inode, f);
	}
	return f;
}

// create_pipe_files returns the read end in res[0] and the write end in res[1].
int create_pipe_files(struct file **res, int flags)
{
	struct inode *inode = get_pipe_inode();

	if (!inode)
		return -ENFILE;
	res[1] = one_end(inode, O_WRONLY | (flags & O_NONBLOCK));
	if (IS_ERR(res[1])) {
		free_pipe_info(inode->i_pipe);
		iput(inode);
		return PTR_ERR(res[1]);
	}
	ihold(inode);
	res[0] = one_end(inode, O_RDONLY | (flags & O_NONBLOCK));
	if (IS_ERR(res[0])) {
		iput(inode);
		inode->i_pipe->files = 1;
		fput(res[1]);
		return PTR_ERR(res[0]);
	}
	return 0;
}

// do_pipe_flags returns two descriptors: the read end and the write end.
int do_pipe_flags(int *fd, int flags)
{
	struct file *files[2];
	int err, i;

	if (flags & ~(O_CLOEXEC | O_NONBLOCK))
		return -EINVAL;
	err = create_pipe_files(files, flags);
	if (err)
		return err;
	for (i = 0; i < 2; i++) {
		fd[i] = get_unused_fd_flags(flags);
		if (fd[i] < 0) {
			if (i)
				put_unused_fd(fd[0]);
			fput(files[0]);
			fput(files[1]);
			return fd[i];
		}
	}
	fd_install(fd[0], files[0]);
	fd_install(fd[1], files[1]);
	return 0;
}

static __noipa int do_pipe2(int __user *fildes, int flags)
{
	int fd[2], err = do_pipe_flags(fd, flags);

	if (err)
		return err;
	if (host_mirrors()) {
		struct host_call *call = current_host_call();
		struct file *files[2];

		WRITE_ONCE(call->quiet, 1);
		files[0] = close_fd_get_file(fd[0]);
		files[1] = close_fd_get_file(fd[1]);
		err = host_install_pair(files, fildes);
		WRITE_ONCE(call->quiet, 0);
		return err;
	}
	if (!copy_to_user(fildes, fd, sizeof(fd)))
		return 0;
	close_fd(fd[0]);
	close_fd(fd[1]);
	return -EFAULT;
}

SYSCALL_DEFINE2(pipe2, int __user *, fildes, int, flags)
{
	return do_pipe2(fildes, flags);
}

SYSCALL_DEFINE1(pipe, int __user *, fildes)
{
	return do_pipe2(fildes, 0);
}

static int pipefs_fill_super(struct super_block *sb)
{
	static const struct super_operations pipefs_ops;
	struct inode *root;

	sb->s_op = &pipefs_ops;
	sb->s_magic = 0x50495045;
	root = new_inode(sb);
	if (root)
		root->i_mode = S_IFDIR | 0600;
	sb->s_root = d_make_root(root);
	return sb->s_root ? 0 : -ENOMEM;
}

static struct file_system_type pipe_fs_type = { .name = "pipefs", .fill_super = pipefs_fill_super };

static int __init init_pipe_fs(void)
{
	register_filesystem(&pipe_fs_type);
	pipe_mnt = kern_mount(&pipe_fs_type);
	return IS_ERR(pipe_mnt) ? PTR_ERR(pipe_mnt) : 0;
}
fs_initcall(init_pipe_fs);
