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

/* key=value in .modinfo. */
#ifdef MODULE
#define __MODINFO_AT(n, word) \
	static const char __modinfo_##n[] __used __section(".modinfo") __aligned(1) = word
#define __MODINFO(n, word)	__MODINFO_AT(n, word)
#define MODULE_INFO(key, value)	__MODINFO(__COUNTER__, #key "=" value)
#else
#define MODULE_INFO(key, value)	struct module
#endif
#define MODULE_PARM_DESC(name, text) MODULE_INFO(parm, #name ":" text)
#define __MODULE_PARM_TYPE(name, type) MODULE_INFO(parmtype, #name ":" type)

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

#ifdef MODULE
/*
 * Permissions of files in sysfs: nobody but root may write, and a class of users may
 * read what the next one may read.
 */
#define VERIFY_OCTAL_PERMISSIONS(perm) \
	(sizeof(struct { \
		static_assert((perm) >= 0 && (perm) <= 0777, "permissions"); \
		static_assert((((perm) >> 6) & 4) >= (((perm) >> 3) & 4) && (((perm) >> 3) & 4) >= ((perm) & 4), "permissions"); \
		static_assert(!((perm) & 2), "permissions: others may write"); \
		int one; }) ? (perm) : 0)

#define __module_param(param, val_ops, perms, lvl, fl, which, value) \
	static const char __param_str_##param[] = #param; \
	static const struct kernel_param __param_##param __used __section("__param") __aligned(8) = { \
		__param_str_##param, &__this_module, val_ops, VERIFY_OCTAL_PERMISSIONS(perms), lvl, fl, { .which = value } }
extern struct module __this_module;

#define module_param_cb(param, val_ops, ptr, perms) \
	__module_param(param, val_ops, perms, -1, 0, arg, ptr)
#define module_param_cb_unsafe(param, val_ops, ptr, perms) \
	__module_param(param, val_ops, perms, -1, KERNEL_PARAM_FL_UNSAFE, arg, ptr)
#define module_param_named(param, value, type, perms) \
	static inline __maybe_unused void *__check_##param(void) { return __param_check_##type(&(value)); } \
	module_param_cb(param, &param_ops_##type, &value, perms); \
	__MODULE_PARM_TYPE(param, #type)
#define module_param_named_unsafe(param, value, type, perms) \
	module_param_cb_unsafe(param, &param_ops_##type, &value, perms); \
	__MODULE_PARM_TYPE(param, #type)
#define module_param(param, type, perms)	module_param_named(param, param, type, perms)
#define module_param_unsafe(param, type, perms)	module_param_named_unsafe(param, param, type, perms)
#define module_param_string(param, text, len, perms) \
	static const struct kparam_string __param_string_##param = { len, text }; \
	__module_param(param, &param_ops_string, perms, -1, 0, str, &__param_string_##param); \
	__MODULE_PARM_TYPE(param, "string")
#define module_param_array_named(param, array, type, nump, perms) \
	static const struct kparam_array __param_arr_##param = { \
		sizeof(array) / sizeof((array)[0]), sizeof((array)[0]), nump, &param_ops_##type, array }; \
	__module_param(param, &param_array_ops, perms, -1, 0, arr, &__param_arr_##param); \
	__MODULE_PARM_TYPE(param, "array of " #type)
#define module_param_array(param, type, nump, perms) module_param_array_named(param, param, type, nump, perms)

/* The variable's type must be the parameter's. */
#define __PARAM_CHECK(type, ctype) \
	static inline ctype *__param_check_##type(ctype *p) { return p; }
typedef char *__param_charp;
__PARAM_CHECK(byte, unsigned char)
__PARAM_CHECK(short, short)
__PARAM_CHECK(ushort, unsigned short)
__PARAM_CHECK(int, int)
__PARAM_CHECK(uint, unsigned int)
__PARAM_CHECK(long, long)
__PARAM_CHECK(ulong, unsigned long)
__PARAM_CHECK(ullong, unsigned long long)
__PARAM_CHECK(hexint, unsigned int)
__PARAM_CHECK(charp, __param_charp)
__PARAM_CHECK(bool, bool)
__PARAM_CHECK(bool_enable_only, bool)
__PARAM_CHECK(invbool, bool)
__PARAM_CHECK(bint, int)
#endif

#define __DECLARE_PARAM(type) \
	extern const struct kernel_param_ops param_ops_##type; \
	int param_set_##type(const char *val, const struct kernel_param *kp); \
	int param_get_##type(char *buffer, const struct kernel_param *kp)
__DECLARE_PARAM(byte);
__DECLARE_PARAM(short);
__DECLARE_PARAM(ushort);
__DECLARE_PARAM(int);
__DECLARE_PARAM(uint);
__DECLARE_PARAM(long);
__DECLARE_PARAM(ulong);
__DECLARE_PARAM(ullong);
__DECLARE_PARAM(hexint);
__DECLARE_PARAM(charp);
__DECLARE_PARAM(bool);
__DECLARE_PARAM(invbool);
extern const struct kernel_param_ops param_ops_bool_enable_only, param_ops_bint, param_ops_string, param_array_ops;
int param_set_bool_enable_only(const char *val, const struct kernel_param *kp);
int param_set_bint(const char *val, const struct kernel_param *kp);
int param_set_copystring(const char *val, const struct kernel_param *kp);
int param_get_string(char *buffer, const struct kernel_param *kp);
void param_free_charp(void *arg);
int param_set_uint_minmax(const char *val, const struct kernel_param *kp, unsigned int min, unsigned int max);

typedef int (*parse_unknown_fn)(char *param, char *val, const char *doing, void *arg);
char *parse_args(const char *doing, char *args, const struct kernel_param *params, unsigned int num,
		 s16 min_level, s16 max_level, void *arg, parse_unknown_fn unknown);
/* Serialize changes of a module's parameters. Their functions may sleep. */
void kernel_param_lock(struct module *mod);
void kernel_param_unlock(struct module *mod);
void destroy_params(const struct kernel_param *params, unsigned int num);
#endif
