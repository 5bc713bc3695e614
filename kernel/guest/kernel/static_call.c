/* static_call.c: the table of calls through trampolines. */
#include <linux/kernel.h>
#include <linux/static_call.h>
#include <linux/kprobes.h>
#include <linux/mutex.h>
#include <asm/host.h>

extern struct static_call_site __start_static_call_sites[], __stop_static_call_sites[];
static int nr_static_calls;

long __static_call_return0(void)
{
	return 0;
}
EXPORT_SYMBOL_GPL(__static_call_return0);

static unsigned long static_call_addr(struct static_call_site *site)
{
	return (unsigned long)&site->addr + site->addr;
}

int static_call_text_reserved(void *start, void *end)
{
	struct static_call_site *s;

	for (s = __start_static_call_sites; s < __stop_static_call_sites; s++)
		if (static_call_addr(s) <= (unsigned long)end && static_call_addr(s) + 5 > (unsigned long)start)
			return 1;
	return 0;
}

void __init static_call_init(void)
{
	struct static_call_site *s;

	for (s = __start_static_call_sites; s < __stop_static_call_sites; s++, nr_static_calls++)
		BUG_ON(*(u8 *)static_call_addr(s) != 0xe8);
}

static DEFINE_MUTEX(static_call_mutex);

/* Directs the static call to func. tramp is its trampoline, or NULL. */
void __static_call_update(struct static_call_key *key, void *tramp, void *func)
{
	mutex_lock(&static_call_mutex);
	if (key->func != func) {
		WRITE_ONCE(key->func, func);
		WARN_ON(probe_request(CALL_UPDATE, key, (u64)tramp));
	}
	mutex_unlock(&static_call_mutex);
}
EXPORT_SYMBOL_GPL(__static_call_update);
