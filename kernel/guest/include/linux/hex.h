#ifndef _LINUX_HEX_H
#define _LINUX_HEX_H

#include <linux/types.h>

extern const char hex_asc[];
extern const char hex_asc_upper[];

int hex_to_bin(unsigned char c);
int hex2bin(u8 *dst, const char *src, size_t count);
char *bin2hex(char *dst, const void *src, size_t count);
int hex_dump_to_buffer(const void *buf, size_t len, int rowsize, int groupsize, char *linebuf, size_t linebuflen, bool ascii);

enum { DUMP_PREFIX_NONE, DUMP_PREFIX_ADDRESS, DUMP_PREFIX_OFFSET };

void print_hex_dump(const char *level, const char *prefix_str, int prefix_type, int rowsize, int groupsize, const void *buf, size_t len, bool ascii);
void print_hex_dump_bytes(const char *prefix_str, int prefix_type, const void *buf, size_t len);

#if defined(MODULE) && !defined(MODULE_BARE)
#define print_hex_dump_debug(prefix, type, row, group, buf, len, ascii) \
	dynamic_hex_dump(prefix, type, row, group, buf, len, ascii)
#endif
#endif
