// Conversions between encodings of Unicode.
#include <linux/types.h>
#include <linux/errno.h>
#include <linux/nls.h>
#include <linux/export.h>
#include <linux/module.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#define UNICODE_MAX 0x10ffff

// bytes_of returns how many bytes the encoding of u takes.
static int bytes_of(unicode_t u)
{
	return u < 0x80 ? 1 : u < 0x800 ? 2 : u < 0x10000 ? 3 : 4;
}

static bool is_surrogate(unicode_t u)
{
	return (u & 0xfffff800) == 0xd800;
}

// utf8_to_utf32 reads one character and returns its length in bytes, or -1 if it is
// malformed, overlong, a surrogate or above U+10FFFF.
int utf8_to_utf32(const u8 *s, int len, unicode_t *pu)
{
	u8 first = len > 0 ? *s : 0xff;
	int n, i;
	unicode_t u;

	*pu = 0;
	if (first < 0x80) {
		*pu = first;
		return 1;
	}
	n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 0;
	if (!n || first >= 0xf8 || n > len)
		return -1;
	u = first & (0x7f >> n);
	for (i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return -1;
		u = u << 6 | (s[i] & 0x3f);
	}
	if (bytes_of(u) != n || u > UNICODE_MAX || is_surrogate(u))
		return -1;
	*pu = u;
	return n;
}
EXPORT_SYMBOL(utf8_to_utf32);

// utf32_to_utf8 writes one character and returns its length, -1 if it is invalid or
// does not fit, or 0 if s is NULL.
int utf32_to_utf8(unicode_t u, u8 *s, int maxlen)
{
	int n = bytes_of(u), i;

	if (!s)
		return 0;
	if (u > UNICODE_MAX || is_surrogate(u) || n > maxlen)
		return -1;
	for (i = n - 1; i > 0; i--, u >>= 6)
		s[i] = 0x80 | (u & 0x3f);
	s[0] = n == 1 ? u : (u8)(0xf00 >> n) | u;
	return n;
}
EXPORT_SYMBOL(utf32_to_utf8);

static wchar_t ordered(wchar_t c, enum utf16_endian endian)
{
	return endian == UTF16_BIG_ENDIAN ? (wchar_t)(c << 8 | c >> 8) : c;
}

// utf8s_to_utf16s returns the number of words written, at most maxlen, up to a
// NUL; -EINVAL for malformed text.
int utf8s_to_utf16s(const u8 *s, int len, enum utf16_endian endian, wchar_t *pwcs, int maxlen)
{
	wchar_t *out = pwcs;
	unicode_t u;
	int n;

	while (len > 0 && maxlen > 0 && *s) {
		n = utf8_to_utf32(s, len, &u);
		if (n < 0)
			return -EINVAL;
		s += n;
		len -= n;
		if (u >= 0x10000) {
			if (maxlen < 2)
				break;
			u -= 0x10000;
			*out++ = ordered(0xd800 | (u >> 10 & 0x3ff), endian);
			*out++ = ordered(0xdc00 | (u & 0x3ff), endian);
			maxlen -= 2;
		} else {
			*out++ = ordered(u, endian);
			maxlen--;
		}
	}
	return out - pwcs;
}
EXPORT_SYMBOL(utf8s_to_utf16s);

// utf16s_to_utf8s returns the number of bytes written; lone surrogates are left out.
int utf16s_to_utf8s(const wchar_t *pwcs, int len, enum utf16_endian endian, u8 *s, int maxlen)
{
	u8 *out = s;
	int n;

	for (; len > 0 && maxlen > 0; pwcs++, len--) {
		unicode_t u = ordered(*pwcs, endian), v;

		if (!u)
			break;
		if (is_surrogate(u)) {
			if (u & 0x400 || len < 2)
				continue;
			v = ordered(pwcs[1], endian);
			if ((v & 0xfc00) != 0xdc00)
				continue;
			u = 0x10000 + ((u & 0x3ff) << 10) + (v & 0x3ff);
			pwcs++;
			len--;
		}
		n = utf32_to_utf8(u, out, maxlen);
		if (n < 0)
			break;
		out += n;
		maxlen -= n;
	}
	return out - s;
}
EXPORT_SYMBOL(utf16s_to_utf8s);

static struct nls_table *tables;
static DEFINE_SPINLOCK(nls_lock);

// __register_nls adds a character set. It fails with -EBUSY if it is there.
int __register_nls(struct nls_table *nls, struct module *owner)
{
	struct nls_table *t;
	int err = nls->next ? -EBUSY : 0;

	spin_lock(&nls_lock);
	for (t = tables; t; t = t->next)
		if (t == nls)
			err = -EBUSY;
	if (!err) {
		nls->owner = owner;
		nls->next = tables;
		tables = nls;
	}
	spin_unlock(&nls_lock);
	return err;
}
EXPORT_SYMBOL(__register_nls);

// unregister_nls removes a character set. It fails with -EINVAL if it is not there.
int unregister_nls(struct nls_table *nls)
{
	struct nls_table **t;

	spin_lock(&nls_lock);
	for (t = &tables; *t; t = &(*t)->next) {
		if (*t == nls) {
			*t = nls->next;
			spin_unlock(&nls_lock);
			return 0;
		}
	}
	spin_unlock(&nls_lock);
	return -EINVAL;
}
EXPORT_SYMBOL(unregister_nls);

// load_nls returns a character set by its name or alias, or NULL. Its module stays until
// unload_nls.
struct nls_table *load_nls(const char *charset)
{
	struct nls_table *t;

	spin_lock(&nls_lock);
	for (t = tables; t; t = t->next)
		if (!strcmp(t->charset, charset) || (t->alias && !strcmp(t->alias, charset)))
			break;
	if (t && !try_module_get(t->owner))
		t = NULL;
	spin_unlock(&nls_lock);
	return t;
}
EXPORT_SYMBOL(load_nls);

void unload_nls(struct nls_table *nls)
{
	if (nls)
		module_put(nls->owner);
}
EXPORT_SYMBOL(unload_nls);
