// sock.h: sockets (struct socket for the file, struct sock for the protocol) and
// TCP's state.
#ifndef _NET_SOCK_H
#define _NET_SOCK_H

#include <linux/fs.h>
#include <linux/host.h>
#include <linux/skbuff.h>
#include <linux/netdevice.h>
#include <linux/timer.h>
#include <linux/inet.h>
#include <net/net_namespace.h>

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define AF_NETLINK 16
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define SOCK_RAW 3
#define SOCK_TYPE_MASK 0xf
#define SOCK_NONBLOCK O_NONBLOCK
#define SOCK_CLOEXEC O_CLOEXEC
#define SOL_SOCKET 1
#define SO_REUSEADDR 2
#define SO_LINGER 13
#define SO_REUSEPORT 15
#define SK_CAN_REUSE 1
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define INADDR_LOOPBACK 0x7f000001
#define MSG_DONTWAIT 0x40
#define RCV_SHUTDOWN 1
#define SEND_SHUTDOWN 2
#define SHUTDOWN_MASK 3

enum socket_state { SS_FREE, SS_UNCONNECTED, SS_CONNECTING, SS_CONNECTED, SS_DISCONNECTING };

struct linger {
	int l_onoff;
	int l_linger; // seconds
};

struct sockaddr {
	u16 sa_family;
	char sa_data[14];
};

struct sockaddr_in {
	u16 sin_family;
	__be16 sin_port;
	__be32 sin_addr;
	u8 __pad[8];
};

struct msghdr {
	void *msg_name;
	int msg_namelen;
	struct iov_iter msg_iter;
	unsigned int msg_flags;
};

struct socket {
	enum socket_state state;
	short type;
	struct file *file;
	struct sock *sk;
	const struct proto_ops *ops;
	wait_queue_head_t wq;
};

struct proto_ops {
	int family;
	int (*socketpair)(struct socket *sock1, struct socket *sock2);
	int (*ioctl)(struct socket *sock, unsigned int cmd, unsigned long arg);
	int (*setsockopt)(struct socket *sock, int level, int optname, char __user *optval, unsigned int optlen);
	int (*getsockopt)(struct socket *sock, int level, int optname, char __user *optval, int __user *optlen);
	int (*release)(struct socket *sock);
	int (*bind)(struct socket *sock, struct sockaddr *addr, int len);
	int (*connect)(struct socket *sock, struct sockaddr *addr, int len, int flags);
	int (*accept)(struct socket *sock, struct socket *newsock, int flags, bool kern);
	int (*getname)(struct socket *sock, struct sockaddr *addr, int peer);
	int (*listen)(struct socket *sock, int len);
	int (*shutdown)(struct socket *sock, int flags);
	int (*sendmsg)(struct socket *sock, struct msghdr *m, size_t len);
	int (*recvmsg)(struct socket *sock, struct msghdr *m, size_t len, int flags);
	ssize_t (*sendpage)(struct socket *sock, void *page, int offset, size_t size, int flags);
};

// A proto is what the sockets of one protocol do in their own way. Those but TCP over IPv4
// have it only for sockets of the host (net/mirror.c).
struct proto {
	const char *name;
	int (*init)(struct sock *sk);
	void (*close)(struct sock *sk, long timeout);
	int (*connect)(struct sock *sk, struct sockaddr *uaddr, int addr_len);
	int (*sendmsg)(struct sock *sk, struct msghdr *msg, size_t len);
	int (*recvmsg)(struct sock *sk, struct msghdr *msg, size_t len, int flags);
	unsigned int (*poll)(struct file *file, struct socket *sock, struct poll_table_struct *wait);
	int (*get_port)(struct sock *sk, unsigned short snum);
	void (*shutdown)(struct sock *sk, int how);
	int (*ioctl)(struct sock *sk, int cmd, unsigned long arg);
	int (*conn_request)(struct sock *sk, struct sk_buff *skb); // answers a SYN
	struct sock *(*syn_recv_sock)(struct sock *sk, struct sk_buff *skb);
	int (*disconnect)(struct sock *sk, int flags);
	void (*destroy)(struct sock *sk);
};
extern const struct proto tcp_prot;

