// TCP's interface to sockets.
//
// Not supported: options, congestion control (not needed on the loopback device),
// out-of-order queues (such segments are dropped and retransmitted), urgent data and
// TIME_WAIT.
#include <linux/host.h>
#include <net/sock.h>

unsigned int tcp_current_mss(struct sock *sk)
{
	return tcp_sk(sk)->mss_cache;
}

// tcp_init_sock is what sockets over IPv4 and IPv6 have in common.
noinline __noclone void tcp_init_sock(struct sock *sk)
{
	tcp_sk(sk)->mss_cache = TCP_MSS;
	timer_setup(&sk->sk_timer, tcp_write_timer, 0);
}

// tcp_set_state also removes a closed sock from the tables. The port stays a listener's, and of one that was
// bound to it, until the socket is closed.
noinline void tcp_set_state(struct sock *sk, int state)
{
	if (state == TCP_CLOSE) {
		inet_unhash(sk);
		if (!sk->port_kept)
			inet_put_port(sk);
	}
	inet_sk_state_store(sk, state);
}

void tcp_write_queue_purge(struct sock *sk)
{
	struct sk_buff *skb;

	while ((skb = skb_peek(&sk->sk_write_queue))) {
		tcp_unlink_write_queue(skb, sk);
		consume_skb(skb);
	}
}

// tcp_done ends a connection at once. The caller has a reference.
noinline __noclone void tcp_done(struct sock *sk)
{
	tcp_set_state(sk, TCP_CLOSE);
	sk_stop_timer(sk, &sk->sk_timer);
	tcp_write_queue_purge(sk);
	sk->sk_shutdown = SHUTDOWN_MASK;
	if (sk->dead)
		inet_csk_destroy_sock(sk);
	else
		sk->sk_state_change(sk);
}

// tcp_time_wait ends a connection whose both ends are closed. The minute that Linux remembers it for is left out.
noinline __noclone void tcp_time_wait(struct sock *sk, int state, int timeo)
{
	tcp_done(sk);
}

// tcp_disconnect makes a sock whose connection has failed like new.
noinline __noclone int tcp_disconnect(struct sock *sk, int flags)
{
	if (sk->sk_state != TCP_CLOSE)
		tcp_set_state(sk, TCP_CLOSE);
	inet_sk(sk)->inet_dport = 0;
	if (!sk->port_kept) {
		inet_sk(sk)->inet_saddr = inet_sk(sk)->inet_rcv_saddr = 0;
		inet_sk(sk)->inet_sport = 0;
		memset(&sk->sk_v6_rcv_saddr, 0, sizeof(sk->sk_v6_rcv_saddr));
	}
	sk->sk_shutdown = 0;
	sk->sk_err = 0;
	return 0;
}

// tcp_stream_alloc_skb makes a segment with space for headers and size bytes.
noinline struct sk_buff *tcp_stream_alloc_skb(struct sock *sk, int size, gfp_t gfp, bool force_schedule)
{
	struct sk_buff *skb = alloc_skb(size + MAX_TCP_HEADER, gfp);

	if (skb)
		skb_reserve(skb, MAX_TCP_HEADER);
	return skb;
}

// tcp_skb_entail appends a segment to the write queue.
noinline __noclone void tcp_skb_entail(struct sock *sk, struct sk_buff *skb)
{
	struct tcp_skb_cb *tcb = TCP_SKB_CB(skb);

	tcb->seq = tcb->end_seq = tcp_sk(sk)->write_seq;
	tcb->tcp_flags = TCPHDR_ACK;
	tcp_add_write_queue_tail(sk, skb);
}

// unsent_tail returns the last segment if it has not been sent and has space.
static struct sk_buff *unsent_tail(struct sock *sk)
{
	struct sk_buff *skb = sk->sk_write_queue.prev;

	if (skb_queue_empty(&sk->sk_write_queue) || before(TCP_SKB_CB(skb)->seq, tcp_sk(sk)->snd_nxt))
		return NULL;
	return skb->len < tcp_current_mss(sk) ? skb : NULL;
}

notrace_before_6_1 noinline __noclone bool tcp_stream_memory_free(const struct sock *sk)
{
	return atomic_read(&sk->sk_wmem_alloc) < sk->sk_sndbuf;
}

