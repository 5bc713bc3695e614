// Virtual consoles. There is one, as on each Linux that has them, without a terminal: nobody
// opens /dev/tty1 here.
#include <linux/vt_kern.h>
#include <linux/export.h>

static struct vc_data console = { .vc_num = 0, .vc_cols = 80, .vc_rows = 25 };

struct vc vc_cons[MAX_NR_CONSOLES] = { { .d = &console } };
EXPORT_SYMBOL(vc_cons);

int fg_console;
EXPORT_SYMBOL(fg_console);
