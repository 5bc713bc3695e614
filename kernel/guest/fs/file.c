// Descriptors: tables of open files, shared by tasks or private.
//
// The table is read under RCU and changed under file_lock. If it is too small, it is
// replaced by a larger copy.
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/hostfs.h>
#include <linux/syscalls.h>
#include <linux/bitmap.h>
#include <linux/rcupdate.h>

#define NR_OPEN_DEFAULT 64
#define NR_OPEN_MAX (1 << 20) // sysctl_nr_open; the limit of a process is enforced by the host
#define NR_STD 3 // 0 to 2 are the standard streams, which only the host has

struct files_struct init_files = {
	.count = ATOMIC_INIT(1),
	.fdt = &init_files.fdtab,
	.fdtab = {
		.max_fds = NR_OPEN_DEFAULT,
		.fd = &init_files.fd_array[0],
		.close_on_exec = init_files.close_on_exec_init,
		.open_fds = init_files.open_fds_init,
		.full_fds_bits = init_files.full_fds_bits_init,
	},
	.file_lock = __SPIN_LOCK_UNLOCKED(init_files.file_lock),
	.resize_wait = __WAIT_QUEUE_HEAD_INITIALIZER(init_files.resize_wait),
};

static void __free_fdtable(struct fdtable *fdt)
{
	kvfree(fdt->fd);
	kvfree(fdt->open_fds);
	kfree(fdt);
}

static void free_fdtable_rcu(struct callback_head *rcu)
{
	__free_fdtable(container_of(rcu, struct fdtable, rcu));
}

// copy_fdtable copies all of a smaller table; the rest is empty.
static void copy_fdtable(struct fdtable *nfdt, struct fdtable *ofdt, unsigned int count)
{
	size_t bits = BITS_TO_LONGS(count) * sizeof(long);
	size_t full = BITS_TO_LONGS(BITS_TO_LONGS(count)) * sizeof(long);

	memcpy(nfdt->fd, ofdt->fd, count * sizeof(struct file *));
	memcpy(nfdt->open_fds, ofdt->open_fds, bits);
	memcpy(nfdt->close_on_exec, ofdt->close_on_exec, bits);
	memcpy(nfdt->full_fds_bits, ofdt->full_fds_bits, full);
}

// alloc_fdtable makes an empty table for more than nr descriptors; one block
// holds the three bitmaps.
static struct fdtable *alloc_fdtable(unsigned int nr)
{
	struct fdtable *fdt = kzalloc(sizeof(*fdt), GFP_KERNEL);
	unsigned int words;

	nr = max_t(unsigned int, roundup_pow_of_two(nr + 1), 128);
	words = BITS_TO_LONGS(nr);
	if (!fdt)
		return NULL;
	fdt->max_fds = nr;
	fdt->fd = kvzalloc(nr * sizeof(struct file *), GFP_KERNEL);
	fdt->open_fds = kvzalloc((2 * words + BITS_TO_LONGS(words)) * sizeof(long), GFP_KERNEL);
	if (!fdt->fd || !fdt->open_fds) {
		__free_fdtable(fdt);
		return NULL;
	}
	fdt->close_on_exec = fdt->open_fds + words;
	fdt->full_fds_bits = fdt->close_on_exec + words;
	return fdt;
}

// expand_fdtable is called with file_lock held, drops it during the allocation, and
// returns 1 if the table may have changed.
static int expand_fdtable(struct files_struct *files, unsigned int nr)
{
	struct fdtable *nfdt, *cur;

	spin_unlock(&files->file_lock);
	nfdt = alloc_fdtable(nr);
	spin_lock(&files->file_lock);
	if (!nfdt)
		return -ENOMEM;
	cur = files->fdt;
	if (nr < cur->max_fds) {
		__free_fdtable(nfdt);
		return 1;
	}
	copy_fdtable(nfdt, cur, cur->max_fds);
	rcu_assign_pointer(files->fdt, nfdt);
	if (cur != &files->fdtab)
		call_rcu(&cur->rcu, free_fdtable_rcu);
	return 1;
}

