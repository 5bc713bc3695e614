#ifndef _LINUX_SPRINTF_H
#define _LINUX_SPRINTF_H

#include <linux/kernel.h>

// va_format is what %pV prints.
struct va_format {
	const char *fmt;
	va_list *va;
};

int vsscanf(const char *buf, const char *fmt, va_list args);
int sscanf(const char *buf, const char *fmt, ...);
int num_to_str(char *buf, int size, unsigned long long num, unsigned int width);

int vbin_printf(u32 *bin_buf, size_t size, const char *fmt, va_list args);
int bprintf(u32 *bin_buf, size_t size, const char *fmt, ...);
int bstr_printf(char *buf, size_t size, const char *fmt, const u32 *bin_buf);

#endif
