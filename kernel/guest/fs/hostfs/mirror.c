// Calls that the host's programs make on files that kprobefs does not serve. The host's
// kernel makes them. Here they run through the functions that Linux's would, down to the
// operation of the file, which waits for the host and returns the host's result.
#include <linux/hostfs.h>
#include <linux/host.h>
#include <linux/fdtable.h>
#include <linux/uaccess.h>
#include <net/sock.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/err.h>
#include <linux/poll.h>

void task_work_run(void);

long host_made(void)
{
	struct host_call *call = current_host_call();
	struct host_mirror *m = (struct host_mirror *)call->mirror;

	if (!m->made && m->refused)
		return m->refused;
	if (!m->made) {
		m->ret = host_file_op(call, FILE_OP_MADE, 0, 0);
		m->made = 1;
	}
	if (m->len && m->ret >= 0)
		return m->index < m->ret ? *m->len : -EAGAIN;
	return m->ret;
}

void host_each(u32 *len, u64 index)
{
	struct host_mirror *m = (struct host_mirror *)current_host_call()->mirror;

	m->len = len;
	m->index = index;
}

long host_only(void)
{
	return host_mirrors() ? host_made() : -ENOSYS;
}

unsigned int host_ready(void)
{
	return host_mirrors() ? ((struct host_mirror *)current_host_call()->mirror)->ready : DEFAULT_POLLMASK;
}

ssize_t host_transfer(struct kiocb *iocb)
{
	ssize_t ret = host_made();

	if (ret > 0)
		iocb->ki_pos += ret;
	return ret;
}

static ssize_t host_transfer_at(loff_t *ppos)
{
	ssize_t ret = host_made();

	if (ret > 0 && ppos)
		*ppos += ret;
	return ret;
}

// Regular files of disk file systems without operations of their own.
static const struct file_operations regular_fops = {
	.read_iter = generic_file_read_iter,
	.write_iter = generic_file_write_iter,
	.llseek = generic_file_llseek,
	.fsync = noop_fsync,
};

// drivers/tty/tty_io.c
static __noipa ssize_t tty_read(struct kiocb *iocb, struct iov_iter *to)
{
	return host_transfer(iocb);
}

static __noipa ssize_t file_tty_write(struct file *file, struct kiocb *iocb, struct iov_iter *from)
{
	return host_transfer(iocb);
}

static __noipa ssize_t tty_write(struct kiocb *iocb, struct iov_iter *from)
{
	return file_tty_write(iocb->ki_filp, iocb, from);
}

static __noipa long tty_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return host_made();
}

static __noipa unsigned int n_tty_poll(void *tty, struct file *file, poll_table *wait)
{
	return host_poll_op(file, wait);
}

static __noipa unsigned int tty_poll(struct file *filp, poll_table *wait)
{
	return n_tty_poll(NULL, filp, wait);
}

static const struct file_operations tty_fops = {
	.poll = tty_poll,
	.read_iter = tty_read,
	.write_iter = tty_write,
	.unlocked_ioctl = tty_ioctl,
	.llseek = no_llseek,
};

// drivers/char/mem.c and random.c
static __noipa ssize_t read_null(struct file *file, char __user *buf, size_t count, loff_t *ppos)
{
	return host_transfer_at(ppos);
}

static __noipa ssize_t write_null(struct file *file, const char __user *buf, size_t count, loff_t *ppos)
{
	return host_transfer_at(ppos);
}

static __noipa ssize_t read_zero(struct file *file, char __user *buf, size_t count, loff_t *ppos)
{
	return host_transfer_at(ppos);
}

static __noipa ssize_t write_full(struct file *file, const char __user *buf, size_t count, loff_t *ppos)
{
	return host_transfer_at(ppos);
}

static __noipa ssize_t read_iter_zero(struct kiocb *iocb, struct iov_iter *iter)
{
	return host_transfer(iocb);
}

static __noipa ssize_t random_read_iter(struct kiocb *iocb, struct iov_iter *iter)
{
	return host_transfer(iocb);
}

static __noipa ssize_t urandom_read_iter(struct kiocb *iocb, struct iov_iter *iter)
{
	return host_transfer(iocb);
}

