/*
 * error-inject_64.S: where a handler sends a function that is not to run:
 * its return value is in rax already, the stack is as at its entry.
 */
#include <linux/linkage.h>

	.text
SYM_CODE_START just_return_func
	ret
	int3
SYM_FUNC_END just_return_func
