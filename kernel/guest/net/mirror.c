// Sockets of the host's programs. Each protocol has the functions that Linux's has, down to
// those that would do its work; they wait for the host's kernel and return its result. TCP
// over IPv4 is in net/ipv4.
#include <linux/host.h>
#include <linux/hostfs.h>
#include <linux/poll.h>
#include <net/sock.h>

// HOST_DOES defines a function whose work the host's kernel does.
#define HOST_DOES(name, ...)		\
static __noipa int name(__VA_ARGS__)	\
{					\
	return host_made();		\
}

// HOST_NAMES defines a function that returns an address and its size in bytes. The caller has
// the address from the host's kernel.
#define HOST_NAMES(name, size)							\
static __noipa int name(struct socket *sock, struct sockaddr *addr, int peer)	\
{										\
	long err = host_made();							\
										\
	return err < 0 ? err : size;						\
}

// host_connects is the end of a protocol's connect: it fails there if there is no way to
// the address. What the other side answers is learned later.
int host_connects(struct sock *sk)
{
	long err = host_made();

	switch (err) {
	case -EINVAL:
	case -EACCES:
	case -EAFNOSUPPORT:
	case -EADDRNOTAVAIL:
	case -ENETUNREACH:
	case -EHOSTUNREACH:
		return err;
	}
	return 0;
}

static bool is_mapped(const u8 *addr)
{
	static const u8 mapped[12] = { [10] = 0xff, 0xff };

	return !memcmp(addr, mapped, sizeof(mapped));
}

static __be32 v4_of(int family, const u8 *addr)
{
	__be32 v4;

	memcpy(&v4, family == AF_INET6 ? addr + 12 : addr, sizeof(v4));
	return v4;
}

// over_v4 reports whether the packets of a socket are of IPv4.
static bool over_v4(const struct sock *sk, const struct host_sock *h)
{
	return sk->sk_family == AF_INET || is_mapped(h->daddr);
}

__noipa void host_addresses(struct sock *sk, const struct host_sock *h, bool port)
{
	static const u8 none[16];
	struct inet_sock *inet = inet_sk(sk);

	if (!h)
		return;
	if (memcmp(h->saddr, none, sizeof(none))) {
		if (sk->sk_family == AF_INET6)
			memcpy(&sk->sk_v6_rcv_saddr, h->saddr, sizeof(h->saddr));
		if (sk->sk_family == AF_INET || is_mapped(h->saddr))
			inet->inet_saddr = inet->inet_rcv_saddr = v4_of(sk->sk_family, h->saddr);
	}
	if (port && h->sport)
		host_bound(sk, h->sport);
}

// note_all notes all that the host's kernel says of a socket of which nothing is known yet.
static __always_inline void note_all(struct sock *sk, const struct host_sock *h)
{
	host_addresses(sk, h, true);
	if (h->dport) {
		inet_sk(sk)->inet_dport = h->dport;
		if (sk->sk_family == AF_INET6)
			memcpy(&sk->sk_v6_daddr, h->daddr, sizeof(h->daddr));
		if (over_v4(sk, h))
			inet_sk(sk)->inet_daddr = v4_of(sk->sk_family, h->daddr);
	}
	sk->sk_state = h->state;
	tcp_sk(sk)->srtt_us = h->srtt_us;
	tcp_sk(sk)->bytes_acked = h->bytes_acked;
	tcp_sk(sk)->bytes_received = h->bytes_received;
}

// quietly makes that probes see nothing of what the current task does from here on, or see it again.
static void quietly(bool on)
{
	if (current_host_call())
		WRITE_ONCE(current_host_call()->quiet, on);
}

