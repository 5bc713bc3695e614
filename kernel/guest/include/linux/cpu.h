#include <linux/cpumask.h>
