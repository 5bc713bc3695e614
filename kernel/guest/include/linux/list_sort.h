#include <linux/sort.h>
