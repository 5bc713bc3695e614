#ifndef _LINUX_ERRNAME_H
#define _LINUX_ERRNAME_H

// errname returns "ENOENT" for 2, "-ENOENT" for -2, and NULL for unknown numbers.
const char *errname(int err);

#endif
