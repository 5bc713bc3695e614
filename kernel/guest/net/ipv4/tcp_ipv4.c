// TCP over IPv4: finding the sock of a segment, active and passive opens.
#include <net/sock.h>
#include <linux/siphash.h>
#include <linux/random.h>
#include <linux/rcupdate.h>

// secure_tcp_seq returns the initial sequence number: unpredictable, and increasing
// with time (every 64 ns).
noinline u32 secure_tcp_seq(__be32 saddr, __be32 daddr, __be16 sport, __be16 dport)
{
	static siphash_key_t key;

	if (!key.key[0])
		get_random_bytes(&key, sizeof(key));
	return (u32)siphash_3u32(saddr, daddr, (u32)sport << 16 | dport, &key) + (u32)(ktime_get() >> 6);
}

static __wsum pseudo_sum(__be32 saddr, __be32 daddr, unsigned int len)
{
	return csum_add(csum_add(saddr, daddr), (len + IPPROTO_TCP) << 8);
}

static void set_check(struct tcphdr *th, unsigned int len, __be32 saddr, __be32 daddr)
{
	th->check = 0;
	th->check = csum_fold(csum_partial(th, len, pseudo_sum(saddr, daddr, len)));
}

void tcp_v4_send_check(struct sock *sk, struct sk_buff *skb)
{
	set_check(tcp_hdr(skb), skb->len, inet_sk(sk)->inet_saddr, inet_sk(sk)->inet_daddr);
}

// tcp_v4_send_reset resets the sender of a segment without a sock.
void tcp_v4_send_reset(const struct sock *sk, struct sk_buff *skb)
{
	const struct tcphdr *th = tcp_hdr(skb);
	struct sk_buff *reply;
	struct tcphdr *rep;

	if (th->rst)
		return;
	reply = alloc_skb(MAX_TCP_HEADER, GFP_ATOMIC);
	if (!reply)
		return;
	skb_reserve(reply, MAX_TCP_HEADER);
	rep = skb_push(reply, sizeof(*rep));
	reply->transport_header = reply->data - reply->head;
	*rep = (struct tcphdr){ .source = th->dest, .dest = th->source, .doff = 5, .rst = 1 };
	if (th->ack) {
		rep->seq = th->ack_seq;
	} else {
		rep->ack = 1;
		rep->ack_seq = htonl(TCP_SKB_CB(skb)->end_seq);
	}
	set_check(rep, sizeof(*rep), ip_hdr(skb)->daddr, ip_hdr(skb)->saddr);
	ip_send_unicast_reply(reply, ip_hdr(skb)->saddr, ip_hdr(skb)->daddr);
}

int tcp_v4_init_sock(struct sock *sk)
{
	tcp_init_sock(sk);
	return 0;
}

// tcp_v4_destroy_sock gives back what a closed sock has.
noinline __noclone void tcp_v4_destroy_sock(struct sock *sk)
{
	sk_stop_timer(sk, &sk->sk_timer);
	tcp_write_queue_purge(sk);
	if (inet_sk(sk)->inet_num)
		inet_put_port(sk);
}

// begin_stream begins the stream that a connection sends.
static void begin_stream(struct sock *sk)
{
	tcp_sk(sk)->write_seq = secure_tcp_seq(inet_sk(sk)->inet_saddr, inet_sk(sk)->inet_daddr, inet_sk(sk)->inet_sport, inet_sk(sk)->inet_dport);
	tcp_sk(sk)->snd_una = tcp_sk(sk)->snd_nxt = tcp_sk(sk)->write_seq;
}

// tcp_v4_connect starts a connection. It returns -EAFNOSUPPORT, -ENETUNREACH, ...
int tcp_v4_connect(struct sock *sk, struct sockaddr *uaddr, int addr_len)
{
	struct sockaddr_in *usin = (struct sockaddr_in *)uaddr;
	struct dst_entry *dst;
	int err;

	if (sk->sk_host) {
		err = host_connects(sk);
		if (err)
			return err;
		inet_sk(sk)->inet_daddr = usin->sin_addr;
		inet_sk(sk)->inet_dport = usin->sin_port;
		host_addresses(sk, host_tells(sk), false);
		if (!inet_sk(sk)->inet_saddr && (ntohl(usin->sin_addr) ^ INADDR_LOOPBACK) >> 24 == 0)
			inet_sk(sk)->inet_saddr = inet_sk(sk)->inet_rcv_saddr = htonl(INADDR_LOOPBACK);
		if (!host_tells(sk)) // it will not say either when it is connected
			return tcp_connect(sk);
		tcp_set_state(sk, TCP_SYN_SENT);
		inet_hash_connect(sk);
		begin_stream(sk);
		return tcp_connect(sk);
	}
	if (addr_len < (int)sizeof(*usin))
		return -EINVAL;
	if (usin->sin_family != AF_INET)
		return -EAFNOSUPPORT;
	dst = ip_route_output_flow(NULL, usin->sin_addr, &inet_sk(sk)->inet_saddr);
	if (IS_ERR(dst))
		return PTR_ERR(dst);
	inet_sk(sk)->inet_rcv_saddr = inet_sk(sk)->inet_saddr;
	inet_sk(sk)->inet_daddr = usin->sin_addr;
	inet_sk(sk)->inet_dport = usin->sin_port;
	tcp_set_state(sk, TCP_SYN_SENT);
	err = inet_hash_connect(sk);
	if (!err) {
		begin_stream(sk);
		tcp_sk(sk)->snd_wnd = 65535;
		err = tcp_connect(sk);
	}
	if (err) {
		tcp_set_state(sk, TCP_CLOSE);
		inet_sk(sk)->inet_dport = 0;
	}
	return err;
}

