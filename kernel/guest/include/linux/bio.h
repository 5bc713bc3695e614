// bio.h: struct bio.
#ifndef _KPROBEFS_LINUX_BIO_H
#define _KPROBEFS_LINUX_BIO_H

#include <linux/blkdev.h>

#endif