static __noipa ssize_t random_write_iter(struct kiocb *iocb, struct iov_iter *iter)
{
	return host_transfer(iocb);
}

HOST_POLL_OP(random_poll)

static __noipa loff_t null_lseek(struct file *file, loff_t offset, int orig)
{
	return file->f_pos = 0;
}

static const struct file_operations null_fops = { .llseek = null_lseek, .read = read_null, .write = write_null };
static const struct file_operations zero_fops = { .llseek = null_lseek, .read = read_zero, .write = write_null };
static const struct file_operations full_fops = { .llseek = null_lseek, .read_iter = read_iter_zero, .write = write_full };
static const struct file_operations random_fops = { .llseek = noop_llseek, .read_iter = random_read_iter, .write_iter = random_write_iter, .poll = random_poll };
static const struct file_operations urandom_fops = { .llseek = noop_llseek, .read_iter = urandom_read_iter, .write_iter = random_write_iter };

// All others: nothing is known of their operations.
static ssize_t unknown_transfer(struct kiocb *iocb, struct iov_iter *iter)
{
	return host_transfer(iocb);
}

static unsigned int unknown_poll(struct file *file, poll_table *wait)
{
	return host_poll_op(file, wait);
}

static const struct file_operations unknown_fops = {
	.read_iter = unknown_transfer,
	.write_iter = unknown_transfer,
	.poll = unknown_poll,
	.llseek = noop_llseek,
};

static const struct file_operations *memory_device(unsigned int minor)
{
	switch (minor) {
	case 3:
		return &null_fops;
	case 5:
		return &zero_fops;
	case 7:
		return &full_fops;
	case 8:
		return &random_fops;
	case 9:
		return &urandom_fops;
	}
	return &unknown_fops;
}

static bool is_tty(unsigned int major)
{
	return major == 4 || major == 5 || (major >= 136 && major <= 143);
}

// mirror_fops returns the operations of a file of the host.
static const struct file_operations *mirror_fops(const struct host_mirror_file *m)
{
	unsigned int major = m->rdev >> 20;

	if (S_ISDIR(m->mode))
		return &hostfs_dir_operations;
	if (S_ISREG(m->mode) && m->name[0] == '/')
		return &regular_fops;
	if (S_ISFIFO(m->mode))
		return &pipefifo_fops;
	if (S_ISCHR(m->mode) && major == 1)
		return memory_device(m->rdev & 0xfffff);
	if (S_ISCHR(m->mode) && is_tty(major))
		return &tty_fops;
	return host_anon_fops(m->name) ?: &unknown_fops;
}

// set_mode sets what can be done with a file of the host.
static void set_mode(struct file *f, const struct host_mirror_file *m)
{
	f->f_mode |= FMODE_LSEEK | FMODE_PREAD | FMODE_PWRITE;
	if (f->f_mode & FMODE_READ && (f->f_op->read || f->f_op->read_iter))
		f->f_mode |= FMODE_CAN_READ;
	if (f->f_mode & FMODE_WRITE && (f->f_op->write || f->f_op->write_iter))
		f->f_mode |= FMODE_CAN_WRITE;
	if (S_ISREG(m->mode) || S_ISDIR(m->mode))
		f->f_mode |= FMODE_ATOMIC_POS;
	if (S_ISFIFO(m->mode))
		stream_open(f->f_inode, f);
	else if (f->f_op == &tty_fops)
		nonseekable_open(f->f_inode, f);
}

void host_identify(struct file *file, int i)
{
	file->f_inode->i_ino = ((struct host_mirror *)current_host_call()->mirror)->files[i].file;
}

int host_install_pair(struct file *files[2], const int __user *fds)
{
	int host[2], fd, i, err = host_made();

	if (!err && copy_from_user(host, fds, sizeof(host)))
		err = -EFAULT;
	for (i = 0; i < 2; i++) {
		fd = err ? err : host_reserve(host[i]);
		if (fd < 0) {
			fput(files[i]);
			continue;
		}
		host_identify(files[i], i);
		fd_install(fd, files[i]);
	}
	return err;
}

// mirror_socket is mirror_file for a socket, whose rdev says the family, type and protocol.
static struct file *mirror_socket(const struct host_mirror_file *m)
{
	struct socket *sock = host_socket(m->rdev >> 24, m->rdev >> 16 & 0xff, m->rdev & 0xffff);
	struct file *f;

