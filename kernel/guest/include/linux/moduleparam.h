/*
 * moduleparam.h: parameters of modules. A module has an array of kernel_param in
 * __param; parse_args calls their set functions. Layouts are 6.1's.
 */
#ifndef _LINUX_MODULEPARAM_H
#define _LINUX_MODULEPARAM_H
#include <linux/types.h>
#include <linux/compiler.h>
struct module;
struct kernel_param;

#define KERNEL_PARAM_OPS_FL_NOARG 1	/* "name" is enough: set is called with NULL */
struct kernel_param_ops {
	unsigned int flags;
	int (*set)(const char *val, const struct kernel_param *kp);
	int (*get)(char *buffer, const struct kernel_param *kp);
	void (*free)(void *arg);
};

struct kparam_string {
	unsigned int maxlen;
	char *string;
};

struct kparam_array {
	unsigned int max, elemsize;
	unsigned int *num;
	const struct kernel_param_ops *ops;
	void *elem;
};

#define KERNEL_PARAM_FL_UNSAFE 1
struct kernel_param {
	const char *name;
	struct module *mod;
	const struct kernel_param_ops *ops;
	const u16 perm;
	s8 level;
	u8 flags;
	union {
		void *arg;
		const struct kparam_string *str;
		const struct kparam_array *arr;
	};
};
static_assert(sizeof(struct kernel_param) == 40, "struct kernel_param");

typedef int (*parse_unknown_fn)(char *param, char *val, const char *doing, void *arg);
char *parse_args(const char *doing, char *args, const struct kernel_param *params, unsigned int num,
		 s16 min_level, s16 max_level, void *arg, parse_unknown_fn unknown);
void destroy_params(const struct kernel_param *params, unsigned int num);
#endif
