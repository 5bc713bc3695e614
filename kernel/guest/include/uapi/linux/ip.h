// ip.h: struct iphdr.
#ifndef _KPROBEFS_UAPI_LINUX_IP_H
#define _KPROBEFS_UAPI_LINUX_IP_H

#include <net/sock.h>

#endif
