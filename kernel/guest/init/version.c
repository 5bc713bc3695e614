/* version.c: the text that /proc/version begins with. */
#include <linux/types.h>
const char linux_proc_banner[] = "%s version %s (kprobefs@guest) (gcc 12.2.0) %s\n";
const char linux_banner[] = "Linux version 6.1 (kprobefs guest)\n";
