// blk-mq.h: struct request.
#ifndef _KPROBEFS_LINUX_BLK_MQ_H
#define _KPROBEFS_LINUX_BLK_MQ_H

#include <linux/blkdev.h>

#endif
