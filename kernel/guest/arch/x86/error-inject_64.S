/*
 * error-inject_64.S: a handler sets ip to this function to skip the probed one. The
 * return value is in rax, and the stack is as at the function's entry.
 */
#include <linux/linkage.h>

	.text
SYM_CODE_START just_return_func
	ret
	int3
SYM_FUNC_END just_return_func
