#include <generated/version.h>
