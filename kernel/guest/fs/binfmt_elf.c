// ELF programs. Their segments are not loaded, since they run on the host: the task
// only gets the program's initial stack.
#include <linux/binfmts.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#define AT_NULL 0
#define AT_PAGESZ 6
#define AT_EXECFN 31

void start_thread(struct pt_regs *regs, unsigned long new_ip, unsigned long new_sp);

// put_strings writes pointers to n consecutive strings, and NULL.
static unsigned long __user *put_strings(unsigned long __user *sp, unsigned long *p, int n)
{
	while (n-- > 0) {
		long len;

		if (put_user(*p, sp++))
			return NULL;
		len = strnlen_user((void __user *)*p, PAGE_SIZE * 32);
		if (!len)
			return NULL;
		*p += len;
	}
	return put_user(0UL, sp++) ? NULL : sp;
}

// create_elf_tables puts argc, argv, envp and a small auxv below the strings.
static noinline int create_elf_tables(struct linux_binprm *bprm)
{
	const unsigned long auxv[] = { AT_PAGESZ, PAGE_SIZE, AT_EXECFN, bprm->exec, AT_NULL, 0 };
	struct mm_struct *mm = current->mm;
	unsigned long p = bprm->p, words = 1 + bprm->argc + 1 + bprm->envc + 1 + ARRAY_SIZE(auxv);
	unsigned long __user *sp = (unsigned long __user *)((p - words * 8) & ~15UL);

	bprm->p = (unsigned long)sp;
	if (bprm->p < bprm->argmin)
		return -E2BIG;
	if (put_user((unsigned long)bprm->argc, sp++))
		return -EFAULT;
	mm->arg_start = p;
	sp = put_strings(sp, &p, bprm->argc);
	mm->arg_end = mm->env_start = p;
	if (sp)
		sp = put_strings(sp, &p, bprm->envc);
	mm->env_end = p;
	return !sp || copy_to_user(sp, auxv, sizeof(auxv)) ? -EFAULT : 0;
}

noinline __noclone int load_elf_binary(struct linux_binprm *bprm)
{
	static const char magic[] = "\177ELF";
	unsigned long entry;
	int err;

	if (memcmp(bprm->buf, magic, 4))
		return -ENOEXEC;
	err = begin_new_exec(bprm);
	if (err)
		return err;
	setup_new_exec(bprm);
	err = setup_arg_pages(bprm, bprm->p, 0);
	if (!err)
		err = create_elf_tables(bprm);
	if (err)
		return err;
	memcpy(&entry, bprm->buf + 24, sizeof(entry)); // e_entry
	finalize_exec(bprm);
	start_thread(task_pt_regs(current), entry, bprm->p);
	return 0;
}
