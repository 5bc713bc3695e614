// execve. Programs run on the host; the guest has only their names and arguments, and
// the memory with these.
#include <linux/binfmts.h>
#include <linux/host.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/security.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include <linux/string.h>
#include <trace/events/sched.h>

#define MAX_ARG_STRINGS 0x7fffffff
#define MAX_ARG_STRLEN (32 * PAGE_SIZE)
#define STACK_PAGES 64
#define FMODE_EXEC 0x20
#define MAX_DEPTH 5

struct user_arg_ptr {
	bool is_compat;
	const char __user *const __user *native;
};

int vma_populate(struct vm_area_struct *vma, unsigned long addr, struct page **page);
struct vm_area_struct *stack_vma(struct mm_struct *mm, unsigned long len);
void exec_mm_release(struct task_struct *tsk, struct mm_struct *mm);

// Returns argument nr, NULL after the last one, or an error.
static const char __user *get_user_arg_ptr(struct user_arg_ptr argv, int nr)
{
	const char __user *p;

	if (get_user(p, argv.native + nr))
		return ERR_PTR(-EFAULT);
	return p;
}

// count returns how many strings an array has, at most max.
static noinline int count(struct user_arg_ptr argv, int max)
{
	int i;

	if (!argv.native)
		return 0;
	for (i = 0; i < max; i++) {
		const char __user *p = get_user_arg_ptr(argv, i);

		if (!p)
			return i;
		if (IS_ERR(p))
			return -EFAULT;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return -E2BIG;
}

static noinline __noclone struct page *get_arg_page(struct linux_binprm *bprm, unsigned long pos, int write)
{
	struct page *page;

	return vma_populate(bprm->vma, pos & PAGE_MASK, &page) ? NULL : page;
}

// push_bytes copies n bytes from user or kernel memory to the stack.
static int push_bytes(struct linux_binprm *bprm, const char *from, size_t n, bool user)
{
	if (bprm->p - n < bprm->argmin)
		return -E2BIG;
	bprm->p -= n;
	for (unsigned long pos = bprm->p; n;) {
		size_t part = min_t(size_t, n, PAGE_SIZE - (pos & ~PAGE_MASK));
		struct page *page = get_arg_page(bprm, pos, 1);
		char *to;

		if (!page)
			return -E2BIG;
		to = (char *)page_address(page) + (pos & ~PAGE_MASK);
		if (!user)
			memcpy(to, from, part);
		else if (copy_from_user(to, from, part))
			return -EFAULT;
		pos += part;
		from += part;
		n -= part;
	}
	return 0;
}

// copy_strings pushes the strings of an array onto the new stack, last one first.
static noinline int copy_strings(int argc, struct user_arg_ptr argv, struct linux_binprm *bprm)
{
	while (argc-- > 0) {
		const char __user *str = get_user_arg_ptr(argv, argc);
		long len;
		int err;

		if (IS_ERR(str))
			return -EFAULT;
		len = strnlen_user(str, MAX_ARG_STRLEN);
		if (!len)
			return -EFAULT;
		if (len > (long)MAX_ARG_STRLEN)
			return -E2BIG;
		err = push_bytes(bprm, str, len, true);
		if (err)
			return err;
		cond_resched();
	}
	return 0;
}

noinline int copy_string_kernel(const char *arg, struct linux_binprm *bprm)
{
	return push_bytes(bprm, arg, strnlen(arg, MAX_ARG_STRLEN) + 1, false);
}

// remove_arg_zero removes the first argument from the stack.
int remove_arg_zero(struct linux_binprm *bprm)
{
	while (bprm->argc) {
		struct page *page = get_arg_page(bprm, bprm->p, 0);
		char c;

		if (!page)
			return -EFAULT;
		c = ((char *)page_address(page))[bprm->p++ & ~PAGE_MASK];
		if (!c) {
			bprm->argc--;
			break;
		}
	}
	return 0;
}

static noinline __noclone struct file *do_open_execat(int fd, struct filename *name, int flags)
{
	struct open_flags op = {
		.open_flag = O_LARGEFILE | O_RDONLY | FMODE_EXEC, .acc_mode = MAY_EXEC,
		.intent = LOOKUP_OPEN, .lookup_flags = LOOKUP_FOLLOW,
	};
	struct file *file = do_filp_open(fd, name, &op);

	if (IS_ERR(file) || S_ISREG(file->f_inode->i_mode))
		return file;
	fput(file);
	return ERR_PTR(-EACCES);
}

struct file *open_exec(const char *name)
{
	struct filename *filename = getname_kernel(name);
	struct file *f;

	if (IS_ERR(filename))
		return ERR_CAST(filename);
	f = do_open_execat(AT_FDCWD, filename, 0);
	putname(filename);
	return f;
}

static noinline __noclone void free_bprm(struct linux_binprm *bprm)
{
	if (bprm->mm)
		mmput(bprm->mm);
	if (bprm->cred)
		put_cred(bprm->cred);
	if (bprm->file)
		fput(bprm->file);
	if (bprm->interp != bprm->filename)
		kfree(bprm->interp);
	kfree(bprm->fdpath);
	kfree(bprm);
}

// name_bprm names the program: one that a descriptor refers to has a name below /dev/fd.
static __always_inline bool name_bprm(struct linux_binprm *bprm, int fd, const struct filename *filename)
{
	bprm->filename = bprm->interp = filename->name;
	if (fd == AT_FDCWD || filename->name[0] == '/')
		return true;
	bprm->fdpath = filename->name[0] ? kasprintf(GFP_KERNEL, "/dev/fd/%d/%s", fd, filename->name) : kasprintf(GFP_KERNEL, "/dev/fd/%d", fd);
	bprm->filename = bprm->interp = bprm->fdpath;
#if GUEST_LINUX >= 601
	bprm->comm_from_dentry = !filename->name[0];
#endif
	return bprm->fdpath;
}

// alloc_bprm returns a program with an empty stack in a new mm. Before 6.12 the file
// is not opened here but in bprm_execve.
#if GUEST_LINUX >= 612
static noinline __noclone struct linux_binprm *alloc_bprm(int fd, struct filename *filename, int flags)
{
	struct file *file = do_open_execat(fd, filename, flags);
	struct linux_binprm *bprm;

	if (IS_ERR(file))
		return ERR_CAST(file);
	bprm = kzalloc(sizeof(*bprm), GFP_KERNEL);
	if (!bprm) {
		fput(file);
		return ERR_PTR(-ENOMEM);
	}
	bprm->file = file;
#else
static noinline __noclone struct linux_binprm *alloc_bprm(int fd, struct filename *filename)
{
	struct linux_binprm *bprm = kzalloc(sizeof(*bprm), GFP_KERNEL);

	if (!bprm)
		return ERR_PTR(-ENOMEM);
#endif
	if (name_bprm(bprm, fd, filename))
		bprm->mm = mm_alloc();
	if (bprm->mm)
		bprm->vma = stack_vma(bprm->mm, STACK_PAGES * PAGE_SIZE);
	if (!bprm->vma) {
		free_bprm(bprm);
		return ERR_PTR(-ENOMEM);
	}
	bprm->p = bprm->vma->vm_end - sizeof(void *);
	bprm->argmin = bprm->vma->vm_start + PAGE_SIZE;
	return bprm;
}

int bprm_change_interp(const char *interp, struct linux_binprm *bprm)
{
	char *copy = kstrdup(interp, GFP_KERNEL);

	if (!copy)
		return -ENOMEM;
	if (bprm->interp != bprm->filename)
		kfree(bprm->interp);
	bprm->interp = copy;
	return 0;
}

// would_dump disables core dumps of programs that the user may not read.
noinline void would_dump(struct linux_binprm *bprm, struct file *file)
{
	if (inode_permission(IDMAP_OF(file->f_path.mnt) file->f_inode, MAY_READ) < 0)
		bprm->interp_flags |= 1;
}

static int exec_mmap(struct mm_struct *mm)
{
	struct task_struct *tsk = current;
	struct mm_struct *old = tsk->mm;

	exec_mm_release(tsk, old);
	task_lock(tsk);
	tsk->mm = tsk->active_mm = mm;
	mm->owner = tsk;
	task_unlock(tsk);
	if (old)
		mmput(old);
	return 0;
}

// begin_new_exec replaces the task's program. After it execve cannot fail.
int begin_new_exec(struct linux_binprm *bprm)
{
	struct task_struct *me = current;
	const char *base = strrchr(bprm->filename, '/');
	int err;

#if GUEST_LINUX >= 612
	trace_sched_prepare_exec(me, bprm);
#endif
	err = exec_mmap(bprm->mm);
	if (err)
		return err;
	bprm->point_of_no_return = 1;
	bprm->mm = NULL;
	would_dump(bprm, bprm->file);
	me->flags &= ~(PF_FORKNOEXEC | PF_NO_SETAFFINITY);
	host_close_files(false);
	if (bprm->comm_from_dentry)
		__set_task_comm(me, (const char *)bprm->file->f_path.dentry->d_name.name, true);
	else
		__set_task_comm(me, base ? base + 1 : bprm->filename, true);
	security_bprm_committing_creds(bprm);
	commit_creds(bprm->cred);
	bprm->cred = NULL;
	security_bprm_committed_creds(bprm);
	return 0;
}

void setup_new_exec(struct linux_binprm *bprm)
{
	current->thread.fsbase = 0;
	current->signal->flags &= ~SIGNAL_GROUP_EXIT;
}

int setup_arg_pages(struct linux_binprm *bprm, unsigned long stack_top, int executable_stack)
{
	struct mm_struct *mm = current->mm;

	mmap_write_lock(mm);
	mm->stack_vm = STACK_PAGES;
	mmap_write_unlock(mm);
	mm->start_stack = bprm->p;
	return 0;
}

void finalize_exec(struct linux_binprm *bprm)
{
	task_lock(current->group_leader);
	current->personality &= ~bprm->per_clear;
	task_unlock(current->group_leader);
}

static int prepare_binprm(struct linux_binprm *bprm)
{
	loff_t pos = 0;

	memset(bprm->buf, 0, sizeof(bprm->buf));
	return kernel_read(bprm->file, bprm->buf, sizeof(bprm->buf), &pos);
}

static int search_binary_handler(struct linux_binprm *bprm)
{
	static int (*const formats[])(struct linux_binprm *) = { load_script, load_elf_binary };
	int i, ret = prepare_binprm(bprm);

	if (ret < 0)
		return ret;
	ret = security_bprm_check(bprm);
	if (ret)
		return ret;
	for (i = 0, ret = -ENOEXEC; i < (int)ARRAY_SIZE(formats) && ret == -ENOEXEC; i++)
		ret = formats[i](bprm);
	return ret;
}

// exec_binprm follows scripts' interpreters up to a program.
static int exec_binprm(struct linux_binprm *bprm)
{
	pid_t old_pid = current->pid;
	int depth, ret;

	for (depth = 0;; depth++) {
		struct file *script;

		if (depth > MAX_DEPTH)
			return -ELOOP;
		ret = search_binary_handler(bprm);
		if (ret < 0)
			return ret;
		if (!bprm->interpreter) {
			trace_sched_process_exec(current, old_pid, bprm);
			return 0;
		}
		script = bprm->file;
		bprm->file = bprm->interpreter;
		bprm->interpreter = NULL;
		fput(script);
	}
}

#if GUEST_LINUX >= 612
static noinline __noclone int bprm_execve(struct linux_binprm *bprm)
#else
static noinline __noclone int bprm_execve(struct linux_binprm *bprm, int fd, struct filename *filename, int flags)
#endif
{
	int ret;

	bprm->cred = prepare_creds();
	if (!bprm->cred)
		return -ENOMEM;
#if GUEST_LINUX < 612
	bprm->file = do_open_execat(fd, filename, flags);
	if (IS_ERR(bprm->file)) {
		ret = PTR_ERR(bprm->file);
		bprm->file = NULL;
		return ret;
	}
#endif
	ret = security_bprm_creds_for_exec(bprm);
	if (!ret)
		ret = exec_binprm(bprm);
	return ret;
}

static noinline int do_execveat_common(int fd, struct filename *filename, struct user_arg_ptr argv, struct user_arg_ptr envp, int flags)
{
	struct linux_binprm *bprm;
	int ret;

	if (IS_ERR(filename))
		return PTR_ERR(filename);
#if GUEST_LINUX >= 612
	bprm = alloc_bprm(fd, filename, flags);
#else
	bprm = alloc_bprm(fd, filename);
#endif
	ret = PTR_ERR_OR_ZERO(bprm);
	if (ret)
		goto out;
	ret = bprm->argc = count(argv, MAX_ARG_STRINGS);
	if (ret < 0)
		goto free;
	ret = bprm->envc = count(envp, MAX_ARG_STRINGS);
	if (ret < 0)
		goto free;
	ret = copy_string_kernel(bprm->filename, bprm);
	if (ret)
		goto free;
	bprm->exec = bprm->p;
	ret = copy_strings(bprm->envc, envp, bprm);
	if (!ret)
		ret = copy_strings(bprm->argc, argv, bprm);
	if (!ret && !bprm->argc) { // Linux returns a program at least an empty name
		ret = copy_string_kernel("", bprm);
		bprm->argc = 1;
	}
	if (!ret)
#if GUEST_LINUX >= 612
		ret = bprm_execve(bprm);
#else
		ret = bprm_execve(bprm, fd, filename, flags);
#endif
free:
	free_bprm(bprm);
out:
	putname(filename);
	return ret;
}

SYSCALL_DEFINE3(execve, const char __user *, filename, const char __user *const __user *, argv, const char __user *const __user *, envp)
{
	struct user_arg_ptr a = { .native = argv }, e = { .native = envp };

	return do_execveat_common(AT_FDCWD, getname(filename), a, e, 0);
}

SYSCALL_DEFINE5(execveat, int, fd, const char __user *, filename, const char __user *const __user *, argv,
		const char __user *const __user *, envp, int, flags)
{
	struct user_arg_ptr a = { .native = argv }, e = { .native = envp };

	return do_execveat_common(fd, getname_flags(filename, flags & AT_EMPTY_PATH ? LOOKUP_EMPTY : 0, NULL), a, e, flags);
}