// The lock of a sock. A task that owns it may sleep. Softirqs meanwhile add their
// packets to the backlog, which the owner processes.
typedef struct {
	spinlock_t slock;
	int owned;
	wait_queue_head_t wq;
} socket_lock_t;

enum {
	TCP_ESTABLISHED = 1, TCP_SYN_SENT, TCP_SYN_RECV, TCP_FIN_WAIT1, TCP_FIN_WAIT2, TCP_TIME_WAIT, TCP_CLOSE,
	TCP_CLOSE_WAIT, TCP_LAST_ACK, TCP_LISTEN, TCP_CLOSING, TCP_NEW_SYN_RECV,
};

enum tcp_ca_state { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };

#define TCPF(state) (1 << (state))

struct in6_addr {
	union {
		u8 u6_addr8[16];
		__be16 u6_addr16[8];
		__be32 u6_addr32[4];
	} in6_u;
};

struct sockaddr_in6 {
	u16 sin6_family;
	__be16 sin6_port;
	__be32 sin6_flowinfo;
	struct in6_addr sin6_addr;
	u32 sin6_scope_id;
};

// The structures of a sock lie as in 6.1 where they have the same fields; other fields are
// where 6.1 has some that are not used here. All sockets have a tcp_sock's memory.

// Addresses and ports are in network order, except for skc_num, the local port.
struct sock_common {
	__be32 skc_daddr, skc_rcv_saddr;
	unsigned int skc_hash;
	__be16 skc_dport;			// 12
	u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	unsigned char skc_reuse : 4, skc_reuseport : 1, skc_ipv6only : 1, skc_net_refcnt : 1;
	int skc_bound_dev_if;			// 20
	struct hlist_node skc_bind_node;	// of the local port
	const struct proto *skc_prot;		// 40
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr; // 56, 72
	atomic64_t skc_cookie;			// 88
	struct sock *skc_listener;		// 96
	struct hlist_node skc_node;		// 104: by addresses, or by port when listening
	char __before_refcnt[128 - 120];
	refcount_t skc_refcnt;			// 128
	u32 skc_window_clamp;
};
static_assert(offsetof(struct sock_common, skc_dport) == 12 && offsetof(struct sock_common, skc_prot) == 40 &&
	offsetof(struct sock_common, skc_v6_daddr) == 56 && offsetof(struct sock_common, skc_refcnt) == 128 &&
	sizeof(struct sock_common) == 136, "struct sock_common");

struct sock {
	struct sock_common __sk_common;
#define sk_family __sk_common.skc_family
#define sk_state __sk_common.skc_state
#define sk_num __sk_common.skc_num
#define sk_dport __sk_common.skc_dport
#define sk_daddr __sk_common.skc_daddr
#define sk_rcv_saddr __sk_common.skc_rcv_saddr
#define sk_v6_daddr __sk_common.skc_v6_daddr
#define sk_v6_rcv_saddr __sk_common.skc_v6_rcv_saddr
#define sk_prot __sk_common.skc_prot
#define sk_refcnt __sk_common.skc_refcnt
	socket_lock_t sk_lock;
	struct sk_buff_head sk_receive_queue, sk_backlog, sk_write_queue;
	struct socket *sk_socket;
	wait_queue_head_t *sk_wq;
	u8 sk_shutdown;
	u16 sk_type, sk_protocol;
	u16 sk_gso_max_segs; // at most this many segments are sent at once; set when the connection begins
	unsigned long sk_lingertime; // jiffies that close(2) waits for data to be sent, of SO_LINGER
	int sk_err;
	bool dead; // has no file any more
	bool sk_host; // mirrors one of the host: what its protocol does, the host's kernel does
	bool port_kept; // the program has chosen the port: it is kept when the connection ends
	void (*sk_data_ready)(struct sock *sk);
	void (*sk_state_change)(struct sock *sk);
	void (*sk_write_space)(struct sock *sk);
	int sk_rcvbuf, sk_sndbuf;
	atomic_t sk_rmem_alloc, sk_wmem_alloc;
	int sk_wmem_queued; // truesize of sk_write_queue
	struct timer_list sk_timer;
	u32 sk_ack_backlog, sk_max_ack_backlog;