// segment makes a segment as the other side of a sock sends it: the next one of its stream, with the last
// acknowledgement, or one of all that was sent.
static __always_inline struct sk_buff *segment(struct sock *sk, const struct host_sock *h, u8 flags, bool acks)
{
	struct sk_buff *skb;
	struct tcphdr *th;

	quietly(true);
	skb = alloc_skb(MAX_TCP_HEADER, GFP_ATOMIC);
	if (!skb) {
		quietly(false);
		return NULL;
	}
	skb_reserve(skb, MAX_TCP_HEADER);
	th = skb_push(skb, sizeof(*th));
	skb->transport_header = skb->data - skb->head;
	*th = (struct tcphdr){
		.source = h->dport, .dest = h->sport, .seq = htonl(tcp_sk(sk)->rcv_nxt), .doff = 5, .window = htons(65535),
		.fin = !!(flags & TCPHDR_FIN), .syn = !!(flags & TCPHDR_SYN), .rst = !!(flags & TCPHDR_RST), .ack = !!(flags & TCPHDR_ACK),
	};
	if (flags & TCPHDR_ACK)
		th->ack_seq = htonl(acks ? tcp_sk(sk)->snd_nxt : tcp_sk(sk)->snd_una);
	if (over_v4(sk, h)) {
		struct iphdr *iph = skb_push(skb, sizeof(*iph));

		*iph = (struct iphdr){
			.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP, .tot_len = htons(sizeof(*iph) + sizeof(*th)),
			.saddr = v4_of(sk->sk_family, h->daddr), .daddr = v4_of(sk->sk_family, h->saddr),
		};
		skb->protocol = htons(ETH_P_IP);
		skb->network_header = skb->data - skb->head;
		skb_pull(skb, sizeof(*iph));
	} else {
		struct ipv6hdr *ip6 = skb_push(skb, sizeof(*ip6));

		*ip6 = (struct ipv6hdr){ .version = 6, .nexthdr = IPPROTO_TCP, .hop_limit = 64, .payload_len = htons(sizeof(*th)) };
		memcpy(&ip6->saddr, h->daddr, sizeof(ip6->saddr));
		memcpy(&ip6->daddr, h->saddr, sizeof(ip6->daddr));
		skb->protocol = htons(ETH_P_IPV6);
		skb->network_header = skb->data - skb->head;
		skb_pull(skb, sizeof(*ip6));
	}
	TCP_SKB_CB(skb)->seq = ntohl(th->seq);
	TCP_SKB_CB(skb)->end_seq = TCP_SKB_CB(skb)->seq + th->syn + th->fin;
	TCP_SKB_CB(skb)->ack_seq = ntohl(th->ack_seq);
	TCP_SKB_CB(skb)->tcp_flags = flags;
	quietly(false);
	return skb;
}

static __noipa int tcp_v6_do_rcv(struct sock *sk, struct sk_buff *skb)
{
	if (skb->protocol == htons(ETH_P_IP))
		return tcp_v4_do_rcv(sk, skb);
	if (sk->sk_state == TCP_ESTABLISHED)
		tcp_rcv_established(sk, skb);
	else
		tcp_rcv_state_process(sk, skb);
	return 0;
}

// host_arrives has a sock process a segment of the other side.
void host_arrives(struct sock *sk, const struct host_sock *h, u8 flags, bool acks)
{
	struct sk_buff *skb = segment(sk, h, flags, acks);

	if (!skb)
		return;
	if (over_v4(sk, h))
		tcp_v4_do_rcv(sk, skb);
	else
		tcp_v6_do_rcv(sk, skb);
}

// next_segment returns the flags of the segment that brings a sock closer to a state, and whether it acknowledges all. It
// returns 0 if there is none: then something has happened of which the guest was not told.
static __always_inline u8 next_segment(int from, int to, bool *acks)
{
	*acks = true;
	switch (from) {
	case TCP_SYN_SENT:
		return to == TCP_CLOSE ? TCPHDR_RST | TCPHDR_ACK : TCPHDR_SYN | TCPHDR_ACK;
	case TCP_ESTABLISHED:
		if (to == TCP_CLOSE_WAIT || to == TCP_LAST_ACK)
			return TCPHDR_FIN | TCPHDR_ACK;
		return to == TCP_CLOSE ? TCPHDR_RST | TCPHDR_ACK : 0;
	case TCP_CLOSE_WAIT:
		return to == TCP_CLOSE ? TCPHDR_RST | TCPHDR_ACK : 0;
	case TCP_FIN_WAIT1:
		*acks = to != TCP_CLOSING;
		return to == TCP_CLOSING ? TCPHDR_FIN | TCPHDR_ACK : TCPHDR_ACK;
	case TCP_FIN_WAIT2:
		return TCPHDR_FIN | TCPHDR_ACK;
	case TCP_CLOSING:
	case TCP_LAST_ACK:
		return TCPHDR_ACK;
	}
	return 0;
}

