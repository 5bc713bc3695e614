#include <linux/spinlock.h>