	// A listener's connections that wait for accept.
	struct list_head accept_queue, accept_link;
	spinlock_t accept_lock; // lock of the queue, against softirqs
	struct sock *listener;
};

struct inet_sock {
	struct sock sk;
#define inet_daddr sk.__sk_common.skc_daddr
#define inet_rcv_saddr sk.__sk_common.skc_rcv_saddr
#define inet_dport sk.__sk_common.skc_dport
#define inet_num sk.__sk_common.skc_num
	char __before_saddr[784 - sizeof(struct sock)];
	__be32 inet_saddr;			// 784
	char __before_sport[804 - 788];
	__be16 inet_sport;			// 804
	u8 tos, min_ttl, mc_ttl, pmtudisc;	// 806
	u8 recverr : 1, is_icsk : 1, freebind : 1, hdrincl : 1, mc_loop : 1, transparent : 1, mc_all : 1, nodefrag : 1;
	u8 bind_address_no_port : 1, recverr_rfc4884 : 1, defer_connect : 1; // 811
	u8 rcv_tos, convert_csum;
	int uc_index, mc_index;			// 816
	__be32 mc_addr;
	char __after_mc_addr[992 - 828];
};
static_assert(offsetof(struct inet_sock, inet_saddr) == 784 && offsetof(struct inet_sock, inet_sport) == 804 &&
	offsetof(struct inet_sock, uc_index) == 816 && sizeof(struct inet_sock) == 992, "struct inet_sock");

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	char __before_ca[1240 - 992];
	u8 icsk_ca_state : 5;			// 1240
	u8 icsk_retransmits;
	char __after_retransmits[1400 - 1242];
};
static_assert(sizeof(struct inet_connection_sock) == 1400, "struct inet_connection_sock");

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	char __before_received[1408 - 1400];
	u64 bytes_received;			// 1408
	u32 segs_in, data_segs_in;
	u32 rcv_nxt, copied_seq, rcv_wup;	// 1424: next byte expected; next byte for the user; rcv_nxt as last acknowledged
	u32 snd_nxt;				// 1436: next to send
	u32 segs_out, data_segs_out;
	u64 bytes_sent, bytes_acked;		// 1448, 1456
	u32 dsack_dups;
	u32 snd_una;				// 1468: oldest byte not acknowledged
	bool fin_queued;			// ours
	char __before_wnd[1532 - 1473];
	u32 snd_wnd, max_window, mss_cache;	// 1532
	char __before_srtt[1632 - 1544];
	u32 srtt_us;				// 1632
	char __before_cwnd[1736 - 1636];
	u32 snd_cwnd;				// 1736
	char __before_rcv_wnd[1808 - 1740];
	u32 rcv_wnd, write_seq;			// 1808: last advertised window; next the user writes
	char __before_high[2080 - 1816];
	u32 high_seq;				// 2080: snd_nxt when the loss was found
	char __before_retrans[2104 - 2084];
	u32 total_retrans;			// 2104
};
static_assert(offsetof(struct tcp_sock, bytes_received) == 1408 && offsetof(struct tcp_sock, bytes_acked) == 1456 &&
	offsetof(struct tcp_sock, snd_una) == 1468 && offsetof(struct tcp_sock, snd_wnd) == 1532 &&
	offsetof(struct tcp_sock, write_seq) == 1812 && offsetof(struct tcp_sock, total_retrans) == 2104, "struct tcp_sock");