void host_follow(struct sock *sk, const struct host_sock *h)
{
	unsigned char was;
	u8 flags;
	bool acks;

	if (!h)
		return;
	tcp_sk(sk)->srtt_us = h->srtt_us;
	tcp_sk(sk)->bytes_acked = h->bytes_acked;
	tcp_sk(sk)->bytes_received = h->bytes_received;
	while (sk->sk_state != h->state) {
		was = sk->sk_state;
		flags = next_segment(was, h->state, &acks);
		if (flags & TCPHDR_SYN)
			tcp_sk(sk)->rcv_nxt = secure_tcp_seq(inet_sk(sk)->inet_daddr, inet_sk(sk)->inet_saddr, h->dport, h->sport);
		if (flags)
			host_arrives(sk, h, flags, acks);
		if (sk->sk_state == was) {
			note_all(sk, h);
			break;
		}
	}
	if (h->state != TCP_CLOSE && h->state != TCP_LISTEN)
		host_addresses(sk, h, true);
}

static __noipa int tcp_v6_conn_request(struct sock *sk, struct sk_buff *skb)
{
	return skb->protocol == htons(ETH_P_IP) ? tcp_v4_conn_request(sk, skb) : 0;
}

#define LOOPBACK4_IPV6 htonl(0x7f000006) // what a sock over IPv6 has as its address of IPv4

// tcp_v6_syn_recv_sock makes the sock of a new connection of a listener over IPv6.
static __noipa struct sock *tcp_v6_syn_recv_sock(struct sock *sk, struct sk_buff *skb)
{
	struct sock *child;

	if (skb->protocol == htons(ETH_P_IP)) {
		child = tcp_v4_syn_recv_sock(sk, skb);
		if (child) {
			child->sk_v6_rcv_saddr = child->sk_v6_daddr = (struct in6_addr){};
			child->sk_v6_rcv_saddr.in6_u.u6_addr16[5] = child->sk_v6_daddr.in6_u.u6_addr16[5] = 0xffff;
			child->sk_v6_rcv_saddr.in6_u.u6_addr32[3] = inet_sk(child)->inet_saddr;
			child->sk_v6_daddr.in6_u.u6_addr32[3] = inet_sk(child)->inet_daddr;
		}
		return child;
	}
	child = tcp_create_openreq_child(sk, NULL, skb);
	if (child) {
		inet_sk(child)->inet_saddr = inet_sk(child)->inet_rcv_saddr = inet_sk(child)->inet_daddr = LOOPBACK4_IPV6;
		child->sk_v6_rcv_saddr = ipv6_hdr(skb)->daddr;
		child->sk_v6_daddr = ipv6_hdr(skb)->saddr;
	}
	return child;
}

struct sock *host_accepts(struct sock *sk)
{
	const struct host_mirror *m = (struct host_mirror *)current_host_call()->mirror;
	const struct host_sock *h = &m->files[0].sock;
	struct sk_buff *ack;
	struct sock *child;

	host_arrives(sk, h, TCPHDR_SYN, false);
	ack = segment(sk, h, TCPHDR_ACK, true);
	if (!ack)
		return NULL;
	child = tcp_check_req(sk, ack, NULL, false, NULL);
	if (!child) {
		kfree_skb(ack);
		return NULL;
	}
	child->sk_protocol = m->files[0].rdev & 0xffff; // a listener's may be MPTCP
	tcp_child_process(sk, child, ack);
	if (h->state)
		host_follow(child, h);
	return child;
}

