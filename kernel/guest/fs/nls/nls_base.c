// Conversions between encodings of Unicode.
#include <linux/types.h>
#include <linux/errno.h>
#include <linux/nls.h>
#include <linux/export.h>

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