#define TCP_MSS 8192 // bytes per segment
#define GSO_MAX_SEGS 65535

// The protocol of a socket for which none was asked is that of its type.
static inline int inet_protocol(int type, int protocol)
{
	return protocol ?: type == SOCK_STREAM ? IPPROTO_TCP : type == SOCK_DGRAM ? IPPROTO_UDP : 0;
}

#define inet_sk(s) ((struct inet_sock *)(s))
#define inet_csk(s) ((struct inet_connection_sock *)(s))
#define tcp_sk(s) ((struct tcp_sock *)(s))

// host_bound notes the port of a sock of the host, which is 0 if the host's kernel has chosen it.
static inline void host_bound(struct sock *sk, __be16 port)
{
	inet_sk(sk)->inet_num = ntohs(port);
	inet_sk(sk)->inet_sport = port;
}

struct iphdr {
	u8 ihl : 4, version : 4;
	u8 tos;
	__be16 tot_len, id, frag_off;
	u8 ttl, protocol;
	__sum16 check;
	__be32 saddr, daddr;
};

struct tcphdr {
	__be16 source, dest;
	__be32 seq, ack_seq;
	u16 res1 : 4, doff : 4, fin : 1, syn : 1, rst : 1, psh : 1, ack : 1, urg : 1, ece : 1, cwr : 1;
	__be16 window;
	__sum16 check;
	__be16 urg_ptr;
};
static_assert(sizeof(struct iphdr) == 20 && sizeof(struct tcphdr) == 20, "headers");

struct ipv6hdr {
	u8 priority : 4, version : 4;
	u8 flow_lbl[3];
	__be16 payload_len;
	u8 nexthdr, hop_limit;
	struct in6_addr saddr, daddr;
};
static_assert(sizeof(struct ipv6hdr) == 40, "struct ipv6hdr");

#define ipv6_hdr(skb) ((struct ipv6hdr *)((skb)->head + (skb)->network_header))
#define ip_hdr(skb) ((struct iphdr *)((skb)->head + (skb)->network_header))
#define tcp_hdr(skb) ((struct tcphdr *)((skb)->head + (skb)->transport_header))
#define MAX_TCP_HEADER 128

struct tcp_skb_cb {
	u32 seq, end_seq; // sequence numbers of the data; SYN and FIN count as one
	u8 tcp_flags;
	u32 ack_seq;
};
#define TCP_SKB_CB(skb) ((struct tcp_skb_cb *)(skb)->cb)
#define TCPHDR_FIN 1
#define TCPHDR_SYN 2
#define TCPHDR_RST 4
#define TCPHDR_PSH 8
#define TCPHDR_ACK 16

static inline bool before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

static inline bool after(u32 a, u32 b)
{
	return before(b, a);
}

#define bh_lock_sock(sk) spin_lock(&(sk)->sk_lock.slock)
#define bh_unlock_sock(sk) spin_unlock(&(sk)->sk_lock.slock)
#define sock_owned_by_user(sk) ((sk)->sk_lock.owned)
#define lock_sock(sk) lock_sock_nested(sk, 0)

// net/core/sock.c
struct sock *sk_alloc(int family, gfp_t priority);
void sk_free(struct sock *sk);
void sock_init_data(struct socket *sock, struct sock *sk);
void lock_sock_nested(struct sock *sk, int subclass);
void release_sock(struct sock *sk);
void sock_def_wakeup(struct sock *sk);
void sock_def_readable(struct sock *sk);
void sock_def_error_report(struct sock *sk);
void sk_stream_write_space(struct sock *sk);
void sk_error_report(struct sock *sk);
void sock_wfree(struct sk_buff *skb);
void sock_rfree(struct sk_buff *skb);
void skb_set_owner_w(struct sk_buff *skb, struct sock *sk);