void host_socket_told(struct socket *sock, const struct host_sock *h, bool new)
{
	struct sock *sk = sock->sk;

	if (!h->state || !sk || !sk->sk_host || sk->sk_protocol != IPPROTO_TCP)
		return;
	if (!new) {
		lock_sock(sk);
		host_follow(sk, h);
		release_sock(sk);
		return;
	}
	note_all(sk, h);
	sk->port_kept = h->state == TCP_LISTEN;
	sock->state = h->state == TCP_ESTABLISHED || h->state == TCP_CLOSE_WAIT ? SS_CONNECTED : SS_UNCONNECTED;
}

// HOST_POLLS defines the poll operation of a protocol.
#define HOST_POLLS(name)									\
static __noipa unsigned int name(struct file *file, struct socket *sock, poll_table *wait)	\
{												\
	return host_poll_op(file, wait);							\
}

HOST_POLLS(datagram_poll)
HOST_POLLS(unix_poll)
HOST_POLLS(unix_dgram_poll)

noinline __noclone unsigned int tcp_poll(struct file *file, struct socket *sock, poll_table *wait)
{
	return host_poll_op(file, wait);
}

static __noipa unsigned int udp_poll(struct file *file, struct socket *sock, poll_table *wait)
{
	return datagram_poll(file, sock, wait);
}

static void drop_sock(struct sock *sk)
{
	sock_orphan(sk);
	sock_put(sk);
}

static void end_sock(struct socket *sock)
{
	struct sock *sk = sock->sk;

	sock->sk = NULL;
	if (sk)
		drop_sock(sk);
}

static __noipa void sk_common_release(struct sock *sk)
{
	drop_sock(sk);
}

// net/ipv4/udp.c, raw.c, datagram.c
static __noipa int udp_init_sock(struct sock *sk)
{
	return 0;
}

static __noipa int raw_sk_init(struct sock *sk)
{
	return 0;
}

static void udp_lib_close(struct sock *sk, long timeout)
{
	sk_common_release(sk);
}

static __noipa void raw_close(struct sock *sk, long timeout)
{
	sk_common_release(sk);
}

HOST_DOES(__ip4_datagram_connect, struct sock *sk, struct sockaddr *uaddr, int addr_len)
HOST_DOES(udp_sendmsg, struct sock *sk, struct msghdr *msg, size_t len)
HOST_DOES(udp_recvmsg, struct sock *sk, struct msghdr *msg, size_t len, int flags)
HOST_DOES(udp_v4_get_port, struct sock *sk, unsigned short snum)
HOST_DOES(udp_ioctl, struct sock *sk, int cmd, unsigned long arg)
HOST_DOES(raw_sendmsg, struct sock *sk, struct msghdr *msg, size_t len)
HOST_DOES(raw_recvmsg, struct sock *sk, struct msghdr *msg, size_t len, int flags)
HOST_DOES(raw_get_port, struct sock *sk, unsigned short snum)

static __noipa int ip4_datagram_connect(struct sock *sk, struct sockaddr *uaddr, int addr_len)
{
	int res;

	lock_sock(sk);
	res = __ip4_datagram_connect(sk, uaddr, addr_len);
	release_sock(sk);
	return res;
}

static const struct proto udp_prot = {
	.name = "UDP",
	.poll = udp_poll,
	.init = udp_init_sock,
	.close = udp_lib_close,
	.connect = ip4_datagram_connect,
	.sendmsg = udp_sendmsg,
	.recvmsg = udp_recvmsg,
	.get_port = udp_v4_get_port,
	.ioctl = udp_ioctl,
};

static const struct proto raw_prot = {
	.name = "RAW",
	.poll = datagram_poll,
	.init = raw_sk_init,
	.close = raw_close,
	.connect = ip4_datagram_connect,
	.sendmsg = raw_sendmsg,
	.recvmsg = raw_recvmsg,
	.get_port = raw_get_port,
};

const struct proto *host_inet_prot(int type)
{
	return type == SOCK_DGRAM ? &udp_prot : &raw_prot;
}

// net/ipv6
static __noipa int tcp_v6_init_sock(struct sock *sk)
{
	tcp_init_sock(sk);
	return 0;
}

static __noipa int udpv6_init_sock(struct sock *sk)
{
	return 0;
}