// expand_files makes space for descriptor nr. It returns 0 if there was space, 1 if
// the table was expanded, -EMFILE or -ENOMEM. Only one task at a time expands the
// table.
static __noipa int expand_files(struct files_struct *files, unsigned int nr)
{
	int ret = 0;

	while (nr >= files->fdt->max_fds) {
		if (nr >= NR_OPEN_MAX)
			return -EMFILE;
		if (files->resize_in_progress) {
			spin_unlock(&files->file_lock);
			wait_event(files->resize_wait, !READ_ONCE(files->resize_in_progress));
			spin_lock(&files->file_lock);
			ret = 1;
			continue;
		}
		files->resize_in_progress = true;
		ret = expand_fdtable(files, nr);
		files->resize_in_progress = false;
		wake_up_all(&files->resize_wait);
		if (ret < 0)
			return ret;
	}
	return ret;
}

static void __set_open_fd(unsigned int fd, struct fdtable *fdt)
{
	__set_bit(fd, fdt->open_fds);
	if (!~fdt->open_fds[fd / 64])
		__set_bit(fd / 64, fdt->full_fds_bits);
}

static void __clear_open_fd(unsigned int fd, struct fdtable *fdt)
{
	__clear_bit(fd, fdt->open_fds);
	__clear_bit(fd / 64, fdt->full_fds_bits);
}

// find_next_fd skips full words of the bitmap.
static unsigned int find_next_fd(struct fdtable *fdt, unsigned int start)
{
	unsigned int max = fdt->max_fds, words = max / 64;
	unsigned int word = find_next_zero_bit(fdt->full_fds_bits, words, start / 64);

	if (word >= words)
		return max;
	if (word * 64 > start)
		start = word * 64;
	return find_next_zero_bit(fdt->open_fds, max, start);
}

// alloc_fd reserves the lowest free descriptor in [start, end): -EMFILE when
// there is none.
noinline int alloc_fd(unsigned int start, unsigned int end, unsigned int flags)
{
	struct files_struct *files = current->files;
	struct fdtable *fdt;
	unsigned int fd;
	int err;

	spin_lock(&files->file_lock);
	do {
		fdt = files->fdt;
		fd = max(start, files->next_fd);
		if (fd < fdt->max_fds)
			fd = find_next_fd(fdt, fd);
		err = fd >= end ? -EMFILE : expand_files(files, fd);
	} while (err > 0);
	if (!err) {
		fdt = files->fdt;
		if (start <= files->next_fd)
			files->next_fd = fd + 1;
		__set_open_fd(fd, fdt);
		if (flags & O_CLOEXEC)
			__set_bit(fd, fdt->close_on_exec);
		else
			__clear_bit(fd, fdt->close_on_exec);
		err = fd;
	}
	spin_unlock(&files->file_lock);
	return err;
}

noinline int get_unused_fd_flags(unsigned int flags)
{
	return alloc_fd(0, NR_OPEN_MAX, flags);
}

static void __put_unused_fd(struct files_struct *files, unsigned int fd)
{
	__clear_open_fd(fd, files->fdt);
	if (fd < files->next_fd)
		files->next_fd = fd;
}

void put_unused_fd(unsigned int fd)
{
	struct files_struct *files = current->files;

	spin_lock(&files->file_lock);
	__put_unused_fd(files, fd);
	spin_unlock(&files->file_lock);
}

// fd_install stores file in a reserved descriptor and takes over its reference.
noinline void fd_install(unsigned int fd, struct file *file)
{
	struct files_struct *files = current->files;

	spin_lock(&files->file_lock);
	WARN_ON(files->fdt->fd[fd]);
	rcu_assign_pointer(files->fdt->fd[fd], file);
	spin_unlock(&files->file_lock);
}

// pick_file empties a descriptor and returns its file, or NULL.
static struct file *pick_file(struct files_struct *files, unsigned int fd)
{
	struct fdtable *fdt = files->fdt;
	struct file *file = NULL;

	if (fd < fdt->max_fds && fdt->fd[fd]) {
		file = fdt->fd[fd];
		rcu_assign_pointer(fdt->fd[fd], NULL);
		__put_unused_fd(files, fd);
	}
	return file;
}