// tcp_add_write_queue_tail queues what is to be sent, and kept until it is acknowledged.
static inline void tcp_add_write_queue_tail(struct sock *sk, struct sk_buff *skb)
{
	skb_set_owner_w(skb, sk);
	__skb_queue_tail(&sk->sk_write_queue, skb);
	sk->sk_wmem_queued += skb->truesize;
}

static inline void tcp_unlink_write_queue(struct sk_buff *skb, struct sock *sk)
{
	__skb_unlink(skb, &sk->sk_write_queue);
	sk->sk_wmem_queued -= skb->truesize;
}

void skb_set_owner_r(struct sk_buff *skb, struct sock *sk);
int sk_wait_data(struct sock *sk, long *timeo);
int sk_stream_wait_memory(struct sock *sk, long *timeo);
int sk_filter_trim_cap(struct sock *sk, struct sk_buff *skb, unsigned int cap);
void sk_reset_timer(struct sock *sk, struct timer_list *timer, unsigned long expires);
void sk_stop_timer(struct sock *sk, struct timer_list *timer);
void sock_orphan(struct sock *sk);

// Waits with the sock's lock released until condition is true. Returns the remaining
// time or -ERESTARTSYS.
#define sk_wait_event(sk, timeo, condition) ({						\
	long __left = (timeo);								\
	DEFINE_WAIT(__wait);								\
	while (!(condition) && __left > 0) {						\
		prepare_to_wait((sk)->sk_wq, &__wait, TASK_INTERRUPTIBLE);		\
		release_sock(sk);							\
		if (!(condition))							\
			__left = schedule_timeout(__left);				\
		lock_sock(sk);								\
		if (!(condition) && signal_pending(current))				\
			__left = -ERESTARTSYS;						\
	}										\
	finish_wait((sk)->sk_wq, &__wait);						\
	__left; })

static inline void sock_hold(struct sock *sk)
{
	refcount_inc(&sk->sk_refcnt);
}

static inline void sock_put(struct sock *sk)
{
	if (refcount_dec_and_test(&sk->sk_refcnt))
		sk_free(sk);
}

// net/socket.c
int sock_create(int family, int type, int protocol, struct socket **res);
int __sock_create(void *net, int family, int type, int protocol, struct socket **res, int kern);
int sock_create_kern(void *net, int family, int type, int protocol, struct socket **res);
struct socket *sock_alloc(void);
struct file *sock_alloc_file(struct socket *sock, int flags);
void sock_release(struct socket *sock);
int sock_sendmsg(struct socket *sock, struct msghdr *msg);
int sock_recvmsg(struct socket *sock, struct msghdr *msg, int flags);
int kernel_sendmsg(struct socket *sock, struct msghdr *msg, struct kvec *vec, size_t num, size_t size);
int kernel_recvmsg(struct socket *sock, struct msghdr *msg, struct kvec *vec, size_t num, size_t size, int flags);
int kernel_bind(struct socket *sock, struct sockaddr *addr, int addrlen);
int kernel_listen(struct socket *sock, int backlog);
int kernel_accept(struct socket *sock, struct socket **newsock, int flags);
int kernel_connect(struct socket *sock, struct sockaddr *addr, int addrlen, int flags);
int kernel_sock_shutdown(struct socket *sock, int how);

