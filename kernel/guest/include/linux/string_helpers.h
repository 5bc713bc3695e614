#ifndef _LINUX_STRING_HELPERS_H
#define _LINUX_STRING_HELPERS_H

#include <linux/types.h>

enum string_size_units { STRING_UNITS_10, STRING_UNITS_2 };

#define UNESCAPE_SPACE 0x01
#define UNESCAPE_OCTAL 0x02
#define UNESCAPE_HEX 0x04
#define UNESCAPE_SPECIAL 0x08
#define UNESCAPE_ANY 0x0f

#define ESCAPE_SPACE 0x01
#define ESCAPE_SPECIAL 0x02
#define ESCAPE_NULL 0x04
#define ESCAPE_OCTAL 0x08
#define ESCAPE_ANY 0x0f
#define ESCAPE_NP 0x10
#define ESCAPE_ANY_NP 0x1f
#define ESCAPE_HEX 0x20
#define ESCAPE_NA 0x40
#define ESCAPE_NAP 0x80
#define ESCAPE_APPEND 0x100

void string_get_size(u64 size, u64 blk_size, enum string_size_units units, char *buf, int len);
int string_unescape(char *src, char *dst, size_t size, unsigned int flags);
int string_escape_mem(const char *src, size_t isz, char *dst, size_t osz, unsigned int flags, const char *only);
char **argv_split(gfp_t gfp, const char *str, int *argcp);
void argv_free(char **argv);
void string_upper(char *dst, const char *src);
void string_lower(char *dst, const char *src);

#endif