static __noipa int rawv6_init_sk(struct sock *sk)
{
	return 0;
}

static __noipa void rawv6_close(struct sock *sk, long timeout)
{
	sk_common_release(sk);
}

static __noipa int tcp_v6_connect(struct sock *sk, struct sockaddr *uaddr, int addr_len)
{
	struct sockaddr_in6 *usin = (struct sockaddr_in6 *)uaddr;
	int err = host_connects(sk);

	if (err)
		return err;
	if (is_mapped(usin->sin6_addr.in6_u.u6_addr8)) {
		struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = usin->sin6_port, .sin_addr = usin->sin6_addr.in6_u.u6_addr32[3] };

		sk->sk_v6_daddr = usin->sin6_addr;
		return tcp_v4_connect(sk, (struct sockaddr *)&sin, sizeof(sin));
	}
	sk->sk_v6_daddr = usin->sin6_addr;
	sk->sk_dport = usin->sin6_port;
	if (!host_tells(sk))
		return tcp_connect(sk);
	host_addresses(sk, host_tells(sk), false);
	tcp_set_state(sk, TCP_SYN_SENT);
	__inet_hash_connect(sk);
	tcp_sk(sk)->write_seq = tcp_sk(sk)->snd_una = tcp_sk(sk)->snd_nxt = secure_tcp_seq(0, 0, inet_sk(sk)->inet_sport, sk->sk_dport);
	return tcp_connect(sk);
}

HOST_DOES(__ip6_datagram_connect, struct sock *sk, struct sockaddr *uaddr, int addr_len)
HOST_DOES(udpv6_sendmsg, struct sock *sk, struct msghdr *msg, size_t len)
HOST_DOES(udpv6_recvmsg, struct sock *sk, struct msghdr *msg, size_t len, int flags)
HOST_DOES(udp_v6_get_port, struct sock *sk, unsigned short snum)
HOST_DOES(rawv6_sendmsg, struct sock *sk, struct msghdr *msg, size_t len)
HOST_DOES(rawv6_recvmsg, struct sock *sk, struct msghdr *msg, size_t len, int flags)
HOST_NAMES(inet6_getname, 28)
HOST_DOES(inet6_ioctl, struct socket *sock, unsigned int cmd, unsigned long arg)

static __noipa int ip6_datagram_connect(struct sock *sk, struct sockaddr *uaddr, int addr_len)
{
	int res;

	lock_sock(sk);
	res = __ip6_datagram_connect(sk, uaddr, addr_len);
	release_sock(sk);
	return res;
}

static const struct proto tcpv6_prot = {
	.name = "TCPv6",
	.poll = tcp_poll,
	.init = tcp_v6_init_sock,
	.close = tcp_close,
	.connect = tcp_v6_connect,
	.sendmsg = tcp_sendmsg,
	.recvmsg = tcp_recvmsg,
	.get_port = inet_csk_get_port,
	.shutdown = tcp_shutdown,
	.conn_request = tcp_v6_conn_request,
	.syn_recv_sock = tcp_v6_syn_recv_sock,
	.disconnect = tcp_disconnect,
	.destroy = tcp_v4_destroy_sock,
};

static const struct proto udpv6_prot = {
	.name = "UDPv6",
	.poll = udp_poll,
	.init = udpv6_init_sock,
	.close = udp_lib_close,
	.connect = ip6_datagram_connect,
	.sendmsg = udpv6_sendmsg,
	.recvmsg = udpv6_recvmsg,
	.get_port = udp_v6_get_port,
	.ioctl = udp_ioctl,
};

static const struct proto rawv6_prot = {
	.name = "RAWv6",
	.poll = datagram_poll,
	.init = rawv6_init_sk,
	.close = rawv6_close,
	.connect = ip6_datagram_connect,
	.sendmsg = rawv6_sendmsg,
	.recvmsg = rawv6_recvmsg,
	.get_port = raw_get_port,
};