// tcp_v4_syn_recv_sock makes the sock of a new connection, of which skb is a segment.
noinline __noclone struct sock *tcp_v4_syn_recv_sock(struct sock *sk, struct sk_buff *skb)
{
	struct sock *child = tcp_create_openreq_child(sk, NULL, skb);

	if (!child)
		return NULL;
	inet_sk(child)->inet_saddr = inet_sk(child)->inet_rcv_saddr = ip_hdr(skb)->daddr;
	inet_sk(child)->inet_daddr = ip_hdr(skb)->saddr;
	begin_stream(child);
	if (sk->sk_host)
		return child;
	inet_inherit_port(sk, child);
	sock_hold(sk);
	child->listener = sk;
	return child;
}

// tcp_create_openreq_child makes the sock of a new connection, whose addresses are still its listener's.
noinline __noclone struct sock *tcp_create_openreq_child(const struct sock *sk, void *req, struct sk_buff *skb)
{
	struct sock *child = inet_csk_clone_lock(sk, req, GFP_ATOMIC);

	if (!child)
		return NULL;
	tcp_sk(child)->mss_cache = TCP_MSS;
	child->sk_gso_max_segs = GSO_MAX_SEGS;
	timer_setup(&child->sk_timer, tcp_write_timer, 0);
	inet_sk(child)->inet_dport = tcp_hdr(skb)->source;
	tcp_sk(child)->rcv_nxt = tcp_sk(child)->rcv_wup = tcp_sk(child)->copied_seq = TCP_SKB_CB(skb)->seq + 1;
	tcp_sk(child)->snd_wnd = ntohs(tcp_hdr(skb)->window);
	return child;
}

// tcp_child_process has a new connection process the segment by which it has come about.
noinline __noclone int tcp_child_process(struct sock *parent, struct sock *child, struct sk_buff *skb)
{
	int ret = tcp_rcv_state_process(child, skb);

	parent->sk_data_ready(parent);
	return ret;
}

// tcp_v4_conn_request answers a SYN. If the queue is full, the SYN is dropped; the
// peer will retransmit it.
noinline int tcp_v4_conn_request(struct sock *sk, struct sk_buff *skb)
{
	struct sock *child;

	if (sk->sk_host)
		return 0;
	if (sk->sk_ack_backlog > sk->sk_max_ack_backlog)
		return 0;
	child = tcp_v4_syn_recv_sock(sk, skb);
	if (!child)
		return 0;
	inet_hash(child);
	tcp_send_synack(child);
	return 0;
}

// tcp_v4_do_rcv processes a segment for a sock whose lock is held.
noinline int tcp_v4_do_rcv(struct sock *sk, struct sk_buff *skb)
{
	if (sk->sk_state == TCP_ESTABLISHED)
		tcp_rcv_established(sk, skb);
	else
		tcp_rcv_state_process(sk, skb);
	return 0;
}

static __noipa void tcp_v4_fill_cb(struct sk_buff *skb, const struct iphdr *iph, const struct tcphdr *th)
{
	struct tcp_skb_cb *tcb = TCP_SKB_CB(skb);

	tcb->seq = ntohl(th->seq);
	tcb->end_seq = tcb->seq + th->syn + th->fin + skb->len - th->doff * 4;
	tcb->ack_seq = ntohl(th->ack_seq);
	tcb->tcp_flags = th->fin | th->syn << 1 | th->rst << 2 | th->psh << 3 | th->ack << 4;
}

noinline __noclone int tcp_filter(struct sock *sk, struct sk_buff *skb)
{
	return sk_filter_trim_cap(sk, skb, tcp_hdr(skb)->doff * 4);
}

// tcp_add_backlog queues a segment for the task that owns the sock.
noinline __noclone bool tcp_add_backlog(struct sock *sk, struct sk_buff *skb)
{
	__skb_queue_tail(&sk->sk_backlog, skb);
	return false;
}

static bool header_is_good(struct sk_buff *skb)
{
	const struct tcphdr *th = tcp_hdr(skb);
	__wsum pseudo;

	if (skb->len < sizeof(*th) || th->doff < 5 || skb->len < th->doff * 4u)
		return false;
	pseudo = pseudo_sum(ip_hdr(skb)->saddr, ip_hdr(skb)->daddr, skb->len);
	memcpy(skb->cb, &pseudo, sizeof(pseudo));
	return !__skb_checksum_complete(skb);
}

// tcp_v4_rcv receives a segment, which begins with its TCP header.
int tcp_v4_rcv(struct sk_buff *skb)
{
	const struct iphdr *iph = ip_hdr(skb);
	const struct tcphdr *th = tcp_hdr(skb);
	struct sock *sk;

	if (!header_is_good(skb)) {
		kfree_skb_reason(skb, SKB_DROP_REASON_TCP_CSUM);
		return 0;
	}
	tcp_v4_fill_cb(skb, iph, th);
	sk = __inet_lookup_established(NULL, iph->saddr, th->source, iph->daddr, ntohs(th->dest));
	if (!sk)
		sk = __inet_lookup_listener(NULL, iph->daddr, ntohs(th->dest));
	if (!sk || tcp_filter(sk, skb)) {
		tcp_v4_send_reset(NULL, skb);
		kfree_skb_reason(skb, SKB_DROP_REASON_NO_SOCKET);
		if (sk)
			sock_put(sk);
		return 0;
	}
	bh_lock_sock(sk);
	if (!sock_owned_by_user(sk))
		tcp_v4_do_rcv(sk, skb);
	else
		tcp_add_backlog(sk, skb);
	bh_unlock_sock(sk);
	sock_put(sk);
	return 0;
}
