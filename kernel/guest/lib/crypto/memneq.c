// Comparing and mixing bytes in constant time.
#include <linux/types.h>
#include <linux/export.h>
#include <linux/compiler.h>
#include <crypto/hash.h>

// __crypto_memneq returns 0 if size bytes are equal.
notrace_before_6_1 unsigned long __crypto_memneq(const void *a, const void *b, size_t size)
{
	const u8 *x = a, *y = b;
	unsigned long neq = 0;

	while (size--) {
		neq |= *x++ ^ *y++;
		OPTIMIZER_HIDE_VAR(neq);
	}
	return neq;
}
EXPORT_SYMBOL(__crypto_memneq);

void __crypto_xor(u8 *dst, const u8 *a, const u8 *b, unsigned int len)
{
	for (; len >= 8; len -= 8, dst += 8, a += 8, b += 8)
		*(u64 *)dst = *(const u64 *)a ^ *(const u64 *)b;
	while (len--)
		*dst++ = *a++ ^ *b++;
}
EXPORT_SYMBOL(__crypto_xor);