// sk_stream_wait_connect returns -EPIPE if the sock is neither connected nor
// connecting.
noinline __noclone int sk_stream_wait_connect(struct sock *sk, long *timeo)
{
	*timeo = sk_wait_event(sk, *timeo, sk->sk_err || !(TCPF(sk->sk_state) & (TCPF(TCP_SYN_SENT) | TCPF(TCP_SYN_RECV))));
	if (*timeo < 0)
		return *timeo;
	if (!(TCPF(sk->sk_state) & (TCPF(TCP_ESTABLISHED) | TCPF(TCP_CLOSE_WAIT))))
		return sk->sk_err ? -sk->sk_err : -EPIPE;
	return 0;
}

noinline void tcp_push(struct sock *sk, int flags, int mss_now, int nonagle, int size_goal)
{
	if (skb_queue_empty(&sk->sk_write_queue))
		return;
	TCP_SKB_CB(sk->sk_write_queue.prev)->tcp_flags |= TCPHDR_PSH;
	__tcp_push_pending_frames(sk, mss_now, nonagle);
}

// append copies as much as fits into skb and returns the number of bytes, or -EFAULT.
static int append(struct sock *sk, struct sk_buff *skb, struct iov_iter *from)
{
	size_t n = min_t(size_t, tcp_current_mss(sk) - skb->len, from->count);
	size_t copied = copy_from_iter(skb_put(skb, n), n, from);

	skb_trim(skb, skb->len - (n - copied));
	tcp_sk(sk)->write_seq += copied;
	TCP_SKB_CB(skb)->end_seq += copied;
	tcp_sk(sk)->bytes_sent += copied;
	return copied ? (int)copied : -EFAULT;
}

// host_sent is what a send of a sock of the host returns.
static __always_inline int host_sent(struct sock *sk)
{
	long ret = host_made();

	if (ret > 0) {
		tcp_sk(sk)->write_seq += ret;
		tcp_sk(sk)->snd_una = tcp_sk(sk)->snd_nxt = tcp_sk(sk)->write_seq;
		tcp_sk(sk)->bytes_sent += ret;
		tcp_sk(sk)->bytes_acked += ret;
	} else {
		host_follow(sk, host_tells(sk));
	}
	return ret;
}

noinline __noclone int tcp_sendmsg_locked(struct sock *sk, struct msghdr *msg, size_t size)
{
	long timeo = msg->msg_flags & MSG_DONTWAIT ? 0 : MAX_SCHEDULE_TIMEOUT;
	int copied = 0, err = 0;

	if (sk->sk_host)
		return host_sent(sk);
	if (!(TCPF(sk->sk_state) & (TCPF(TCP_ESTABLISHED) | TCPF(TCP_CLOSE_WAIT))))
		err = sk_stream_wait_connect(sk, &timeo);
	while (!err && msg->msg_iter.count) {
		struct sk_buff *skb = unsent_tail(sk);

		if (sk->sk_err || sk->sk_shutdown & SEND_SHUTDOWN) {
			err = sk->sk_err ? -sk->sk_err : -EPIPE;
			break;
		}
		if (!skb && !tcp_stream_memory_free(sk)) {
			tcp_push(sk, 0, tcp_current_mss(sk), 0, 0);
			err = timeo ? sk_stream_wait_memory(sk, &timeo) : -EAGAIN;
			continue;
		}
		if (!skb) {
			skb = tcp_stream_alloc_skb(sk, tcp_current_mss(sk), GFP_KERNEL, false);
			if (!skb) {
				err = -ENOMEM;
				break;
			}
			tcp_skb_entail(sk, skb);
		}
		err = append(sk, skb, &msg->msg_iter);
		if (err > 0) {
			copied += err;
			err = 0;
		}
	}
	if (copied)
		tcp_push(sk, 0, tcp_current_mss(sk), 0, 0);
	return copied ? copied : err;
}

// tcp_sendmsg returns the number of bytes accepted, or -EPIPE, -EAGAIN and the like.
int tcp_sendmsg(struct sock *sk, struct msghdr *msg, size_t size)
{
	int ret;

	lock_sock(sk);
	ret = tcp_sendmsg_locked(sk, msg, size);
	release_sock(sk);
	return ret;
}

