#ifndef _LINUX_ERRNAME_H
#define _LINUX_ERRNAME_H

// errname gives "ENOENT" for 2, "-ENOENT" for -2 and NULL for what is no errno.
const char *errname(int err);

#endif