// close_fd_get_file empties a descriptor and returns its file, whose reference the
// caller takes over, or NULL.
struct file *close_fd_get_file(unsigned int fd)
{
	struct files_struct *files = current->files;
	struct file *file;

	spin_lock(&files->file_lock);
	file = pick_file(files, fd);
	spin_unlock(&files->file_lock);
	return file;
}

int close_fd(unsigned int fd)
{
	struct file *file = close_fd_get_file(fd);

	return file ? filp_close(file, current->files) : -EBADF;
}

// host_unreserve is put_unused_fd.
void host_unreserve(unsigned int fd)
{
	struct files_struct *files = current->files;

	spin_lock(&files->file_lock);
	__put_unused_fd(files, fd);
	spin_unlock(&files->file_lock);
}

// host_install makes a descriptor of a table refer to a file, whose reference it takes over. It
// returns the file that the descriptor had, NULL, or an error. Without a file it only
// reserves the descriptor.
struct file *host_install(struct files_struct *files, unsigned int fd, struct file *file)
{
	struct file *old = NULL;
	int err;

	spin_lock(&files->file_lock);
	do
		err = expand_files(files, fd);
	while (err > 0);
	if (!err) {
		old = pick_file(files, fd);
		__set_open_fd(fd, files->fdt);
		__clear_bit(fd, files->fdt->close_on_exec);
		rcu_assign_pointer(files->fdt->fd[fd], file);
	}
	spin_unlock(&files->file_lock);
	return err ? ERR_PTR(err) : old;
}

// set_close_on_exec says whether the task's next program does without a descriptor.
noinline __noclone void set_close_on_exec(unsigned int fd, int flag)
{
	struct files_struct *files = current->files;

	spin_lock(&files->file_lock);
	if (fd < files->fdt->max_fds && flag)
		__set_bit(fd, files->fdt->close_on_exec);
	else if (fd < files->fdt->max_fds)
		__clear_bit(fd, files->fdt->close_on_exec);
	spin_unlock(&files->file_lock);
}

// do_close_on_exec closes the descriptors without which a new program does.
noinline __noclone void do_close_on_exec(struct files_struct *files)
{
	unsigned int fd;

	for (fd = 0; fd < files->fdt->max_fds; fd++)
		if (test_bit(fd, files->fdt->close_on_exec) && files->fdt->fd[fd])
			host_drop(fd);
}

// host_reserve closes the descriptor that the host's kernel has opened, and reserves it. fd
// may be an error, which it returns.
int host_reserve(long fd)
{
	struct file *old;
	u64 quiet;

	if (fd < 0)
		return fd;
	quiet = current->host_call->quiet;
	WRITE_ONCE(current->host_call->quiet, 1);
	old = host_install(current->files, fd, NULL);
	if (!IS_ERR_OR_NULL(old))
		fput(old);
	WRITE_ONCE(current->host_call->quiet, quiet);
	return IS_ERR(old) ? PTR_ERR(old) : fd;
}

// __fget_files returns the file of fd with a new reference, unless its mode has a bit
// of mask.
static struct file *__fget_files(struct files_struct *files, unsigned int fd, fmode_t mask)
{
	struct fdtable *fdt;
	struct file *file;

	rcu_read_lock();
	for (;;) {
		fdt = rcu_dereference(files->fdt);
		file = fd < fdt->max_fds ? rcu_dereference(fdt->fd[fd]) : NULL;
		if (!file || file->f_mode & mask) {
			file = NULL;
			break;
		}
		// The last reference may just have been dropped, and the descriptor closed.
		if (atomic_long_inc_not_zero(&file->f_count))
			break;
	}
	rcu_read_unlock();
	return file;
}

struct file *fget(unsigned int fd)
{
	return __fget_files(current->files, fd, FMODE_PATH);
}
EXPORT_SYMBOL(fget);

noinline struct file *fget_raw(unsigned int fd)
{
	return __fget_files(current->files, fd, 0);
}
EXPORT_SYMBOL(fget_raw);

