// SPDX-License-Identifier: MIT
/* scans reads texts with sscanf, and prints arguments that were stored by bprintf. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/string.h>

static char a[16], b[16];
static long n[3];

/* No attribute says that this is a format, so that the compiler does not check it. */
static noinline void words(const char *text, const char *fmt, ...)
{
	va_list args;
	int done;

	memset(a, '#', sizeof(a));
	memset(b, '#', sizeof(b));
	va_start(args, fmt);
	done = vsscanf(text, fmt, args);
	va_end(args);
	pr_info("%s <- %s: %d %*pE %*pE\n", fmt, text, done, 8, a, 8, b);
}

static noinline void numbers(const char *text, const char *fmt)
{
	int done;

	memset(n, 0x55, sizeof(n));
	done = sscanf(text, fmt, &n[0], &n[1], &n[2]);
	pr_info("%s <- %s: %d %lx %lx %lx\n", fmt, text, done, n[0], n[1], n[2]);
}

static void scans_words(void)
{
	words("abc def", "%s %s", a, b);
	words("  abcdef", "%3s%s", a, b);
	words("abc", "%s %s", a, b);
	words("", "%s", a);
	words("abc", "%c%c", a, b);
	words(" abc", "%2c%c", a, b);
	words("a", "%3c", a);
	words("abc-def", "%4[a-c]%s", a, b);
	words("abc-def", "%9[abc-]%s", a, b);
	words("abc-def", "%9[^-]%s", a, b);
	words("abc-def", "%[abc]", a);
	words("abc-def", "%2[abc]%s", a, b);
	words("xbc", "%9[abc]", a);
	words("abc", "%9[]", a);
	words("abc", "%9[abc", a);
	words("abc]d", "%9[]abc]%s", a, b);
	words("a b c", "%*s %s", a);
	words("12 b c", "%*d%s", a);
	words("abc def", "%*[abc] %s", a);
	words("abc def", "%*3s%s", a);
	words("a%b", "a%%%s", a);
	words("x: y", "x:%s", a);
	words("x y", "x:%s", a);
	words("x  y", "x y%n", (int *)a);
	words("abc", "%0s", a);
	words("abc", "%hs", a);
	words("abc", "%q", a);
	words("abc", "%", a);
	words("abc", "%s%n", a, (int *)b);
}

static void scans_numbers(void)
{
	numbers("12 -34 0x1f", "%d %d %i");
	numbers("12 -34 0x1f", "%u %u");
	numbers("12,34", "%d,%d");
	numbers("12 , 34", "%d,%d");
	numbers("1234567", "%2d%3d%d");
	numbers("-1234", "%2d%d");
	numbers("-1234", "%1d%d");
	numbers("0x1f 1f 1F", "%x %X %x");
	numbers("017 17 8", "%o %i %o");
	numbers("017 0x 08", "%i %i %i");
	numbers("300 70000 5", "%hhd %hd %hhu");
	numbers("-1 -1 -1", "%hhd %hd %ld");
	numbers("99999999999 1 2", "%d %lld %Ld");
	numbers("99999999999999999999999 1", "%lld %zd");
	numbers("1 2 3", "%zu %ld %lx");
	numbers("g", "%x");
	numbers("-", "%d");
	numbers("+5", "%d");
	numbers(" 7", "%d");
	numbers("7 ", "%d %n");
	numbers("5%6", "%d%%%d");
	numbers("5 %6", "%d%%%d");
	numbers("0x1fz", "%4x%x");
	numbers("0x12345", "%3x%x");
	numbers("077", "%2i%d");
	numbers("1", "%td");
	numbers("", "%n");
}

static void stored(void)
{
	static u32 bin[64], few[4];
	static char buf[200];
	int words, i, done;

	memset(bin, 0x11, sizeof(bin));
	words = bprintf(bin, ARRAY_SIZE(bin), "%d %s %lld %c %hd %*d %.*s %pI4 %hhx %%", -5, "text", 1LL << 40, 'x', 300, 5, 42, 2, "abc", "\1\2\3\4", 0x1ff);
	pr_info("words: %d\n", words);
	done = bstr_printf(buf, sizeof(buf), "%d %s %lld %c %hd %*d %.*s %pI4 %hhx %%", bin);
	pr_info("%d %s\n", done, buf);
	done = bstr_printf(buf, 8, "%d %s %lld", bin);
	pr_info("%d %s\n", done, buf);
	for (i = 0; i < 6; i++)
		pr_info("bin[%d] %08x\n", i, bin[i]);
	pr_info("too few: %d\n", bprintf(few, ARRAY_SIZE(few), "%lld %lld %lld %d", 1LL, 2LL, 3LL, 4));
	pr_info("%x %x %x %x\n", few[0], few[1], few[2], few[3]);
	words = bprintf(bin, ARRAY_SIZE(bin), "%s %s %pV", NULL, (void *)5, NULL);
	done = bstr_printf(buf, sizeof(buf), "%s %s %pV", bin);
	pr_info("%d %d %s\n", words, done, buf);
	words = bprintf(bin, ARRAY_SIZE(bin), "%px %pe %*ph %pUb %-8d|", (void *)0x1234, ERR_PTR(-EIO), 3, "abc", "0123456789abcdef", 7);
	done = bstr_printf(buf, sizeof(buf), "%px %pe %*ph %pUb %-8d|", bin);
	pr_info("%d %d %s\n", words, done, buf);
}

static int __init scans_init(void)
{
	scans_words();
	scans_numbers();
	stored();
	return 0;
}

static void __exit scans_exit(void)
{
}

module_init(scans_init);
module_exit(scans_exit);
MODULE_LICENSE("Dual MIT/GPL");
