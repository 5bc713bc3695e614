// openat2.h: struct open_how.
#ifndef _KPROBEFS_UAPI_LINUX_OPENAT2_H
#define _KPROBEFS_UAPI_LINUX_OPENAT2_H

#include <linux/fs.h>

#endif
