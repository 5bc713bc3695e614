/* kconfig.h: what a module's build includes first: CONFIG_ macros and attributes. */
#ifndef _LINUX_KCONFIG_H
#define _LINUX_KCONFIG_H
#include <generated/autoconf.h>
/* IS_ENABLED(CONFIG_X) is 1 if CONFIG_X is defined as 1, otherwise 0. */
#define __KCONFIG_TAKE_SECOND(ignored, value, ...) value
#define __KCONFIG_ARG_1 0,
#define __KCONFIG_IS(x)		___KCONFIG_IS(x)
#define ___KCONFIG_IS(value)	____KCONFIG_IS(__KCONFIG_ARG_##value)
#define ____KCONFIG_IS(arg_or_junk) __KCONFIG_TAKE_SECOND(arg_or_junk 1, 0)
#define IS_BUILTIN(option)	__KCONFIG_IS(option)
#define IS_MODULE(option)	0
#define IS_REACHABLE(option)	__KCONFIG_IS(option)
#define IS_ENABLED(option)	__KCONFIG_IS(option)
#ifndef __ASSEMBLY__
#include <linux/compiler.h>
#endif
#endif