	if (!sock)
		return ERR_PTR(-ENOMEM);
	host_socket_told(sock, &m->sock, true);
	f = sock_alloc_file(sock, m->flags);
	if (!IS_ERR(f))
		f->f_inode->i_ino = m->file;
	return f;
}

// host_dentry returns the dentry of a directory of the host, of whose path only the first len bytes count. Nothing has to be known of it.
static struct dentry *host_dentry(const char *path, unsigned int len)
{
	const char *end = path + len;
	struct dentry *d = dget(current->fs->root.dentry), *child;

	while (path < end) {
		struct qstr q = { .name = (const unsigned char *)path };
		struct inode *inode;

		while (path < end && *path != '/')
			path++;
		q.len = path++ - (const char *)q.name;
		if (!q.len)
			continue;
		child = d_hash_and_lookup(d, &q);
		if (!child) {
			child = d_alloc(d, &q);
			inode = child ? hostfs_get_inode(d->d_sb, S_IFDIR | 0755) : NULL;
			if (!inode) {
				dput(child);
				break;
			}
			child->d_fsdata = child;
			d_add(child, inode);
		}
		dput(d);
		d = child;
	}
	return d;
}

// host_cwd has the task look names up from where the host's program does.
static void host_cwd(const char *cwd)
{
	struct path path = { .mnt = current->fs->root.mnt, .dentry = host_dentry(cwd, strlen(cwd)) };

	if (path.dentry != current->fs->pwd.dentry)
		set_fs_pwd(current->fs, &path);
	dput(path.dentry);
}

// set_parent gives a dentry without one the parent that its path has on the host.
static void set_parent(struct dentry *dentry, const char *path, const char *name)
{
	struct dentry *parent = host_dentry(path, name - path);

	spin_lock(&parent->d_lock);
	dentry->d_parent = parent;
	list_add(&dentry->d_child, &parent->d_subdirs);
	spin_unlock(&parent->d_lock);
}

// mirror_file makes a file like the host's. Its dentry and those above have the names of the path.
// Names can be looked up in a directory.
static struct file *mirror_file(struct host_mirror_file *m)
{
	const struct file_operations *fops = mirror_fops(m);
	const char *name = strrchr(m->name, '/');
	struct vfsmount *mnt = S_ISDIR(m->mode) ? current->fs->root.mnt : host_pseudo_mnt();
	struct inode *inode;
	struct file *f;

	if (S_ISSOCK(m->mode))
		return mirror_socket(m);
	inode = S_ISDIR(m->mode) ? hostfs_get_inode(mnt->mnt_sb, m->mode) : new_inode_pseudo(mnt->mnt_sb);
	if (!inode)
		return ERR_PTR(-ENOMEM);
	inode->i_ino = m->file;
	inode->i_mode = m->mode;
	inode->i_rdev = m->rdev;
	f = alloc_file_pseudo(inode, mnt, name && name[1] ? name + 1 : m->name, m->flags, fops);
	if (IS_ERR(f)) {
		iput(inode);
		return f;
	}
	if (m->name[0] == '/' && name[1])
		set_parent(f->f_path.dentry, m->name, name);
	set_mode(f, m);
	return f;
}

int host_opened(struct file *f)
{
	struct host_call *call = current_host_call();
	struct host_mirror_file *m = ((struct host_mirror *)call->mirror)->files;
	long fd = host_made();

	if (fd < 0)
		return fd;
	WRITE_ONCE(call->quiet, 1);
	f->f_inode->i_ino = m->file;
	if (!S_ISDIR(f->f_inode->i_mode)) {
		f->f_inode->i_rdev = m->rdev;
		f->f_op = mirror_fops(m);
		set_mode(f, m);
	}
	WRITE_ONCE(call->quiet, 0);
	return host_reserve(fd);
}

// mirrors_file reports whether a file is the one that the host has told of.
static bool mirrors_file(const struct file *f, const struct host_mirror_file *m)
{
	return f && f->f_inode->i_ino == m->file && !((f->f_flags ^ m->flags) & O_ACCMODE);
}

