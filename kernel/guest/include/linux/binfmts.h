/* binfmts.h: struct linux_binprm, the state of an execve. */
#ifndef _LINUX_BINFMTS_H
#define _LINUX_BINFMTS_H
#include <linux/mm.h>
#include <linux/fs.h>
#define BINPRM_BUF_SIZE 256
struct linux_binprm {
	struct vm_area_struct *vma;	/* of the new stack */
	unsigned long vma_pages;
#if GUEST_LINUX >= 612
	unsigned long argmin;
#endif
	struct mm_struct *mm;		/* NULL once the task has it */
	unsigned long p;		/* current top of the stack */
#if GUEST_LINUX < 612
	unsigned long argmin;		/* p must stay above */
#endif
	unsigned int have_execfd : 1, execfd_creds : 1, secureexec : 1, point_of_no_return : 1, comm_from_dentry : 1;
	struct file *executable;
	struct file *interpreter;	/* to be executed instead of file */
	struct file *file;
	struct cred *cred;
	int unsafe;
	unsigned int per_clear;
	int argc, envc;
	const char *filename;
	const char *interp;		/* what is really executed: a script's interpreter */
	const char *fdpath;
	unsigned int interp_flags;
	int execfd;
	unsigned long loader, exec;
	struct { unsigned long rlim_cur, rlim_max; } rlim_stack;
	char buf[BINPRM_BUF_SIZE];	/* the beginning of the file */
};
static_assert(offsetof(struct linux_binprm, file) == 64, "linux_binprm");
static_assert(offsetof(struct linux_binprm, filename) == 96, "linux_binprm");
static_assert(offsetof(struct linux_binprm, buf) == 160, "linux_binprm");
static_assert(sizeof(struct linux_binprm) == 416, "linux_binprm");

int begin_new_exec(struct linux_binprm *bprm);
void setup_new_exec(struct linux_binprm *bprm);
int setup_arg_pages(struct linux_binprm *bprm, unsigned long stack_top, int executable_stack);
void finalize_exec(struct linux_binprm *bprm);
void would_dump(struct linux_binprm *bprm, struct file *file);
int bprm_change_interp(const char *interp, struct linux_binprm *bprm);
int copy_string_kernel(const char *arg, struct linux_binprm *bprm);
int remove_arg_zero(struct linux_binprm *bprm);
struct file *open_exec(const char *name);
int load_elf_binary(struct linux_binprm *bprm);
int load_script(struct linux_binprm *bprm);
#endif