// net/ipv4/af_inet.c
int inet_create(void *net, struct socket *sock, int protocol, int kern);
int inet_release(struct socket *sock);
int inet_listen(struct socket *sock, int backlog);
int inet_stream_connect(struct socket *sock, struct sockaddr *uaddr, int addr_len, int flags);
int inet_dgram_connect(struct socket *sock, struct sockaddr *uaddr, int addr_len, int flags);
int inet_accept(struct socket *sock, struct socket *newsock, int flags, bool kern);
int inet_shutdown(struct socket *sock, int how);
int inet_ioctl(struct socket *sock, unsigned int cmd, unsigned long arg);
int sock_no_bind(struct socket *sock, struct sockaddr *saddr, int len);
int sock_no_connect(struct socket *sock, struct sockaddr *saddr, int len, int flags);
int sock_no_socketpair(struct socket *sock1, struct socket *sock2);
int sock_no_accept(struct socket *sock, struct socket *newsock, int flags, bool kern);
int sock_no_getname(struct socket *sock, struct sockaddr *saddr, int peer);
int sock_no_ioctl(struct socket *sock, unsigned int cmd, unsigned long arg);
int sock_no_listen(struct socket *sock, int backlog);
int sock_no_shutdown(struct socket *sock, int how);
int sock_no_sendmsg(struct socket *sock, struct msghdr *m, size_t len);
int sock_no_recvmsg(struct socket *sock, struct msghdr *m, size_t len, int flags);
int sock_common_setsockopt(struct socket *sock, int level, int optname, char __user *optval, unsigned int optlen);
int sock_common_getsockopt(struct socket *sock, int level, int optname, char __user *optval, int __user *optlen);

// net/mirror.c
struct socket *host_socket(int family, int type, int protocol);
int host_socket_create(struct socket *sock, int family, int protocol);
unsigned int tcp_poll(struct file *file, struct socket *sock, struct poll_table_struct *wait);
int host_connects(struct sock *sk);
// host_tells returns what the host's kernel says of a sock: of the one that the first descriptor of the call is. It
// returns NULL if that says nothing.
static __always_inline const struct host_sock *host_tells(const struct sock *sk)
{
	const struct host_mirror *m = host_mirrors() ? (struct host_mirror *)current->host_call->mirror : NULL;
	const struct file *file = sk->sk_host && sk->sk_socket ? sk->sk_socket->file : NULL;

	if (!m || !file || !m->files[0].sock.state || m->files[0].file != file->f_inode->i_ino)
		return NULL;
	return &m->files[0].sock;
}
// host_addresses notes the address of a sock of the host, and its port. One that is about to connect has no port before
// inet_hash_connect.
void host_addresses(struct sock *sk, const struct host_sock *h, bool port);
// host_follow brings a sock of the host to the state that the host's kernel tells of, by the segments that bring a
// sock there on Linux.
void host_follow(struct sock *sk, const struct host_sock *h);
// host_accepts makes the sock of a connection that the host's kernel has accepted.
struct sock *host_accepts(struct sock *sk);
// host_socket_told does that for a socket, if it is one of TCP. One that is new has been in that state before.
void host_socket_told(struct socket *sock, const struct host_sock *h, bool new);
void host_arrives(struct sock *sk, const struct host_sock *h, u8 flags, bool acks);
// inet_sendpage is the sendpage of sockets over IPv4 and IPv6.
ssize_t inet_sendpage(struct socket *sock, void *page, int offset, size_t size, int flags);
const struct proto *host_inet_prot(int type);

// net/ipv4
int ip_queue_xmit(struct sock *sk, struct sk_buff *skb, void *fl);
int ip_send_unicast_reply(struct sk_buff *skb, __be32 daddr, __be32 saddr);
int ip_rcv(struct sk_buff *skb, struct net_device *dev, struct packet_type *pt, struct net_device *orig_dev);
void ip_send_check(struct iphdr *iph);
struct dst_entry *ip_route_output_flow(void *net, __be32 daddr, __be32 *saddr);
struct dst_entry {
	struct net_device *dev;
};
static __always_inline struct net_device *dst_dev(const struct dst_entry *dst)
{
	return dst->dev;
}
u32 inet_ehashfn(const void *net, const __be32 laddr, const u16 lport, const __be32 faddr, const __be16 fport);
struct sock *__inet_lookup_established(void *net, const __be32 saddr, const __be16 sport, const __be32 daddr, const u16 hnum);
struct sock *__inet_lookup_listener(void *net, const __be32 daddr, const u16 hnum);
void inet_hash(struct sock *sk);
void inet_unhash(struct sock *sk);
int inet_hash_connect(struct sock *sk);
int __inet_hash_connect(struct sock *sk);
int inet_csk_get_port(struct sock *sk, unsigned short snum);
void inet_inherit_port(struct sock *sk, struct sock *child);
void inet_put_port(struct sock *sk);
struct sock *inet_csk_accept(struct sock *sk, int flags, int *err, bool kern);
int inet_csk_listen_start(struct sock *sk);
bool inet_csk_reqsk_queue_add(struct sock *sk, struct sock *child);
void inet_sk_set_state(struct sock *sk, int state);
void inet_sk_state_store(struct sock *sk, int newstate);

