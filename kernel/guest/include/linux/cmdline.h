#ifndef _LINUX_CMDLINE_H
#define _LINUX_CMDLINE_H

#include <linux/types.h>

int get_option(char **str, int *pint);
char *get_options(const char *str, int nints, int *ints);
unsigned long long memparse(const char *s, char **end);
bool parse_option_str(const char *s, const char *option);
char *next_arg(char *args, char **param, char **val);

#endif
