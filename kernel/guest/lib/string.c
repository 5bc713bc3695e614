// String and memory functions of the C library and the kernel (strscpy, strsep,
// memchr_inv, ...). All are notrace, as in Linux's lib/*.c, since the tracer uses
// them.
#include <linux/types.h>
#include <linux/errno.h>
#include <linux/ctype.h>
#include <linux/string.h>
#include <linux/export.h>

// The compiler must not replace these loops by calls of the same functions.
#pragma GCC optimize("no-tree-loop-distribute-patterns")

noinline size_t strlen(const char *s)
{
	const char *end = s;

	while (*end)
		end++;
	return end - s;
}

size_t strnlen(const char *s, size_t count)
{
	size_t n = 0;

	while (n < count && s[n])
		n++;
	return n;
}

// strcmp and strncmp return exactly -1, 0 or 1, by unsigned characters.
static int order(unsigned char a, unsigned char b)
{
	return a < b ? -1 : a > b;
}

int strcmp(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return order(*a, *b);
}

int strncmp(const char *a, const char *b, size_t count)
{
	for (; count; a++, b++, count--) {
		if (*a != *b || !*a)
			return order(*a, *b);
	}
	return 0;
}

int strcasecmp(const char *a, const char *b)
{
	int x, y;

	do {
		x = tolower(*a++);
		y = tolower(*b++);
	} while (x && x == y);
	return x - y;
}
EXPORT_SYMBOL(strcasecmp);

int strncasecmp(const char *a, const char *b, size_t n)
{
	int x = 0, y = 0;

	while (n--) {
		x = tolower(*a++);
		y = tolower(*b++);
		if (!x || x != y)
			break;
	}
	return x - y;
}
EXPORT_SYMBOL(strncasecmp);

char *strcpy(char *dest, const char *src)
{
	stpcpy(dest, src);
	return dest;
}

// stpcpy returns the address of the NUL that it wrote.
char *stpcpy(char *dest, const char *src)
{
	while ((*dest = *src++))
		dest++;
	return dest;
}
EXPORT_SYMBOL(stpcpy);

// strncpy fills the rest of count bytes with NULs.
char *strncpy(char *dest, const char *src, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		dest[i] = *src;
		if (*src)
			src++;
	}
	return dest;
}
EXPORT_SYMBOL(strncpy);

// strlcpy returns the source's length, even if it did not fit.
size_t strlcpy(char *dest, const char *src, size_t size)
{
	size_t len = strlen(src);
	size_t n;

	if (!size)
		return len;
	n = len < size ? len : size - 1;
	memcpy(dest, src, n);
	dest[n] = 0;
	return len;
}
EXPORT_SYMBOL(strlcpy);

// strscpy returns the number of characters copied, or -E2BIG if it had to truncate.
// The result always ends with a NUL.
ssize_t strscpy(char *dest, const char *src, size_t count)
{
	size_t i;

	if (!count || count > (size_t)0x7fffffff)
		return -E2BIG;
	for (i = 0; i < count; i++) {
		dest[i] = src[i];
		if (!src[i])
			return i;
	}
	dest[count - 1] = 0;
	return -E2BIG;
}

char *strcat(char *dest, const char *src)
{
	strcpy(dest + strlen(dest), src);
	return dest;
}
EXPORT_SYMBOL(strcat);

char *strncat(char *dest, const char *src, size_t count)
{
	char *end = dest + strlen(dest);

	while (count-- && *src)
		*end++ = *src++;
	*end = 0;
	return dest;
}
EXPORT_SYMBOL(strncat);

// strlcat returns the length that it tried to create. dest must be terminated within
// size.
size_t strlcat(char *dest, const char *src, size_t size)
{
	size_t have = strlen(dest);
	size_t more = strlen(src);
	size_t n = more;

	if (have + n >= size)
		n = size - have - 1;
	memcpy(dest + have, src, n);
	dest[have + n] = 0;
	return have + more;
}
EXPORT_SYMBOL(strlcat);

char *strchr(const char *s, int c)
{
	for (; *s != (char)c; s++) {
		if (!*s)
			return NULL;
	}
	return (char *)s;
}

char *strchrnul(const char *s, int c)
{
	while (*s && *s != (char)c)
		s++;
	return (char *)s;
}
EXPORT_SYMBOL(strchrnul);

