#ifndef _LINUX_TIMECONV_H
#define _LINUX_TIMECONV_H

#include <linux/ktime.h>

time64_t mktime64(const unsigned int year, const unsigned int mon, const unsigned int day, const unsigned int hour, const unsigned int min, const unsigned int sec);
void time64_to_tm(time64_t totalsecs, int offset, struct tm *result);

#endif