static __noipa int __inet6_bind(struct sock *sk, struct sockaddr *uaddr, int addr_len)
{
	struct sockaddr_in6 *addr = (struct sockaddr_in6 *)uaddr;
	int err;

	lock_sock(sk);
	err = sk->sk_prot->get_port(sk, ntohs(addr->sin6_port));
	if (!err) {
		sk->sk_v6_rcv_saddr = addr->sin6_addr;
		host_bound(sk, addr->sin6_port);
		sk->port_kept = addr->sin6_port;
		host_addresses(sk, host_tells(sk), true);
	}
	release_sock(sk);
	return err;
}

static __noipa int inet6_bind(struct socket *sock, struct sockaddr *uaddr, int addr_len)
{
	return __inet6_bind(sock->sk, uaddr, addr_len);
}

static __noipa int inet6_release(struct socket *sock)
{
	return inet_release(sock);
}

static __noipa int inet6_sendmsg(struct socket *sock, struct msghdr *msg, size_t size)
{
	return sock->sk->sk_prot->sendmsg(sock->sk, msg, size);
}

static __noipa int inet6_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)
{
	return sock->sk->sk_prot->recvmsg(sock->sk, msg, size, flags);
}

#if GUEST_LINUX >= 612
#define INET_SENDPAGE
#else
#define INET_SENDPAGE .sendpage = inet_sendpage,
#endif

static const struct proto_ops inet6_stream_ops = {
	INET_SENDPAGE
	.family = AF_INET6,
	.release = inet6_release,
	.bind = inet6_bind,
	.connect = inet_stream_connect,
	.socketpair = sock_no_socketpair,
	.accept = inet_accept,
	.getname = inet6_getname,
	.listen = inet_listen,
	.shutdown = inet_shutdown,
	.sendmsg = inet6_sendmsg,
	.recvmsg = inet6_recvmsg,
	.ioctl = inet6_ioctl,
	.setsockopt = sock_common_setsockopt,
	.getsockopt = sock_common_getsockopt,
};

static const struct proto_ops inet6_dgram_ops = {
	INET_SENDPAGE
	.family = AF_INET6,
	.release = inet6_release,
	.bind = inet6_bind,
	.connect = inet_dgram_connect,
	.socketpair = sock_no_socketpair,
	.accept = sock_no_accept,
	.getname = inet6_getname,
	.listen = sock_no_listen,
	.shutdown = inet_shutdown,
	.sendmsg = inet6_sendmsg,
	.recvmsg = inet6_recvmsg,
	.ioctl = inet6_ioctl,
	.setsockopt = sock_common_setsockopt,
	.getsockopt = sock_common_getsockopt,
};

static struct sock *host_sock(struct socket *sock, const struct proto_ops *ops, const struct proto *prot)
{
	struct sock *sk = sk_alloc(ops->family, GFP_KERNEL);

	if (sk) {
		sock->ops = ops;
		sock_init_data(sock, sk);
		sk->sk_prot = prot;
	}
	return sk;
}

static __noipa int inet6_create(void *net, struct socket *sock, int protocol, int kern)
{
	const struct proto *prot = sock->type == SOCK_STREAM ? &tcpv6_prot : sock->type == SOCK_DGRAM ? &udpv6_prot : &rawv6_prot;
	struct sock *sk = host_sock(sock, sock->type == SOCK_STREAM ? &inet6_stream_ops : &inet6_dgram_ops, prot);

	if (!sk)
		return -ENOBUFS;
	sk->sk_protocol = inet_protocol(sock->type, protocol);
	return sk->sk_prot->init(sk);
}

// net/unix/af_unix.c
static __noipa void unix_release_sock(struct sock *sk, int embrion)
{
	drop_sock(sk);
}

#if GUEST_LINUX >= 601
static __noipa void unix_close(struct sock *sk, long timeout)
{
}
#endif

static __noipa int unix_release(struct socket *sock)
{
	struct sock *sk = sock->sk;

	if (!sk)
		return 0;
#if GUEST_LINUX >= 601
	unix_close(sk, 0);
#endif
	sock->sk = NULL;
	unix_release_sock(sk, 0);
	return 0;
}

