// Splitting a string at white space.
#include <linux/types.h>
#include <linux/ctype.h>
#include <linux/string.h>
#include <linux/slab.h>
#include <linux/string_helpers.h>
#include <linux/export.h>

static int count_argc(const char *s)
{
	bool was_space = true;
	int n = 0;

	for (; *s; s++) {
		n += was_space && !isspace(*s);
		was_space = isspace(*s);
	}
	return n;
}

// argv_split returns an array that ends with NULL, or NULL if there is no memory.
// argv[-1] is the copy that contains the words.
char **argv_split(gfp_t gfp, const char *str, int *argcp)
{
	char *copy = kstrdup(str, gfp), *at;
	int argc = copy ? count_argc(copy) : 0, i = 0;
	char **argv = copy ? kmalloc_array(argc + 2, sizeof(*argv), gfp) : NULL;
	bool was_space = true;

	if (!argv) {
		kfree(copy);
		return NULL;
	}
	*argv++ = copy;
	for (at = copy; *at; at++) {
		if (isspace(*at)) {
			was_space = true;
			*at = 0;
		} else if (was_space) {
			was_space = false;
			argv[i++] = at;
		}
	}
	argv[i] = NULL;
	if (argcp)
		*argcp = argc;
	return argv;
}
EXPORT_SYMBOL(argv_split);

void argv_free(char **argv)
{
	argv--;
	kfree(argv[0]);
	kfree(argv);
}
EXPORT_SYMBOL(argv_free);