char *strnchr(const char *s, size_t count, int c)
{
	for (; count; s++, count--) {
		if (*s == (char)c)
			return (char *)s;
		if (!*s)
			break;
	}
	return NULL;
}
EXPORT_SYMBOL(strnchr);

char *strnchrnul(const char *s, size_t count, int c)
{
	while (count-- && *s && *s != (char)c)
		s++;
	return (char *)s;
}

char *strrchr(const char *s, int c)
{
	const char *last = NULL;

	do {
		if (*s == (char)c)
			last = s;
	} while (*s++);
	return (char *)last;
}
EXPORT_SYMBOL(strrchr);

size_t strspn(const char *s, const char *accept)
{
	size_t n = 0;

	while (s[n] && strchr(accept, s[n]))
		n++;
	return n;
}
EXPORT_SYMBOL(strspn);

size_t strcspn(const char *s, const char *reject)
{
	size_t n = 0;

	while (s[n] && !strchr(reject, s[n]))
		n++;
	return n;
}
EXPORT_SYMBOL(strcspn);

char *strpbrk(const char *s, const char *accept)
{
	s += strcspn(s, accept);
	return *s ? (char *)s : NULL;
}
EXPORT_SYMBOL(strpbrk);

// strsep returns the next token of *s. Tokens may be empty.
char *strsep(char **s, const char *delimiters)
{
	char *token = *s;
	char *end;

	if (!token)
		return NULL;
	end = strpbrk(token, delimiters);
	if (end)
		*end++ = 0;
	*s = end;
	return token;
}
EXPORT_SYMBOL(strsep);

char *strstr(const char *s, const char *what)
{
	size_t n = strlen(what);
	size_t left = strlen(s);

	if (!n)
		return (char *)s;
	for (; left >= n; s++, left--) {
		if (!memcmp(s, what, n))
			return (char *)s;
	}
	return NULL;
}

char *strnstr(const char *s, const char *what, size_t len)
{
	size_t n = strlen(what);

	if (!n)
		return (char *)s;
	for (; len >= n; s++, len--) {
		if (!memcmp(s, what, n))
			return (char *)s;
	}
	return NULL;
}
EXPORT_SYMBOL(strnstr);

noinline int memcmp(const void *a, const void *b, size_t count)
{
	const unsigned char *x = a, *y = b;

	for (; count; x++, y++, count--) {
		if (*x != *y)
			return *x - *y;
	}
	return 0;
}

int bcmp(const void *a, const void *b, size_t count)
{
	return memcmp(a, b, count);
}
EXPORT_SYMBOL(bcmp);

// memscan returns the first byte that is c, or the end.
void *memscan(void *p, int c, size_t size)
{
	unsigned char *s = p;

	while (size && *s != (unsigned char)c)
		s++, size--;
	return s;
}
EXPORT_SYMBOL(memscan);

void *memchr(const void *p, int c, size_t n)
{
	const unsigned char *s = p;

	for (; n; s++, n--) {
		if (*s == (unsigned char)c)
			return (void *)s;
	}
	return NULL;
}
EXPORT_SYMBOL(memchr);

static void *first_other(const u8 *s, u8 c, size_t n)
{
	for (; n; s++, n--) {
		if (*s != c)
			return (void *)s;
	}
	return NULL;
}

// memchr_inv returns the first byte that is not c, or NULL. It goes by words.
void *memchr_inv(const void *p, int c, size_t n)
{
	const u8 *s = p;
	u64 word = (u8)c * 0x0101010101010101ULL;
	size_t head = -(unsigned long)s & 7;
	void *found;

	if (head > n)
		head = n;
	found = first_other(s, c, head);
	if (found)
		return found;
	for (s += head, n -= head; n >= 8 && *(const u64 *)s == word; n -= 8)
		s += 8;
	return first_other(s, c, n);
}
EXPORT_SYMBOL(memchr_inv);

void *memset16(u16 *p, u16 v, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		p[i] = v;
	return p;
}

void *memset32(u32 *p, u32 v, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		p[i] = v;
	return p;
}

void *memset64(u64 *p, u64 v, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		p[i] = v;
	return p;
}

EXPORT_SYMBOL(strlen);
EXPORT_SYMBOL(strnlen);
EXPORT_SYMBOL(strcmp);
EXPORT_SYMBOL(strncmp);
EXPORT_SYMBOL(strchr);
EXPORT_SYMBOL(strstr);
EXPORT_SYMBOL(strcpy);
EXPORT_SYMBOL(strscpy);
EXPORT_SYMBOL(memcmp);