// tcp_cleanup_rbuf sends a window update after a read.
void tcp_cleanup_rbuf(struct sock *sk, int copied)
{
	u32 told = tcp_sk(sk)->rcv_wup + tcp_sk(sk)->rcv_wnd - tcp_sk(sk)->rcv_nxt;

	if (sk->sk_host)
		return;
	if (copied > 0 && (tcp_sk(sk)->rcv_nxt != tcp_sk(sk)->rcv_wup || told < 2 * tcp_sk(sk)->mss_cache) &&
	    __tcp_select_window(sk) >= 2 * tcp_sk(sk)->mss_cache)
		tcp_send_ack(sk);
}

// take copies from the first segment that has unread data.
static int take(struct sock *sk, struct msghdr *msg, size_t len)
{
	struct sk_buff *skb = skb_peek(&sk->sk_receive_queue);
	u32 offset = tcp_sk(sk)->copied_seq - TCP_SKB_CB(skb)->seq;
	size_t n = min_t(size_t, skb->len - offset, len);

	if (n && skb_copy_datagram_iter(skb, offset, &msg->msg_iter, n))
		return -EFAULT;
	tcp_sk(sk)->copied_seq += n;
	if (offset + n == skb->len) {
		__skb_unlink(skb, &sk->sk_receive_queue);
		consume_skb(skb);
	}
	return n;
}

// host_received is what a receive of a sock of the host returns.
static __always_inline int host_received(struct sock *sk)
{
	long ret = host_made();

	if (ret > 0) {
		tcp_sk(sk)->rcv_nxt += ret;
		tcp_sk(sk)->copied_seq = tcp_sk(sk)->rcv_wup = tcp_sk(sk)->rcv_nxt;
		tcp_sk(sk)->bytes_received += ret;
	} else {
		host_follow(sk, host_tells(sk));
	}
	if (ret != -ENOTCONN)
		tcp_cleanup_rbuf(sk, ret);
	return ret;
}

#if GUEST_LINUX < 601
static __always_inline
#else
static __noipa
#endif
int tcp_recvmsg_locked(struct sock *sk, struct msghdr *msg, size_t len, int flags)
{
	long timeo = flags & MSG_DONTWAIT ? 0 : MAX_SCHEDULE_TIMEOUT;
	int copied = 0, n;

	if (sk->sk_host)
		return host_received(sk);
	if (sk->sk_state == TCP_LISTEN)
		return -ENOTCONN;
	while ((size_t)copied < len) {
		if (!skb_queue_empty(&sk->sk_receive_queue)) {
			n = take(sk, msg, len - copied);
			if (n < 0)
				return copied ? copied : n;
			copied += n;
			continue;
		}
		if (copied || sk->sk_shutdown & RCV_SHUTDOWN)
			break;
		if (sk->sk_err) {
			n = -sk->sk_err;
			sk->sk_err = 0;
			return n;
		}
		if (sk->sk_state == TCP_CLOSE)
			return -ENOTCONN;
		if (!timeo)
			return -EAGAIN;
		n = sk_wait_data(sk, &timeo);
		if (n < 0)
			return n;
	}
	tcp_cleanup_rbuf(sk, copied);
	return copied;
}

// tcp_recvmsg returns at least one byte, or 0 if the peer has closed.
int tcp_recvmsg(struct sock *sk, struct msghdr *msg, size_t len, int flags)
{
	int ret;

	lock_sock(sk);
	ret = tcp_recvmsg_locked(sk, msg, len, flags);
	release_sock(sk);
	return ret;
}

// tcp_close_state changes to the state after a FIN. It returns true if one must be
// sent.
static __always_inline int tcp_close_state(struct sock *sk)
{
	switch (sk->sk_state) {
	case TCP_ESTABLISHED:
	case TCP_SYN_RECV:
		tcp_set_state(sk, TCP_FIN_WAIT1);
		return 1;
	case TCP_CLOSE_WAIT:
		tcp_set_state(sk, TCP_LAST_ACK);
		return 1;
	}
	return 0;
}

