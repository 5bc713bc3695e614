/* pid_namespace.h: there is one namespace of process ids. */
#include <linux/pid.h>
