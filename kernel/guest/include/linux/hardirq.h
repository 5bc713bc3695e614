#include <linux/interrupt.h>
