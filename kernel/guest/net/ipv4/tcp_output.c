// TCP: making and sending segments.
#include <net/sock.h>
#include <trace/events/tcp.h>

#define TCP_RTO_MIN (HZ / 5)
#define TCP_RETRIES 8

// __tcp_select_window returns the window to advertise: half of the free space, or 0
// if that is small.
noinline u32 __tcp_select_window(struct sock *sk)
{
	int room = (sk->sk_rcvbuf - atomic_read(&sk->sk_rmem_alloc)) / 2;

	if (room < (int)tcp_sk(sk)->mss_cache)
		return 0;
	return min(room, 65535);
}

// __tcp_transmit_skb sends a segment that may have to be retransmitted: it sends a
// clone, or a copy if an earlier clone is still in use.
static __noipa int __tcp_transmit_skb(struct sock *sk, struct sk_buff *skb, int clone_it, gfp_t gfp_mask, u32 rcv_nxt)
{
	struct tcp_skb_cb *tcb = TCP_SKB_CB(skb);
	u32 seq = tcb->seq;
	u8 flags = tcb->tcp_flags;
	struct tcphdr *th;

	if (clone_it)
		skb = atomic_read(&skb_shinfo(skb)->dataref) > 1 ? skb_copy(skb, gfp_mask) : skb_clone(skb, gfp_mask);
	if (!skb)
		return -ENOBUFS;
	th = skb_push(skb, sizeof(*th));
	skb->transport_header = skb->data - skb->head;
	*th = (struct tcphdr){
		.source = inet_sk(sk)->inet_sport, .dest = inet_sk(sk)->inet_dport, .seq = htonl(seq), .doff = 5,
		.fin = !!(flags & TCPHDR_FIN), .syn = !!(flags & TCPHDR_SYN), .rst = !!(flags & TCPHDR_RST),
		.psh = !!(flags & TCPHDR_PSH), .ack = !!(flags & TCPHDR_ACK),
		.window = htons(__tcp_select_window(sk)),
	};
	if (flags & TCPHDR_ACK) {
		th->ack_seq = htonl(rcv_nxt);
		tcp_sk(sk)->rcv_wup = rcv_nxt;
		tcp_sk(sk)->rcv_wnd = ntohs(th->window);
	}
	tcp_v4_send_check(sk, skb);
	return ip_queue_xmit(sk, skb, NULL);
}

static __always_inline int tcp_transmit_skb(struct sock *sk, struct sk_buff *skb, int clone_it, gfp_t gfp_mask)
{
	return __tcp_transmit_skb(sk, skb, clone_it, gfp_mask, tcp_sk(sk)->rcv_nxt);
}

// tcp_rearm_rto starts the retransmission timer, or stops it if everything is
// acknowledged.
noinline void tcp_rearm_rto(struct sock *sk)
{
	if (tcp_sk(sk)->snd_una == tcp_sk(sk)->snd_nxt)
		sk_stop_timer(sk, &sk->sk_timer);
	else
		sk_reset_timer(sk, &sk->sk_timer, jiffies + (TCP_RTO_MIN << inet_csk(sk)->icsk_retransmits));
}

// tcp_event_new_data_sent records that skb has been sent.
static __noipa void tcp_event_new_data_sent(struct sock *sk, struct sk_buff *skb)
{
	tcp_sk(sk)->snd_nxt = TCP_SKB_CB(skb)->end_seq;
	tcp_rearm_rto(sk);
}

static struct sk_buff *tcp_send_head(struct sock *sk)
{
	struct sk_buff *skb;

	for (skb = sk->sk_write_queue.next; skb != (struct sk_buff *)&sk->sk_write_queue; skb = skb->next) {
		if (!before(TCP_SKB_CB(skb)->seq, tcp_sk(sk)->snd_nxt))
			return skb;
	}
	return NULL;
}

// tcp_write_xmit sends as much as the peer's window allows.
noinline bool tcp_write_xmit(struct sock *sk, unsigned int mss_now, int nonagle, int push_one, gfp_t gfp)
{
	struct sk_buff *skb;

	while ((skb = tcp_send_head(sk))) {
		if (skb->len && after(TCP_SKB_CB(skb)->end_seq, tcp_sk(sk)->snd_una + tcp_sk(sk)->snd_wnd))
			return true;
		if (tcp_transmit_skb(sk, skb, 1, gfp))
			return true;
		tcp_event_new_data_sent(sk, skb);
	}
	return false;
}

noinline void __tcp_push_pending_frames(struct sock *sk, unsigned int cur_mss, int nonagle)
{
	if (sk->sk_state != TCP_CLOSE)
		tcp_write_xmit(sk, cur_mss, nonagle, 0, GFP_ATOMIC);
}