HOST_DOES(unix_bind, struct socket *sock, struct sockaddr *uaddr, int addr_len)
HOST_DOES(unix_stream_connect, struct socket *sock, struct sockaddr *uaddr, int addr_len, int flags)
HOST_DOES(unix_dgram_connect, struct socket *sock, struct sockaddr *addr, int alen, int flags)
HOST_NAMES(unix_getname, 2)
HOST_DOES(unix_ioctl, struct socket *sock, unsigned int cmd, unsigned long arg)
HOST_DOES(unix_listen, struct socket *sock, int backlog)
HOST_DOES(unix_shutdown, struct socket *sock, int mode)
HOST_DOES(unix_stream_sendmsg, struct socket *sock, struct msghdr *msg, size_t len)
HOST_DOES(unix_stream_read_generic, void *state, bool freezable)
HOST_DOES(unix_dgram_sendmsg, struct socket *sock, struct msghdr *msg, size_t len)
#if GUEST_LINUX >= 601
HOST_DOES(__unix_dgram_recvmsg, struct sock *sk, struct msghdr *msg, size_t size, int flags)
#endif

static __noipa int unix_stream_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)
{
	return unix_stream_read_generic(msg, true);
}

static __noipa int unix_dgram_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)
{
#if GUEST_LINUX < 601
	return host_made();
#else
	return __unix_dgram_recvmsg(sock->sk, msg, size, flags);
#endif
}

static __noipa int unix_seqpacket_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)
{
	return unix_dgram_sendmsg(sock, msg, len);
}

static __noipa int unix_seqpacket_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)
{
	return unix_dgram_recvmsg(sock, msg, size, flags);
}

static __noipa int unix_socketpair(struct socket *socka, struct socket *sockb)
{
	socka->state = sockb->state = SS_CONNECTED;
	return 0;
}

#if GUEST_LINUX < 601
#define UNIX_STREAM_NAME "UNIX"
#else
#define UNIX_STREAM_NAME "UNIX-STREAM"
#endif
static const struct proto unix_dgram_proto = { .name = "UNIX", .poll = unix_dgram_poll };
static const struct proto unix_stream_proto = { .name = UNIX_STREAM_NAME, .poll = unix_poll };

static __noipa struct sock *unix_create1(void *net, struct socket *sock, int kern, int type)
{
	return host_sock(sock, sock->ops, type == SOCK_STREAM ? &unix_stream_proto : &unix_dgram_proto);
}

static __noipa int unix_accept(struct socket *sock, struct socket *newsock, int flags, bool kern)
{
	long err = host_made();

	if (err < 0)
		return err;
	newsock->state = SS_CONNECTED;
	return host_sock(newsock, sock->ops, sock->sk->sk_prot) ? 0 : -ENOMEM;
}

#define UNIX_OPS(_connect, _sendmsg, _recvmsg, _sendpage)	\
{						\
	.family = AF_UNIX,			\
	.release = unix_release,		\
	.bind = unix_bind,			\
	.connect = _connect,			\
	.socketpair = unix_socketpair,		\
	.accept = unix_accept,			\
	.getname = unix_getname,		\
	.ioctl = unix_ioctl,			\
	.listen = unix_listen,			\
	.shutdown = unix_shutdown,		\
	.sendmsg = _sendmsg,			\
	.recvmsg = _recvmsg,			\
	.sendpage = _sendpage,			\
}

#if GUEST_LINUX >= 612
#define unix_stream_sendpage NULL
#else
static __noipa ssize_t unix_stream_sendpage(struct socket *sock, void *page, int offset, size_t size, int flags)
{
	return host_made();
}
#endif

static const struct proto_ops unix_stream_ops = UNIX_OPS(unix_stream_connect, unix_stream_sendmsg, unix_stream_recvmsg, unix_stream_sendpage);
static const struct proto_ops unix_dgram_ops = UNIX_OPS(unix_dgram_connect, unix_dgram_sendmsg, unix_dgram_recvmsg, NULL);
static const struct proto_ops unix_seqpacket_ops = UNIX_OPS(unix_stream_connect, unix_seqpacket_sendmsg, unix_seqpacket_recvmsg, NULL);

