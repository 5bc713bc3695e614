/* uio.h: iovec and iov_iter, which fs.h has. */
#ifndef _LINUX_UIO_H
#define _LINUX_UIO_H
#include <linux/fs.h>
#endif
