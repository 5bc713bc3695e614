/* printk.h: lines for the kernel's log. */
#ifndef _LINUX_PRINTK_H
#define _LINUX_PRINTK_H
#include <linux/types.h>
#define KERN_SOH	"\001"
#define KERN_EMERG	KERN_SOH "0"
#define KERN_ALERT	KERN_SOH "1"
#define KERN_CRIT	KERN_SOH "2"
#define KERN_ERR	KERN_SOH "3"
#define KERN_WARNING	KERN_SOH "4"
#define KERN_NOTICE	KERN_SOH "5"
#define KERN_INFO	KERN_SOH "6"
#define KERN_DEBUG	KERN_SOH "7"
#define KERN_CONT	KERN_SOH "c"
#define KERN_DEFAULT	""
int _printk(const char *fmt, ...) __printf(1, 2);
int vprintk(const char *fmt, __builtin_va_list args);
void dump_stack(void);
void dump_stack_lvl(const char *log_lvl);	/* the level is not looked at */
#define printk(fmt, ...) _printk(fmt, ##__VA_ARGS__)
#ifndef pr_fmt
#define pr_fmt(fmt) fmt
#endif
#define pr_emerg(fmt, ...) printk(KERN_EMERG pr_fmt(fmt), ##__VA_ARGS__)
#define pr_err(fmt, ...) printk(KERN_ERR pr_fmt(fmt), ##__VA_ARGS__)
#define pr_warn(fmt, ...) printk(KERN_WARNING pr_fmt(fmt), ##__VA_ARGS__)
#define pr_notice(fmt, ...) printk(KERN_NOTICE pr_fmt(fmt), ##__VA_ARGS__)
#define pr_info(fmt, ...) printk(KERN_INFO pr_fmt(fmt), ##__VA_ARGS__)
#define pr_alert(fmt, ...) printk(KERN_ALERT pr_fmt(fmt), ##__VA_ARGS__)
#define pr_crit(fmt, ...) printk(KERN_CRIT pr_fmt(fmt), ##__VA_ARGS__)
#define pr_warning pr_warn
#define pr_cont(fmt, ...) printk(KERN_CONT fmt, ##__VA_ARGS__)
/* Nothing is printed, but the arguments are checked. */
#define no_printk(fmt, ...) ({ if (0) _printk(fmt, ##__VA_ARGS__); 0; })
#if defined(MODULE) && !defined(MODULE_BARE)
#include <linux/dynamic_debug.h>
#define pr_debug(fmt, ...) dynamic_pr_debug(fmt, ##__VA_ARGS__)
#elif defined(DEBUG)
#define pr_debug(fmt, ...) printk(KERN_DEBUG pr_fmt(fmt), ##__VA_ARGS__)
#elif defined(MODULE)
#define pr_debug(fmt, ...) no_printk(KERN_DEBUG pr_fmt(fmt), ##__VA_ARGS__)
#else
#define pr_debug(fmt, ...) do { } while (0)
#endif
#ifdef DEBUG
#define pr_devel(fmt, ...) printk(KERN_DEBUG pr_fmt(fmt), ##__VA_ARGS__)
#elif defined(MODULE)
#define pr_devel(fmt, ...) no_printk(KERN_DEBUG pr_fmt(fmt), ##__VA_ARGS__)
#else
#define pr_devel pr_debug
#endif
#define printk_once(fmt, ...) ({ static bool __said; if (!__said) { __said = true; printk(fmt, ##__VA_ARGS__); } })
#define pr_err_once(fmt, ...) printk_once(KERN_ERR pr_fmt(fmt), ##__VA_ARGS__)
#define pr_warn_once(fmt, ...) printk_once(KERN_WARNING pr_fmt(fmt), ##__VA_ARGS__)
#define pr_notice_once(fmt, ...) printk_once(KERN_NOTICE pr_fmt(fmt), ##__VA_ARGS__)
#define pr_info_once(fmt, ...) printk_once(KERN_INFO pr_fmt(fmt), ##__VA_ARGS__)
#ifdef MODULE
#define FW_BUG	"[Firmware Bug]: "
#define FW_WARN	"[Firmware Warn]: "
#define FW_INFO	"[Firmware Info]: "
#define HW_ERR	"[Hardware Error]: "
#define DEPRECATED "[Deprecated]: "
#define pr_emerg_once(fmt, ...) printk_once(KERN_EMERG pr_fmt(fmt), ##__VA_ARGS__)
#define pr_alert_once(fmt, ...) printk_once(KERN_ALERT pr_fmt(fmt), ##__VA_ARGS__)
#define pr_crit_once(fmt, ...) printk_once(KERN_CRIT pr_fmt(fmt), ##__VA_ARGS__)
#ifdef DEBUG
#define pr_debug_once(fmt, ...) printk_once(KERN_DEBUG pr_fmt(fmt), ##__VA_ARGS__)
#else
#define pr_debug_once(fmt, ...) no_printk(KERN_DEBUG pr_fmt(fmt), ##__VA_ARGS__)
#endif
#define pr_devel_once pr_debug_once
#define pr_emerg_ratelimited(fmt, ...) printk_ratelimited(KERN_EMERG pr_fmt(fmt), ##__VA_ARGS__)
#define pr_alert_ratelimited(fmt, ...) printk_ratelimited(KERN_ALERT pr_fmt(fmt), ##__VA_ARGS__)
#define pr_crit_ratelimited(fmt, ...) printk_ratelimited(KERN_CRIT pr_fmt(fmt), ##__VA_ARGS__)
/* The level of a text that begins with one, else 0. */
static inline int printk_get_level(const char *text)
{
	if (text[0] != '\001' || !text[1])
		return 0;
	return (text[1] >= '0' && text[1] <= '7') || text[1] == 'c' ? text[1] : 0;
}
static inline const char *printk_skip_level(const char *text) { return printk_get_level(text) ? text + 2 : text; }
static inline const char *printk_skip_headers(const char *text)
{
	while (printk_get_level(text))
		text = printk_skip_level(text);
	return text;
}
#endif
#endif
