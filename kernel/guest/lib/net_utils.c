// Ethernet addresses as text.
#include <linux/types.h>
#include <linux/ctype.h>
#include <linux/string.h>
#include <linux/hex.h>
#include <linux/inet.h>
#include <linux/export.h>

// mac_pton reads xx:xx:xx:xx:xx:xx. It does not change mac if s is not an address.
bool mac_pton(const char *s, u8 *mac)
{
	int i;

	if (strnlen(s, 17) < 17)
		return false;
	for (i = 0; i < 6; i++) {
		if (!isxdigit(s[3 * i]) || !isxdigit(s[3 * i + 1]))
			return false;
		if (i < 5 && s[3 * i + 2] != ':')
			return false;
	}
	for (i = 0; i < 6; i++)
		mac[i] = hex_to_bin(s[3 * i]) << 4 | hex_to_bin(s[3 * i + 1]);
	return true;
}
EXPORT_SYMBOL(mac_pton);