static __noipa int unix_create(void *net, struct socket *sock, int protocol, int kern)
{
	switch (sock->type) {
	case SOCK_STREAM:
		sock->ops = &unix_stream_ops;
		break;
	case SOCK_RAW:
		sock->type = SOCK_DGRAM;
		fallthrough;
	case SOCK_DGRAM:
		sock->ops = &unix_dgram_ops;
		break;
	default:
		sock->ops = &unix_seqpacket_ops;
	}
	return unix_create1(net, sock, kern, sock->type) ? 0 : -ENOMEM;
}

// net/netlink/af_netlink.c
HOST_DOES(netlink_bind, struct socket *sock, struct sockaddr *addr, int addr_len)
HOST_DOES(netlink_connect, struct socket *sock, struct sockaddr *addr, int alen, int flags)
HOST_NAMES(netlink_getname, 12)
HOST_DOES(netlink_ioctl, struct socket *sock, unsigned int cmd, unsigned long arg)
HOST_DOES(netlink_sendmsg, struct socket *sock, struct msghdr *msg, size_t len)
HOST_DOES(netlink_recvmsg, struct socket *sock, struct msghdr *msg, size_t len, int flags)
HOST_DOES(netlink_setsockopt, struct socket *sock, int level, int optname, char __user *optval, unsigned int optlen)
HOST_DOES(netlink_getsockopt, struct socket *sock, int level, int optname, char __user *optval, int __user *optlen)

static __noipa int netlink_release(struct socket *sock)
{
	end_sock(sock);
	return 0;
}

static const struct proto_ops netlink_ops = {
	.family = AF_NETLINK,
	.release = netlink_release,
	.bind = netlink_bind,
	.connect = netlink_connect,
	.socketpair = sock_no_socketpair,
	.accept = sock_no_accept,
	.getname = netlink_getname,
	.ioctl = netlink_ioctl,
	.listen = sock_no_listen,
	.shutdown = sock_no_shutdown,
	.sendmsg = netlink_sendmsg,
	.recvmsg = netlink_recvmsg,
	.setsockopt = netlink_setsockopt,
	.getsockopt = netlink_getsockopt,
};

static const struct proto netlink_proto = { .name = "NETLINK", .poll = datagram_poll };

static __noipa int __netlink_create(void *net, struct socket *sock, int protocol, int kern)
{
	return host_sock(sock, &netlink_ops, &netlink_proto) ? 0 : -ENOMEM;
}

static __noipa int netlink_create(void *net, struct socket *sock, int protocol, int kern)
{
	return __netlink_create(net, sock, protocol, kern);
}

// Families of which no functions are known. They have no names that a probe could have.
static int unknown_release(struct socket *sock)
{
	end_sock(sock);
	return 0;
}

static const struct proto_ops unknown_ops = {
	.release = unknown_release,
	.bind = sock_no_bind,
	.connect = sock_no_connect,
	.socketpair = sock_no_socketpair,
	.accept = sock_no_accept,
	.getname = sock_no_getname,
	.ioctl = sock_no_ioctl,
	.listen = sock_no_listen,
	.shutdown = sock_no_shutdown,
	.sendmsg = sock_no_sendmsg,
	.recvmsg = sock_no_recvmsg,
};

static const struct proto unknown_prot = { .name = "" };

int host_socket_create(struct socket *sock, int family, int protocol)
{
	switch (family) {
	case AF_UNIX:
		return unix_create(NULL, sock, protocol, 0);
	case AF_INET:
		return inet_create(NULL, sock, protocol, 0);
	case AF_INET6:
		return inet6_create(NULL, sock, protocol, 0);
	case AF_NETLINK:
		return netlink_create(NULL, sock, protocol, 0);
	}
	return host_sock(sock, &unknown_ops, &unknown_prot) ? 0 : -ENOMEM;
}

// host_socket makes the socket of a descriptor that the host has told of.
struct socket *host_socket(int family, int type, int protocol)
{
	struct socket *sock = sock_alloc();

	if (!sock)
		return NULL;
	sock->type = type;
	if (!host_socket_create(sock, family, protocol))
		return sock;
	sock_release(sock);
	return NULL;
}
