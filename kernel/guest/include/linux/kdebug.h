#include <linux/notifier.h>
