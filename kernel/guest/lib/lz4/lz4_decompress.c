// LZ4's block format: sequences of literals and a copy of earlier output.
#include <linux/types.h>
#include <linux/string.h>
#include <linux/lz4.h>
#include <linux/export.h>

// A reader of the compressed bytes. bad is set if bytes are missing.
struct in {
	const u8 *at, *end;
	bool bad;
};

static u8 next(struct in *in)
{
	if (in->at == in->end) {
		in->bad = true;
		return 0;
	}
	return *in->at++;
}

// length reads the bytes that continue a length of 15.
static size_t length(struct in *in, size_t n)
{
	u8 more;

	if (n != 15)
		return n;
	do {
		more = next(in);
		n += more;
	} while (more == 255);
	return n;
}

// LZ4_decompress_safe returns the number of bytes written, or a negative number
// when the block is malformed or does not fit.
int LZ4_decompress_safe(const char *source, char *dest, int compressed_size, int max_decompressed_size)
{
	struct in in = { (const u8 *)source, (const u8 *)source + compressed_size, compressed_size <= 0 };
	u8 *out = (u8 *)dest, *end = out + max_decompressed_size;
	size_t n, offset;

	while (!in.bad) {
		u8 token = next(&in);

		n = length(&in, token >> 4);
		if (in.bad || n > (size_t)(in.end - in.at) || n > (size_t)(end - out))
			break;
		memcpy(out, in.at, n);
		in.at += n;
		out += n;
		// The last sequence is literals only.
		if (in.at == in.end)
			return out - (u8 *)dest;
		offset = next(&in);
		offset |= next(&in) << 8;
		n = length(&in, token & 15) + 4;
		if (in.bad || !offset || offset > (size_t)(out - (u8 *)dest) || n > (size_t)(end - out))
			break;
		// Byte by byte: the copy may overlap what it writes.
		for (; n; n--, out++)
			*out = out[-(long)offset];
	}
	return -(int)(in.at - (const u8 *)source) - 1;
}
EXPORT_SYMBOL(LZ4_decompress_safe);

// LZ4_compressBound returns the maximum compressed size of size bytes, 0 if they are
// too many.
int LZ4_compressBound(int size)
{
	return (unsigned int)size > 0x7e000000U ? 0 : size + size / 255 + 16;
}
