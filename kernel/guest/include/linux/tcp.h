// tcp.h: struct tcp_sock and struct tcphdr.
#ifndef _KPROBEFS_LINUX_TCP_H
#define _KPROBEFS_LINUX_TCP_H

#include <net/sock.h>

#endif
