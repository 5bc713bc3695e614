// tcp_states.h: TCP_ESTABLISHED and its kin.
#ifndef _KPROBEFS_NET_TCP_STATES_H
#define _KPROBEFS_NET_TCP_STATES_H

#include <net/sock.h>

#endif
