#ifndef _LINUX_STRING_H
#define _LINUX_STRING_H

#include <linux/types.h>

size_t strlen(const char *s);
size_t strnlen(const char *s, size_t count);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t count);
int strcasecmp(const char *a, const char *b);
int strncasecmp(const char *a, const char *b, size_t n);
char *strcpy(char *dest, const char *src);
char *stpcpy(char *dest, const char *src);
char *strncpy(char *dest, const char *src, size_t count);
size_t strlcpy(char *dest, const char *src, size_t size);
ssize_t strscpy(char *dest, const char *src, size_t count);
char *strcat(char *dest, const char *src);
char *strncat(char *dest, const char *src, size_t count);
size_t strlcat(char *dest, const char *src, size_t size);
char *strchr(const char *s, int c);
char *strchrnul(const char *s, int c);
char *strnchr(const char *s, size_t count, int c);
char *strnchrnul(const char *s, size_t count, int c);
char *strrchr(const char *s, int c);
size_t strspn(const char *s, const char *accept);
size_t strcspn(const char *s, const char *reject);
char *strpbrk(const char *s, const char *accept);
char *strsep(char **s, const char *delimiters);
char *strstr(const char *s, const char *what);
char *strnstr(const char *s, const char *what, size_t len);
void *memcpy(void *dest, const void *src, size_t n);
void *memmove(void *dest, const void *src, size_t n);
void *memset(void *p, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);
int bcmp(const void *a, const void *b, size_t n);
void *memscan(void *p, int c, size_t size);
void *memchr(const void *p, int c, size_t n);
void *memchr_inv(const void *p, int c, size_t n);
void *memset16(u16 *p, u16 v, size_t count);
void *memset32(u32 *p, u32 v, size_t count);
void *memset64(u64 *p, u64 v, size_t count);

// lib/string_helpers.c
char *skip_spaces(const char *s);
char *strim(char *s);
bool sysfs_streq(const char *a, const char *b);
int match_string(const char *const *array, size_t n, const char *string);
int __sysfs_match_string(const char *const *array, size_t n, const char *string);
char *strreplace(char *s, char from, char to);
void memcpy_and_pad(void *dest, size_t dest_len, const void *src, size_t count, int pad);

void *memdup_user(const void __user *src, size_t len);
void *vmemdup_user(const void __user *src, size_t len);
void *memdup_user_nul(const void __user *src, size_t len);
char *strndup_user(const char __user *s, long n);
#endif
