/* vermagic.h: what a module must say to be loaded: the kernel and how it was built. */
#ifndef _LINUX_VERMAGIC_H
#define _LINUX_VERMAGIC_H
#ifdef MODULE_BARE
#ifdef KERNEL_6_12
#define VERMAGIC_STRING "6.12.0-kprobefs-amd64 SMP preempt mod_unload modversions "
#elif defined(KERNEL_5_10)
#define VERMAGIC_STRING "5.10.0-kprobefs-amd64 SMP mod_unload modversions "
#else
#define VERMAGIC_STRING "6.1.0-kprobefs-amd64 SMP preempt mod_unload modversions "
#endif
#else
#include <generated/vermagic.h>
#endif
#endif