// queue_control adds a SYN or FIN, which takes one sequence number, to the stream.
static __always_inline struct sk_buff *queue_control(struct sock *sk, u8 flags)
{
	struct sk_buff *skb = tcp_stream_alloc_skb(sk, 0, GFP_ATOMIC, true);

	if (!skb)
		return NULL;
	TCP_SKB_CB(skb)->seq = tcp_sk(sk)->write_seq++;
	TCP_SKB_CB(skb)->end_seq = tcp_sk(sk)->write_seq;
	TCP_SKB_CB(skb)->tcp_flags = flags;
	tcp_add_write_queue_tail(sk, skb);
	return skb;
}

// tcp_connect sends the SYN. For a sock of the host, the host's kernel does.
int tcp_connect(struct sock *sk)
{
	struct sk_buff *skb;

	sk->sk_gso_max_segs = GSO_MAX_SEGS;
	if (sk->sk_host) {
		tcp_sk(sk)->snd_nxt = ++tcp_sk(sk)->write_seq;
		return 0;
	}
	skb = queue_control(sk, TCPHDR_SYN);
	if (!skb)
		return -ENOBUFS;
	tcp_event_new_data_sent(sk, skb);
	return tcp_transmit_skb(sk, skb, 1, GFP_KERNEL);
}

// tcp_send_synack answers a SYN.
void tcp_send_synack(struct sock *sk)
{
	struct sk_buff *skb = queue_control(sk, TCPHDR_SYN | TCPHDR_ACK);

	if (!skb)
		return;
	tcp_event_new_data_sent(sk, skb);
	tcp_transmit_skb(sk, skb, 1, GFP_ATOMIC);
}

// tcp_send_fin ends the stream. For a sock of the host, the host's kernel sends the FIN.
noinline __noclone void tcp_send_fin(struct sock *sk)
{
	if (sk->sk_host && !tcp_sk(sk)->fin_queued) {
		tcp_sk(sk)->snd_nxt = ++tcp_sk(sk)->write_seq;
		tcp_sk(sk)->fin_queued = true;
	}
	if (tcp_sk(sk)->fin_queued || !queue_control(sk, TCPHDR_FIN | TCPHDR_ACK))
		return;
	tcp_sk(sk)->fin_queued = true;
	__tcp_push_pending_frames(sk, tcp_current_mss(sk), 0);
}

static void send_bare(struct sock *sk, u8 flags, gfp_t gfp)
{
	struct sk_buff *skb = tcp_stream_alloc_skb(sk, 0, gfp, true);

	if (!skb)
		return;
	TCP_SKB_CB(skb)->seq = TCP_SKB_CB(skb)->end_seq = tcp_sk(sk)->snd_nxt;
	TCP_SKB_CB(skb)->tcp_flags = flags;
	tcp_transmit_skb(sk, skb, 0, gfp);
}

noinline void tcp_send_ack(struct sock *sk)
{
	if (sk->sk_state != TCP_CLOSE && !sk->sk_host)
		send_bare(sk, TCPHDR_ACK, GFP_ATOMIC);
}

noinline void tcp_send_active_reset(struct sock *sk, gfp_t priority)
{
	if (!sk->sk_host)
		send_bare(sk, TCPHDR_RST | TCPHDR_ACK, priority);
}

noinline __noclone int __tcp_retransmit_skb(struct sock *sk, struct sk_buff *skb, int segs)
{
	int err = tcp_transmit_skb(sk, skb, 1, GFP_ATOMIC);

	if (!err)
		trace_tcp_retransmit_skb(sk, skb);
	return err;
}

noinline __noclone int tcp_retransmit_skb(struct sock *sk, struct sk_buff *skb, int segs)
{
	return __tcp_retransmit_skb(sk, skb, segs);
}

// tcp_retransmit_timer retransmits the oldest segment. After TCP_RETRIES times the
// connection ends with ETIMEDOUT.
noinline __noclone void tcp_retransmit_timer(struct sock *sk)
{
	struct sk_buff *skb = skb_peek(&sk->sk_write_queue);

	if (sk->dead && sk->sk_state == TCP_FIN_WAIT2) {
		tcp_done(sk);
		return;
	}
	if (!skb || tcp_sk(sk)->snd_una == tcp_sk(sk)->snd_nxt)
		return;
	if (inet_csk(sk)->icsk_retransmits >= TCP_RETRIES) {
		sk->sk_err = ETIMEDOUT;
		tcp_done(sk);
		sk_error_report(sk);
		return;
	}
	tcp_enter_loss(sk);
	inet_csk(sk)->icsk_retransmits++;
	tcp_retransmit_skb(sk, skb, 1);
	tcp_rearm_rto(sk);
}

void tcp_write_timer(struct timer_list *t)
{
	struct sock *sk = from_timer(sk, t, sk_timer);

	bh_lock_sock(sk);
	if (sock_owned_by_user(sk))
		sk_reset_timer(sk, &sk->sk_timer, jiffies + HZ / 20);
	else if (sk->sk_state != TCP_CLOSE)
		tcp_retransmit_timer(sk);
	bh_unlock_sock(sk);
	sock_put(sk);
}
