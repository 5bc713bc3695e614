// inet_connection_sock.h: struct inet_connection_sock.
#ifndef _KPROBEFS_NET_INET_CONNECTION_SOCK_H
#define _KPROBEFS_NET_INET_CONNECTION_SOCK_H

#include <net/sock.h>

#endif
