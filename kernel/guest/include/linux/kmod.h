// kmod.h: programs that the kernel starts.
#ifndef _LINUX_KMOD_H
#define _LINUX_KMOD_H
#include <linux/umh.h>
#endif
