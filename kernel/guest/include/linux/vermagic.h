/* vermagic.h: what a module must say to be loaded: the kernel and how it was built. */
#ifndef _LINUX_VERMAGIC_H
#define _LINUX_VERMAGIC_H
#ifdef MODULE_BARE
#if GUEST_LINUX >= 612
#define VERMAGIC_STRING "6.12.0-kprobefs-amd64 SMP preempt mod_unload modversions "
#elif GUEST_LINUX < 601
#define VERMAGIC_STRING "5.10.0-kprobefs-amd64 SMP mod_unload modversions "
#else
#define VERMAGIC_STRING "6.1.0-kprobefs-amd64 SMP preempt mod_unload modversions "
#endif
#else
#include <generated/vermagic.h>
#endif
#endif
