// inet_sock.h: struct inet_sock.
#ifndef _KPROBEFS_NET_INET_SOCK_H
#define _KPROBEFS_NET_INET_SOCK_H

#include <net/sock.h>

#endif