// mirror_descriptor makes a descriptor of the program refer to a file like the host's.
static void mirror_descriptor(struct host_mirror_file *m)
{
	struct file *f, *old;

	f = fget_raw(m->fd);
	if (!m->file) {
		if (f) {
			fput(f);
			fput(close_fd_get_file(m->fd));
		}
	} else if (mirrors_file(f, m)) {
		f->f_flags = m->flags & ~O_CLOEXEC;
		f->f_pos = m->pos;
		fput(f);
	} else {
		if (f)
			fput(f);
		f = mirror_file(m);
		if (!IS_ERR(f)) {
			f->f_pos = m->pos;
			old = host_install(current->files, m->fd, f);
			if (IS_ERR(old))
				fput(f);
			else if (old)
				fput(old);
		}
	}
	if (m->file)
		set_close_on_exec(m->fd, m->flags & O_CLOEXEC);
}

// mirror_state brings the socket of a descriptor to the state that the host tells of. That has happened before the
// call, by what has come from the network, and probes see it.
static void mirror_state(const struct host_mirror_file *m)
{
	struct file *f = m->fd >= 0 && S_ISSOCK(m->mode) && m->sock.state ? fget_raw(m->fd) : NULL;

	if (!f)
		return;
	if (mirrors_file(f, m) && f->f_op == &socket_file_ops)
		host_socket_told(f->private_data, &m->sock, false);
	fput(f);
}

static void polled_states(const struct host_mirror *m)
{
	const struct host_polled *p = (struct host_polled *)m->polled;
	u64 i;

	for (i = 0; i < m->nr_polled; i++)
		mirror_state(&p[i].file);
}

// mirror_polled is mirror_descriptor for the descriptors that a call waits for.
static void mirror_polled(struct host_mirror *m)
{
	struct host_polled *p = (struct host_polled *)m->polled;
	u64 i;

	for (i = 0; i < m->nr_polled; i++)
		if (p[i].file.fd >= 0)
			mirror_descriptor(&p[i].file);
}

void host_polled_again(void)
{
	struct host_call *call = current_host_call();

	WRITE_ONCE(call->quiet, 1);
	mirror_polled((struct host_mirror *)call->mirror);
	if (current->task_works)
		task_work_run();
	WRITE_ONCE(call->quiet, 0);
	polled_states((struct host_mirror *)call->mirror);
}

bool host_walks_from(int dfd)
{
	struct host_call *call = current_host_call();
	struct host_mirror *m;
	unsigned int i;

	if (!call || call->nr >= HOST_CALL_FUNC || call->fops != FOPS_OTHER)
		return false;
	m = (struct host_mirror *)call->mirror;
	for (i = 0; m && i < ARRAY_SIZE(m->files); i++)
		if (m->files[i].fd == dfd)
			return false;
	return true;
}

static struct host_polled *polled_at(const struct host_mirror *m, unsigned int fd)
{
	struct host_polled *p = (struct host_polled *)m->polled, *end = p + m->nr_polled;

	for (; p < end; p++)
		if (p->file.fd == fd)
			return p;
	return NULL;
}

bool host_waits_for(unsigned int fd)
{
	return polled_at((struct host_mirror *)current_host_call()->mirror, fd);
}

unsigned int host_poll_file(unsigned int fd, struct file *file, poll_table *pt)
{
	struct host_mirror *m = (struct host_mirror *)current_host_call()->mirror;
	struct host_polled *p = polled_at(m, fd);

	m->ready = p ? p->ready : 0;
	return vfs_poll(file, pt);
}

// host_mirror_begin prepares the program's descriptors for a call.
void host_mirror_begin(struct host_call *call)
{
	struct host_mirror *m = (struct host_mirror *)call->mirror;
	unsigned int i;

	m->made = 0;
	m->len = NULL;
	WRITE_ONCE(call->quiet, 1);
	if (m->cwd)
		host_cwd((const char *)m->cwd);
	for (i = 0; i < ARRAY_SIZE(m->files); i++)
		if (m->files[i].fd >= 0)
			mirror_descriptor(&m->files[i]);
	mirror_polled(m);
	if (current->task_works)
		task_work_run();
	WRITE_ONCE(call->quiet, 0);
	for (i = 0; i < ARRAY_SIZE(m->files); i++)
		mirror_state(&m->files[i]);
	polled_states(m);
}
