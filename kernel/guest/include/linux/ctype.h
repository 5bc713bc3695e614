#ifndef _LINUX_CTYPE_H
#define _LINUX_CTYPE_H

// Character classes of _ctype[].
#define _U 0x01 // upper
#define _L 0x02 // lower
#define _D 0x04 // digit
#define _C 0x08 // control
#define _P 0x10 // punctuation
#define _S 0x20 // white space
#define _X 0x40 // hexadecimal letter
#define _SP 0x80 // hard space (0x20, 0xa0)

extern const unsigned char _ctype[256];

#define __ismask(c) (_ctype[(unsigned char)(c)])
#define isalnum(c) ((__ismask(c) & (_U | _L | _D)) != 0)
#define isalpha(c) ((__ismask(c) & (_U | _L)) != 0)
#define iscntrl(c) ((__ismask(c) & _C) != 0)
#define isgraph(c) ((__ismask(c) & (_P | _U | _L | _D)) != 0)
#define islower(c) ((__ismask(c) & _L) != 0)
#define isprint(c) ((__ismask(c) & (_P | _U | _L | _D | _SP)) != 0)
#define ispunct(c) ((__ismask(c) & _P) != 0)
#define isspace(c) ((__ismask(c) & _S) != 0)
#define isupper(c) ((__ismask(c) & _U) != 0)
#define isxdigit(c) ((__ismask(c) & (_D | _X)) != 0)
#define isascii(c) (((unsigned char)(c)) <= 0x7f)

static inline int isdigit(int c)
{
	return '0' <= c && c <= '9';
}

static inline unsigned char tolower(unsigned char c)
{
	return isupper(c) ? c + 32 : c;
}

static inline unsigned char toupper(unsigned char c)
{
	return islower(c) ? c - 32 : c;
}

#endif