int tcp_v4_init_sock(struct sock *sk);
void tcp_init_sock(struct sock *sk);
void tcp_v4_destroy_sock(struct sock *sk);
int tcp_disconnect(struct sock *sk, int flags);
void tcp_time_wait(struct sock *sk, int state, int timeo);
struct sock *tcp_v4_syn_recv_sock(struct sock *sk, struct sk_buff *skb);
struct sock *tcp_create_openreq_child(const struct sock *sk, void *req, struct sk_buff *skb);
struct sock *inet_csk_clone_lock(const struct sock *sk, const void *req, const gfp_t priority);
struct sock *tcp_check_req(struct sock *sk, struct sk_buff *skb, void *req, bool fastopen, bool *lost_race);
int tcp_child_process(struct sock *parent, struct sock *child, struct sk_buff *skb);
void inet_csk_destroy_sock(struct sock *sk);
int tcp_v4_connect(struct sock *sk, struct sockaddr *uaddr, int addr_len);
int tcp_v4_rcv(struct sk_buff *skb);
int tcp_v4_do_rcv(struct sock *sk, struct sk_buff *skb);
void tcp_v4_send_check(struct sock *sk, struct sk_buff *skb);
int tcp_sendmsg(struct sock *sk, struct msghdr *msg, size_t size);
int tcp_recvmsg(struct sock *sk, struct msghdr *msg, size_t len, int flags);
void tcp_close(struct sock *sk, long timeout);
void tcp_shutdown(struct sock *sk, int how);
void tcp_set_state(struct sock *sk, int state);
void tcp_set_ca_state(struct sock *sk, const u8 ca_state);
void tcp_enter_loss(struct sock *sk);
void tcp_done(struct sock *sk);
int tcp_connect(struct sock *sk);
void tcp_send_ack(struct sock *sk);
void tcp_send_fin(struct sock *sk);
void tcp_send_synack(struct sock *sk);
void __tcp_push_pending_frames(struct sock *sk, unsigned int cur_mss, int nonagle);
void tcp_write_timer(struct timer_list *t);
void tcp_send_active_reset(struct sock *sk, gfp_t priority);
void tcp_write_queue_purge(struct sock *sk);
void tcp_rearm_rto(struct sock *sk);
void tcp_cleanup_rbuf(struct sock *sk, int copied);
void tcp_v4_send_reset(const struct sock *sk, struct sk_buff *skb);
int tcp_v4_conn_request(struct sock *sk, struct sk_buff *skb);
bool tcp_write_xmit(struct sock *sk, unsigned int mss_now, int nonagle, int push_one, gfp_t gfp);
void tcp_push(struct sock *sk, int flags, int mss_now, int nonagle, int size_goal);
struct sk_buff *tcp_stream_alloc_skb(struct sock *sk, int size, gfp_t gfp, bool force_schedule);
unsigned int tcp_current_mss(struct sock *sk);
void tcp_rcv_established(struct sock *sk, struct sk_buff *skb);
int tcp_rcv_state_process(struct sock *sk, struct sk_buff *skb);
u32 __tcp_select_window(struct sock *sk);
u32 secure_tcp_seq(__be32 saddr, __be32 daddr, __be16 sport, __be16 dport);

#endif
