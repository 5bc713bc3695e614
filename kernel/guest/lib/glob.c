// Shell patterns: * ? [a-z] [!a-z] and a backslash before a special character.
#include <linux/types.h>
#include <linux/glob.h>
#include <linux/export.h>

// match_class reads a class after its [. It returns the address after the ], or NULL
// if there is none (the [ is then literal).
static const char *match_class(const char *pat, u8 c, bool *match)
{
	bool inverted = *pat == '!', found = false;
	const char *at = pat + inverted;
	u8 low, high;

	do {
		low = high = *at++;
		if (!low)
			return NULL;
		if (at[0] == '-' && at[1] != ']') {
			high = at[1];
			if (!high)
				return NULL;
			at += 2;
		}
		found |= low <= c && c <= high;
	} while (*at != ']');
	*match = found != inverted;
	return at + 1;
}

// match_one matches a character with a pattern element. It returns NULL if it does
// not match.
static const char *match_one(const char *pat, u8 c)
{
	const char *next;
	bool match;

	switch (*pat) {
	case '?':
		return c ? pat + 1 : NULL;
	case '[':
		if (!c)
			return NULL;
		next = match_class(pat + 1, c, &match);
		if (next)
			return match ? next : NULL;
		return c == '[' ? pat + 1 : NULL;
	case '\\':
		return c && c == (u8)pat[1] ? pat + 2 : NULL;
	}
	return c && c == (u8)*pat ? pat + 1 : NULL;
}

// glob_match reports whether all of str matches pat. On a mismatch it goes back to
// the last * only: longer matches of an earlier one need not be tried.
bool glob_match(const char *pat, const char *str)
{
	const char *star_pat = NULL, *star_str = NULL, *next;

	for (;;) {
		if (*pat == '*') {
			if (!*++pat)
				return true;
			star_pat = pat;
			star_str = str;
			continue;
		}
		if (!*str && !*pat)
			return true;
		next = match_one(pat, *str);
		if (next) {
			pat = next;
			str++;
			continue;
		}
		if (!*str || !star_pat)
			return false;
		pat = star_pat;
		str = ++star_str;
	}
}
EXPORT_SYMBOL(glob_match);