// __fget_light takes no reference if no other task can close the descriptor.
noinline unsigned long __fget_light(unsigned int fd, fmode_t mask)
{
	struct files_struct *files = current->files;
	struct file *file;

	if (atomic_read(&files->count) == 1) {
		file = fd < files->fdt->max_fds ? files->fdt->fd[fd] : NULL;
		return file && !(file->f_mode & mask) ? (unsigned long)file : 0;
	}
	file = __fget_files(files, fd, mask);
	return file ? (unsigned long)file | FDPUT_FPUT : 0;
}

unsigned long __fdget(unsigned int fd)
{
	return __fget_light(fd, FMODE_PATH);
}

unsigned long __fdget_raw(unsigned int fd)
{
	return __fget_light(fd, 0);
}

// __fdget_pos locks the file's position, too, if others may use it.
unsigned long __fdget_pos(unsigned int fd)
{
	unsigned long v = __fdget(fd);
	struct file *file = (struct file *)(v & ~3UL);

	if (file && file->f_mode & FMODE_ATOMIC_POS && file_count(file) > 1) {
		v |= FDPUT_POS_UNLOCK;
		mutex_lock(&file->f_pos_lock);
	}
	return v;
}

void __f_unlock_pos(struct file *f)
{
	mutex_unlock(&f->f_pos_lock);
}

int host_fd_install(unsigned int fd, struct file *file)
{
	int ret = fd;

	if (host_mirrors()) {
		host_unreserve(fd);
		ret = host_reserve(host_made());
	}
	if (ret < 0) {
		fput(file);
		return ret;
	}
	fd_install(ret, file);
	return ret;
}

// f_dupfd adds a descriptor for file, with a number not below from.
int f_dupfd(unsigned int from, struct file *file, unsigned int flags)
{
	int fd;

	if (from >= NR_OPEN_MAX)
		return -EINVAL;
	fd = alloc_fd(from, NR_OPEN_MAX, flags);
	if (fd < 0)
		return fd;
	get_file(file);
	return host_fd_install(fd, file);
}

SYSCALL_DEFINE1(dup, unsigned int, fildes)
{
	struct file *file = fget_raw(fildes);
	int fd;

	if (!file)
		return -EBADF;
	fd = get_unused_fd_flags(0);
	if (fd < 0) {
		fput(file);
		return fd;
	}
	return host_fd_install(fd, file);
}

// do_dup2 makes fd refer to file, too, and closes what it referred to. It unlocks the
// table.
static __noipa int do_dup2(struct files_struct *files, struct file *file, unsigned int fd, unsigned int flags)
{
	struct fdtable *fdt = files->fdt;
	struct file *old = fdt->fd[fd];

	get_file(file);
	rcu_assign_pointer(fdt->fd[fd], file);
	__set_open_fd(fd, fdt);
	if (flags & O_CLOEXEC)
		__set_bit(fd, fdt->close_on_exec);
	else
		__clear_bit(fd, fdt->close_on_exec);
	spin_unlock(&files->file_lock);
	if (old)
		filp_close(old, files);
	return fd;
}

static __noipa int ksys_dup3(unsigned int oldfd, unsigned int newfd, int flags)
{
	struct files_struct *files = current->files;
	struct file *file;
	int err;

	if (flags & ~O_CLOEXEC || oldfd == newfd)
		return -EINVAL;
	if (newfd >= NR_OPEN_MAX)
		return -EBADF;
	if (host_mirrors()) {
		err = host_made();
		if (err < 0)
			return err;
	}
	spin_lock(&files->file_lock);
	do
		err = expand_files(files, newfd);
	while (err > 0);
	file = oldfd < files->fdt->max_fds ? files->fdt->fd[oldfd] : NULL;
	if (!file)
		err = -EBADF;
	if (err) {
		spin_unlock(&files->file_lock);
		return err;
	}
	return do_dup2(files, file, newfd, flags);
}

SYSCALL_DEFINE3(dup3, unsigned int, oldfd, unsigned int, newfd, int, flags)
{
	return ksys_dup3(oldfd, newfd, flags);
}

