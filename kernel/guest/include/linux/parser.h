// parser.h: words of options, matched against patterns.
#ifndef _LINUX_PARSER_H
#define _LINUX_PARSER_H

#include <linux/types.h>

typedef struct {
	char *from, *to;
} substring_t;

#define MAX_OPT_ARGS 3

struct match_token {
	int token;
	const char *pattern; // NULL ends a table, and matches everything
};

int match_token(char *s, const struct match_token *table, substring_t args[]);
int match_int(substring_t *s, int *result);
int match_u64(substring_t *s, u64 *result);
int match_octal(substring_t *s, int *result);
int match_hex(substring_t *s, int *result);
size_t match_strlcpy(char *dest, const substring_t *src, size_t size);
char *match_strdup(const substring_t *s);
bool match_wildcard(const char *pattern, const char *str);

#endif
