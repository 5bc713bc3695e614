// socket.h: AF_* and SOCK_*.
#ifndef _KPROBEFS_LINUX_SOCKET_H
#define _KPROBEFS_LINUX_SOCKET_H

#include <net/sock.h>

#endif
