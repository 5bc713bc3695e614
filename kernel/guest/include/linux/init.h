/* init.h: text and data for boot only, and the order of initcalls. */
#ifndef _LINUX_INIT_H
#define _LINUX_INIT_H
#include <linux/types.h>
#ifdef MODULE
#define __init		__section(".init.text") __cold
#else
#define __init		__section(".init.text") __cold notrace
#endif
#define __initdata	__section(".init.data")
#define __ref
#define __ro_after_init	__section(".data..ro_after_init")
#define __read_mostly	__section(".data..read_mostly")
typedef int (*initcall_t)(void);
#define __define_initcall(fn, id) \
	static initcall_t __used __initcall_##fn __section(".initcall" #id ".init") = fn
#define early_initcall(fn)	__define_initcall(fn, 0)
#define core_initcall(fn)	__define_initcall(fn, 1)
#define postcore_initcall(fn)	__define_initcall(fn, 2)
#define arch_initcall(fn)	__define_initcall(fn, 3)
#define subsys_initcall(fn)	__define_initcall(fn, 4)
#define fs_initcall(fn)		__define_initcall(fn, 5)
#define device_initcall(fn)	__define_initcall(fn, 6)
#define late_initcall(fn)	__define_initcall(fn, 7)
#define module_init(fn)		device_initcall(fn)
#define __initcall(fn)		device_initcall(fn)
#endif
