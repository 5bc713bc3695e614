// tcp.h: struct tcp_sock.
#ifndef _KPROBEFS_NET_TCP_H
#define _KPROBEFS_NET_TCP_H

#include <net/sock.h>

#endif
