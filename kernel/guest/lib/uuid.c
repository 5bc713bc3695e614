// UUIDs as text: xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.
#include <linux/types.h>
#include <linux/errno.h>
#include <linux/ctype.h>
#include <linux/hex.h>
#include <linux/uuid.h>
#include <linux/export.h>

// Position of each byte's digits, and the order of bytes in guid_t.
static const u8 digits_at[UUID_SIZE] = { 0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34 };
static const u8 uuid_order[UUID_SIZE] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
static const u8 guid_order[UUID_SIZE] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };

// uuid_is_valid looks at the first 36 characters only.
bool uuid_is_valid(const char *uuid)
{
	unsigned int i;

	for (i = 0; i < UUID_STRING_LEN; i++) {
		if (i == 8 || i == 13 || i == 18 || i == 23) {
			if (uuid[i] != '-')
				return false;
		} else if (!isxdigit(uuid[i])) {
			return false;
		}
	}
	return true;
}
EXPORT_SYMBOL(uuid_is_valid);

static int parse(const char *uuid, u8 *to, const u8 *order)
{
	unsigned int i;

	if (!uuid_is_valid(uuid))
		return -EINVAL;
	for (i = 0; i < UUID_SIZE; i++) {
		const char *digits = uuid + digits_at[i];

		to[order[i]] = hex_to_bin(digits[0]) << 4 | hex_to_bin(digits[1]);
	}
	return 0;
}

int uuid_parse(const char *uuid, uuid_t *u)
{
	return parse(uuid, u->b, uuid_order);
}
EXPORT_SYMBOL(uuid_parse);

int guid_parse(const char *uuid, guid_t *u)
{
	return parse(uuid, u->b, guid_order);
}
EXPORT_SYMBOL(guid_parse);
