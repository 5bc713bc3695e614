#ifndef _LINUX_KSTRTOX_H
#define _LINUX_KSTRTOX_H

#include <linux/types.h>

#define KSTRTOX_OVERFLOW (1U << 31)

const char *_parse_integer_fixup_radix(const char *s, unsigned int *base);
unsigned int _parse_integer_limit(const char *s, unsigned int base, unsigned long long *p, size_t max_chars);
unsigned int _parse_integer(const char *s, unsigned int base, unsigned long long *p);

int kstrtoull(const char *s, unsigned int base, unsigned long long *res);
int kstrtoll(const char *s, unsigned int base, long long *res);
int _kstrtoul(const char *s, unsigned int base, unsigned long *res);
int _kstrtol(const char *s, unsigned int base, long *res);
int kstrtouint(const char *s, unsigned int base, unsigned int *res);
int kstrtoint(const char *s, unsigned int base, int *res);
int kstrtou16(const char *s, unsigned int base, u16 *res);
int kstrtos16(const char *s, unsigned int base, s16 *res);
int kstrtou8(const char *s, unsigned int base, u8 *res);
int kstrtos8(const char *s, unsigned int base, s8 *res);
int kstrtobool(const char *s, bool *res);
int kstrtobool_from_user(const char *s, size_t count, bool *res);
int kstrtoint_from_user(const char *s, size_t count, unsigned int base, int *res);
int kstrtoll_from_user(const char *s, size_t count, unsigned int base, long long *res);
int kstrtol_from_user(const char *s, size_t count, unsigned int base, long *res);
int kstrtoul_from_user(const char *s, size_t count, unsigned int base, unsigned long *res);
int kstrtouint_from_user(const char *s, size_t count, unsigned int base, unsigned int *res);
int kstrtoull_from_user(const char *s, size_t count, unsigned int base, unsigned long long *res);

unsigned long long simple_strtoull(const char *s, char **end, unsigned int base);
unsigned long simple_strtoul(const char *s, char **end, unsigned int base);
long simple_strtol(const char *s, char **end, unsigned int base);
long long simple_strtoll(const char *s, char **end, unsigned int base);

static inline int kstrtoul(const char *s, unsigned int base, unsigned long *res)
{
	return kstrtoull(s, base, (unsigned long long *)res);
}

static inline int kstrtol(const char *s, unsigned int base, long *res)
{
	return kstrtoll(s, base, (long long *)res);
}

#endif
