// Scripts: programs that begin with #! and an interpreter's name.
#include <linux/binfmts.h>
#include <linux/err.h>
#include <linux/string.h>

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

// load_script runs the interpreter named in the first line, with its name as argv[0],
// then the line's argument, if any, then the file's name.
noinline __noclone int load_script(struct linux_binprm *bprm)
{
	char *name = bprm->buf + 2, *arg, *end = bprm->buf + sizeof(bprm->buf) - 1;
	struct file *file;
	int err;

	if (bprm->buf[0] != '#' || bprm->buf[1] != '!')
		return -ENOEXEC;
	*end = 0;
	*strchrnul(name, '\n') = 0;
	for (end = name + strlen(name); end > name && blank(end[-1]); end--)
		end[-1] = 0;
	while (blank(*name))
		name++;
	if (!*name)
		return -ENOEXEC;
	for (arg = name; *arg && !blank(*arg);)
		arg++;
	while (blank(*arg))
		*arg++ = 0;
	err = remove_arg_zero(bprm);
	if (!err)
		err = copy_string_kernel(bprm->interp, bprm);
	if (!err && *arg) {
		err = copy_string_kernel(arg, bprm);
		bprm->argc++;
	}
	if (!err)
		err = copy_string_kernel(name, bprm);
	if (err)
		return err;
	bprm->argc += 2;
	err = bprm_change_interp(name, bprm);
	if (err)
		return err;
	file = open_exec(name);
	if (IS_ERR(file))
		return PTR_ERR(file);
	bprm->interpreter = file;
	return 0;
}
