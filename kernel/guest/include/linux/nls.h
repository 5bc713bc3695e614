#ifndef _LINUX_NLS_H
#define _LINUX_NLS_H

#include <linux/types.h>

typedef u16 wchar_t;
typedef u32 unicode_t;

enum utf16_endian { UTF16_HOST_ENDIAN, UTF16_LITTLE_ENDIAN, UTF16_BIG_ENDIAN };

int utf8_to_utf32(const u8 *s, int len, unicode_t *pu);
int utf32_to_utf8(unicode_t u, u8 *s, int maxlen);
int utf8s_to_utf16s(const u8 *s, int len, enum utf16_endian endian, wchar_t *pwcs, int maxlen);
int utf16s_to_utf8s(const wchar_t *pwcs, int len, enum utf16_endian endian, u8 *s, int maxlen);

#endif
