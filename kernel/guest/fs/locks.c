// Locks of files: flock(2). The host's kernel has them.
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/security.h>
#include <linux/syscalls.h>

#define LOCK_SH 1
#define LOCK_EX 2
#define LOCK_UN 8
#define F_RDLCK 0
#define F_WRLCK 1
#define F_UNLCK 2
#define FL_FLOCK 2

// file_lock is a lock that is asked for.
struct file_lock {
	unsigned int fl_flags;
	unsigned char fl_type;
};

static __noipa int flock_lock_inode(struct inode *inode, struct file_lock *request)
{
	return host_made();
}

noinline __noclone int locks_lock_inode_wait(struct inode *inode, struct file_lock *fl)
{
	return flock_lock_inode(inode, fl);
}

SYSCALL_DEFINE2(flock, unsigned int, fd, unsigned int, cmd)
{
	struct file_lock fl = { .fl_flags = FL_FLOCK };
	struct fd f;
	long ret;

	if (!host_mirrors())
		return -ENOSYS;
	f = fdget(fd);
	if (!f.file)
		return -EBADF;
	fl.fl_type = cmd & LOCK_UN ? F_UNLCK : cmd & LOCK_EX ? F_WRLCK : F_RDLCK;
	ret = security_file_lock(f.file, fl.fl_type);
	if (!ret)
		ret = locks_lock_inode_wait(f.file->f_inode, &fl);
	fdput(f);
	return ret;
}
