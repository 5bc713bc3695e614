/*
 * kprobe_prints.c: logs pointers by printk. It can be built with Linux's headers too,
 * to compare its output.
 */
#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/printk.h>
#include <linux/err.h>
#include <linux/string.h>

/* Two functions whose sizes are the same in all builds. */
asm(".pushsection .text\n"
    "	.balign 16\n"
    ".type kprobe_prints_one, @function\n"
    "kprobe_prints_one: .rept 16\n nop\n .endr\n"
    ".size kprobe_prints_one, 16\n"
    ".type kprobe_prints_two, @function\n"
    "kprobe_prints_two: .rept 32\n nop\n .endr\n"
    ".size kprobe_prints_two, 32\n"
    ".type kprobe_prints_end, @function\n"
    "kprobe_prints_end: int3\n"
    ".size kprobe_prints_end, 1\n"
    ".popsection");
extern char kprobe_prints_one[], kprobe_prints_two[];

static char a[64], b[64];

/* Logs the form of a text, with letters instead of digits in numbers that look like
 * addresses. */
static const char *shape(char *s)
{
	static char hidden[64];
	int i;

	for (i = 0; s[i]; i++)
		hidden[i] = s[i] == '0' ? '0' : strchr("123456789abcdef", s[i]) ? 'x' : s[i];
	hidden[i] = 0;
	if (!memcmp(s, "ffffffff", 8))
		return "an address";
	return !memcmp(s, "00000000", 8) && memcmp(s + 8, "00000000", 8) ? "a hash" : hidden;
}

static int __init prints_init(void)
{
	void *one = kprobe_prints_one, *two = kprobe_prints_two, *far = (void *)0xffffc8fffffff123, *user = (void *)0x1234;

	pr_info("prints: symbols [%pS] [%ps] [%pB] [%pSR]\n", two + 3, two + 3, two, two);
	pr_info("prints: at ends [%pB] [%pS] [%pB]\n", one + 16, one + 15, one + 1);
	pr_info("prints: widths [%40pS] [%-40ps] [%10ps]\n", one, one, one);
	pr_info("prints: none [%pS] [%ps] [%pB] [%30pS]\n", far, far, far, far);
	pr_info("prints: low [%pS] [%ps] [%pS]\n", user, user, NULL);
	pr_info("prints: letters [%pSRx] [%psy7] [%pSR.] [%px.] [%pBq]\n", one, one, one, user, one + 1);
	sprintf(a, "%p", one);
	sprintf(b, "%p", one);
	pr_info("prints: %%p is %s, again %s\n", shape(a), strcmp(a, b) ? "another" : "the same");
	sprintf(b, "%pK", one);
	pr_info("prints: %%pK is %s, %s\n", shape(b), strcmp(a, b) ? "another" : "the same");
	sprintf(b, "%px", one);
	pr_info("prints: %%px is %s\n", shape(b));
	sprintf(b, "%p", two);
	pr_info("prints: another address is %s, %s\n", shape(b), strcmp(a, b) ? "another" : "the same");
	sprintf(b, "[%20p]", one);
	pr_info("prints: wide %d, the digits %s\n", (int)strlen(b), strncmp(b + 5, a, 16) ? "differ" : "are the same");
	sprintf(b, "[%-20p]", one);
	pr_info("prints: to the left %d, the digits %s\n", (int)strlen(b), strncmp(b + 1, a, 16) ? "differ" : "are the same");
	sprintf(b, "[%5p]", one);
	pr_info("prints: narrow %d\n", (int)strlen(b) > 12);
	sprintf(b, "%p", user);
	pr_info("prints: low %s\n", strcmp(b, "0000000000001234") ? "hashed" : "plain");
	pr_info("prints: nothing [%p] [%pK] [%px] [%20p] [%-20p]\n", NULL, NULL, NULL, NULL, NULL);
	sprintf(b, "%p", ERR_PTR(-14));
	pr_info("prints: an error [%s] [%px]\n", shape(b), ERR_PTR(-14));
	return 0;
}

static void __exit prints_exit(void)
{
}

module_init(prints_init);
module_exit(prints_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Prints pointers");
