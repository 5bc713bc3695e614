#ifndef _LINUX_NLS_H
#define _LINUX_NLS_H

#include <linux/types.h>

typedef u16 wchar_t;
typedef u32 unicode_t;

enum utf16_endian { UTF16_HOST_ENDIAN, UTF16_LITTLE_ENDIAN, UTF16_BIG_ENDIAN };

struct module;
// A character set: how its characters are written, and what their cases are.
struct nls_table {
	const char *charset, *alias;
	int (*uni2char)(wchar_t uni, unsigned char *out, int boundlen);
	int (*char2uni)(const unsigned char *rawstring, int boundlen, wchar_t *uni);
	const unsigned char *charset2lower, *charset2upper;
	struct module *owner;
	struct nls_table *next;
};
static_assert(sizeof(struct nls_table) == 64, "struct nls_table");

int __register_nls(struct nls_table *nls, struct module *owner);
int unregister_nls(struct nls_table *nls);
struct nls_table *load_nls(const char *charset);
void unload_nls(struct nls_table *nls);

int utf8_to_utf32(const u8 *s, int len, unicode_t *pu);
int utf32_to_utf8(unicode_t u, u8 *s, int maxlen);
int utf8s_to_utf16s(const u8 *s, int len, enum utf16_endian endian, wchar_t *pwcs, int maxlen);
int utf16s_to_utf8s(const wchar_t *pwcs, int len, enum utf16_endian endian, u8 *s, int maxlen);

#endif
