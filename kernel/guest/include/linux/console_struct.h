/* console_struct.h: struct vc_data and vc_cons, see vt_kern.h. */
#include <linux/vt_kern.h>
