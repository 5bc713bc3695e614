#include <linux/wait.h>