SYSCALL_DEFINE2(dup2, unsigned int, oldfd, unsigned int, newfd)
{
	struct file *file;

	if (oldfd != newfd)
		return ksys_dup3(oldfd, newfd, 0);
	file = fget_raw(oldfd);
	if (!file)
		return -EBADF;
	fput(file);
	return oldfd;
}

static struct files_struct *new_files(void)
{
	struct files_struct *files = kzalloc(sizeof(*files), GFP_KERNEL);

	if (!files)
		return NULL;
	atomic_set(&files->count, 1);
	spin_lock_init(&files->file_lock);
	init_waitqueue_head(&files->resize_wait);
	files->fdtab.max_fds = NR_OPEN_DEFAULT;
	files->fdtab.close_on_exec = files->close_on_exec_init;
	files->fdtab.open_fds = files->open_fds_init;
	files->fdtab.full_fds_bits = files->full_fds_bits_init;
	files->fdtab.fd = &files->fd_array[0];
	files->fdt = &files->fdtab;
	return files;
}

// host_files_new makes the table of a process of the host. Its descriptors begin at
// 3.
struct files_struct *host_files_new(void)
{
	struct files_struct *files = new_files();

	if (files) {
		files->open_fds_init[0] = (1 << NR_STD) - 1;
		files->next_fd = NR_STD;
	}
	return files;
}

// host_files_used reports whether a table, which must not be changed meanwhile, has
// open files.
bool host_files_used(struct files_struct *files)
{
	struct fdtable *fdt = files->fdt;

	return find_next_bit(fdt->open_fds, fdt->max_fds, NR_STD) < fdt->max_fds;
}

// dup_fd copies a table for a new task; reserved descriptors are left out.
struct files_struct *dup_fd(struct files_struct *oldf, unsigned int max_fds, int *errorp)
{
	struct files_struct *newf = new_files();
	struct fdtable *new_fdt;
	unsigned int fd;

	*errorp = -ENOMEM;
	if (!newf)
		return NULL;
	spin_lock(&oldf->file_lock);
	while (newf->fdt->max_fds < oldf->fdt->max_fds) {
		unsigned int want = oldf->fdt->max_fds;

		spin_unlock(&oldf->file_lock);
		if (newf->fdt != &newf->fdtab)
			__free_fdtable(newf->fdt);
		new_fdt = alloc_fdtable(want - 1);
		if (!new_fdt) {
			kfree(newf);
			return NULL;
		}
		newf->fdt = new_fdt;
		spin_lock(&oldf->file_lock);
	}
	copy_fdtable(newf->fdt, oldf->fdt, oldf->fdt->max_fds);
	for_each_set_bit(fd, oldf->fdt->open_fds, oldf->fdt->max_fds) {
		if (oldf->fdt->fd[fd])
			get_file(oldf->fdt->fd[fd]);
		else
			__clear_open_fd(fd, newf->fdt);
	}
	spin_unlock(&oldf->file_lock);
	newf->next_fd = find_next_fd(newf->fdt, 0);
	*errorp = 0;
	return newf;
}

// close_files closes all files in an unused table.
static struct fdtable *close_files(struct files_struct *files)
{
	struct fdtable *fdt = files->fdt;
	unsigned int fd;

	for_each_set_bit(fd, fdt->open_fds, fdt->max_fds) {
		struct file *file = xchg(&fdt->fd[fd], NULL);

		if (file) {
			filp_close(file, files);
			cond_resched();
		}
	}
	return fdt;
}

void put_files_struct(struct files_struct *files)
{
	struct fdtable *fdt;

	if (!atomic_dec_and_test(&files->count))
		return;
	fdt = close_files(files);
	if (fdt != &files->fdtab)
		__free_fdtable(fdt);
	kfree(files);
}

void exit_files(struct task_struct *tsk)
{
	struct files_struct *files = tsk->files;

	if (!files)
		return;
	task_lock(tsk);
	tsk->files = NULL;
	task_unlock(tsk);
	put_files_struct(files);
}
