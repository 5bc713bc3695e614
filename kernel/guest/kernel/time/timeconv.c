// Dates and seconds since 1970, in the Gregorian calendar for all years. Years are
// counted from March, so that they end with the leap day. 400 years are 146097 days.
#include <linux/types.h>
#include <linux/timeconv.h>
#include <linux/export.h>

#define DAYS_400 146097
#define DAYS_BEFORE_1970 719468 // from 0000-03-01

static s64 floor_div(s64 a, s64 b)
{
	return a / b - (a % b < 0);
}

// days_from_civil returns the days between 1970-01-01 and a date. Months count from
// 1.
static s64 days_from_civil(s64 year, unsigned int month, unsigned int day)
{
	s64 era;
	u32 year_of_era, day_of_year;

	year -= month <= 2;
	era = floor_div(year, 400);
	year_of_era = year - era * 400;
	day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
	return era * DAYS_400 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - DAYS_BEFORE_1970;
}

// mktime64 returns the seconds since 1970; mon is from 1.
time64_t mktime64(const unsigned int year, const unsigned int mon, const unsigned int day, const unsigned int hour, const unsigned int min, const unsigned int sec)
{
	return ((days_from_civil(year, mon, day) * 24 + hour) * 60 + min) * 60 + sec;
}
EXPORT_SYMBOL(mktime64);

static void set_date(s64 days, struct tm *result)
{
	s64 era, year;
	u32 day_of_era, year_of_era, day_of_year, month;

	days += DAYS_BEFORE_1970;
	era = floor_div(days, DAYS_400);
	day_of_era = days - era * DAYS_400;
	year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	month = (5 * day_of_year + 2) / 153;
	result->tm_mday = day_of_year - (153 * month + 2) / 5 + 1;
	result->tm_mon = month < 10 ? month + 2 : month - 10;
	year = era * 400 + year_of_era + (result->tm_mon < 2);
	result->tm_year = year - 1900;
}

// time64_to_tm converts totalsecs + offset to a date.
void time64_to_tm(time64_t totalsecs, int offset, struct tm *result)
{
	s64 total = totalsecs + offset, days = floor_div(total, 86400);
	int rest = total - days * 86400;

	result->tm_hour = rest / 3600;
	result->tm_min = rest / 60 % 60;
	result->tm_sec = rest % 60;
	result->tm_wday = days + 4 - floor_div(days + 4, 7) * 7;
	set_date(days, result);
	result->tm_yday = days - days_from_civil(result->tm_year + 1900, 1, 1);
}
EXPORT_SYMBOL(time64_to_tm);
