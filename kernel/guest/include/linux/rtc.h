// rtc.h: the time of a real-time clock.
#ifndef _LINUX_RTC_H
#define _LINUX_RTC_H

struct rtc_time {
	int tm_sec, tm_min, tm_hour, tm_mday, tm_mon; // tm_mon is from 0
	int tm_year;				      // from 1900
	int tm_wday, tm_yday, tm_isdst;
};

#endif
