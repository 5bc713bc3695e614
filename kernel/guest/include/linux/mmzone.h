// mmzone.h: zones are not apart here.
#ifndef _KPROBEFS_LINUX_MMZONE_H
#define _KPROBEFS_LINUX_MMZONE_H

#include <linux/mm.h>

#endif
