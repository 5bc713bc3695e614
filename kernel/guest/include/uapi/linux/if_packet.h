// if_packet.h: kinds of packets (skb->pkt_type).
#ifndef __LINUX_IF_PACKET_H
#define __LINUX_IF_PACKET_H

#define PACKET_HOST 0
#define PACKET_BROADCAST 1
#define PACKET_MULTICAST 2
#define PACKET_OTHERHOST 3
#define PACKET_OUTGOING 4
#define PACKET_LOOPBACK 5

#endif