void tcp_shutdown(struct sock *sk, int how)
{
	if (how & SEND_SHUTDOWN && tcp_close_state(sk))
		tcp_send_fin(sk);
}

// inet_csk_listen_stop closes the connections of a listener, whose state is TCP_CLOSE already, that were not accepted.
noinline __noclone void inet_csk_listen_stop(struct sock *sk)
{
	struct sock *child;
	LIST_HEAD(left);

	spin_lock_bh(&sk->accept_lock);
	list_splice_init(&sk->accept_queue, &left);
	spin_unlock_bh(&sk->accept_lock);
	while (!list_empty(&left)) {
		child = list_first_entry(&left, struct sock, accept_link);
		list_del_init(&child->accept_link);
		tcp_close(child, 0);
	}
}

#define FIN_TIMEOUT (60 * HZ)

// unread reports whether a socket has data that was not read. Of one of the host the host tells.
static bool unread(struct sock *sk)
{
	const struct host_sock *h = host_tells(sk);

	return h ? h->unread : !skb_queue_empty(&sk->sk_receive_queue);
}

// fin_acked is called when a sock of the host has sent its FIN: it is acknowledged. There is no socket any more that the
// host could tell of.
static __always_inline void fin_acked(struct sock *sk)
{
	struct host_sock h = { .sport = inet_sk(sk)->inet_sport, .dport = inet_sk(sk)->inet_dport };

	if (sk->sk_family == AF_INET6) {
		memcpy(h.saddr, &sk->sk_v6_rcv_saddr, sizeof(h.saddr));
		memcpy(h.daddr, &sk->sk_v6_daddr, sizeof(h.daddr));
	} else {
		memcpy(h.saddr, &inet_sk(sk)->inet_saddr, 4);
		memcpy(h.daddr, &inet_sk(sk)->inet_daddr, 4);
	}
	if (sk->sk_state == TCP_FIN_WAIT1 || sk->sk_state == TCP_CLOSING || sk->sk_state == TCP_LAST_ACK)
		host_arrives(sk, &h, TCPHDR_ACK, true);
	if (sk->sk_state == TCP_FIN_WAIT2)
		tcp_time_wait(sk, TCP_FIN_WAIT2, 0);
}

// tcp_close closes the socket. Written data is still sent. If there is unread data,
// the connection is reset.
void tcp_close(struct sock *sk, long timeout)
{
	lock_sock(sk);
	sk->sk_shutdown = SHUTDOWN_MASK;
	if (sk->sk_state == TCP_LISTEN) {
		tcp_set_state(sk, TCP_CLOSE);
		inet_csk_listen_stop(sk);
	} else if (sk->sk_state != TCP_CLOSE && unread(sk)) {
		skb_queue_purge(&sk->sk_receive_queue);
		tcp_send_active_reset(sk, GFP_KERNEL);
		tcp_done(sk);
	} else if (sk->sk_state == TCP_SYN_SENT) {
		tcp_done(sk);
	} else if (tcp_close_state(sk)) {
		tcp_send_fin(sk);
	}
	if (sk->sk_host)
		fin_acked(sk);
	release_sock(sk);
	spin_lock_bh(&sk->sk_lock.slock);
	sock_orphan(sk);
	if (sk->sk_state == TCP_FIN_WAIT2)
		sk_reset_timer(sk, &sk->sk_timer, jiffies + FIN_TIMEOUT);
	else if (sk->sk_state == TCP_CLOSE)
		inet_csk_destroy_sock(sk);
	spin_unlock_bh(&sk->sk_lock.slock);
	sock_put(sk);
}

const struct proto tcp_prot = {
	.name = "TCP",
	.poll = tcp_poll,
	.init = tcp_v4_init_sock,
	.close = tcp_close,
	.connect = tcp_v4_connect,
	.sendmsg = tcp_sendmsg,
	.recvmsg = tcp_recvmsg,
	.get_port = inet_csk_get_port,
	.shutdown = tcp_shutdown,
	.conn_request = tcp_v4_conn_request,
	.syn_recv_sock = tcp_v4_syn_recv_sock,
	.disconnect = tcp_disconnect,
	.destroy = tcp_v4_destroy_sock,
};
