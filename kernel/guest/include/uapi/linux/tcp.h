// tcp.h: struct tcphdr.
#ifndef _KPROBEFS_UAPI_LINUX_TCP_H
#define _KPROBEFS_UAPI_LINUX_TCP_H

#include <net/sock.h>

#endif
