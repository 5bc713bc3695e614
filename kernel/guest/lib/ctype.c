// The class of each Latin-1 character, as linux/ctype.h's macros read it.
#include <linux/types.h>
#include <linux/export.h>
#include <linux/ctype.h>

#define UP _U
#define LO _L
#define UX (_U | _X)
#define LX (_L | _X)
#define SP (_S | _SP)
#define CS (_C | _S)

const unsigned char _ctype[256] = {
	[0 ... 8] = _C, [9 ... 13] = CS, [14 ... 31] = _C,
	[' '] = SP,
	['!' ... '/'] = _P, ['0' ... '9'] = _D, [':' ... '@'] = _P,
	['A' ... 'F'] = UX, ['G' ... 'Z'] = UP, ['[' ... '`'] = _P,
	['a' ... 'f'] = LX, ['g' ... 'z'] = LO, ['{' ... '~'] = _P,
	[127] = _C,
	[160] = SP, [161 ... 191] = _P,
	[192 ... 214] = UP, [215] = _P, [216 ... 222] = UP,
	[223 ... 246] = LO, [247] = _P, [248 ... 255] = LO,
};
EXPORT_SYMBOL(_ctype);
