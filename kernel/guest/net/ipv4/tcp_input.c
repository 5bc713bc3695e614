// TCP: processing of received segments.
#include <net/sock.h>

// tcp_reset ends a connection that the peer has reset.
noinline __noclone void tcp_reset(struct sock *sk, struct sk_buff *skb)
{
	sk->sk_err = sk->sk_state == TCP_SYN_SENT ? ECONNREFUSED : sk->sk_state == TCP_CLOSE_WAIT ? EPIPE : ECONNRESET;
	tcp_write_queue_purge(sk);
	tcp_done(sk);
	sk_error_report(sk);
}

// tcp_enter_loss begins the recovery from a loss. It ends when all that has been sent until
// now is acknowledged.
noinline __noclone void tcp_enter_loss(struct sock *sk)
{
	tcp_sk(sk)->high_seq = tcp_sk(sk)->snd_nxt;
	tcp_set_ca_state(sk, TCP_CA_Loss);
}

// tcp_fastretrans_alert looks at an acknowledgement while not all is well.
static __noipa void tcp_fastretrans_alert(struct sock *sk, const u32 prior_snd_una, int num_dupack, int *ack_flag, int *rexmit)
{
	if (inet_csk(sk)->icsk_ca_state == TCP_CA_Loss && !before(tcp_sk(sk)->snd_una, tcp_sk(sk)->high_seq))
		tcp_set_ca_state(sk, TCP_CA_Open);
}

// tcp_ack frees acknowledged segments and records the peer's window. It returns false
// if data is acknowledged that has not been sent.
static __noipa int tcp_ack(struct sock *sk, const struct sk_buff *skb, int flag)
{
	u32 ack = TCP_SKB_CB(skb)->ack_seq, prior_snd_una = tcp_sk(sk)->snd_una;
	struct sk_buff *sent;
	int rexmit = 0;

	if (after(ack, tcp_sk(sk)->snd_nxt))
		return 0;
	tcp_sk(sk)->snd_wnd = ntohs(tcp_hdr(skb)->window);
	if (!after(ack, tcp_sk(sk)->snd_una))
		return 1;
	tcp_sk(sk)->snd_una = ack;
	inet_csk(sk)->icsk_retransmits = 0;
	while ((sent = skb_peek(&sk->sk_write_queue)) && !after(TCP_SKB_CB(sent)->end_seq, ack) &&
	       before(TCP_SKB_CB(sent)->seq, tcp_sk(sk)->snd_nxt)) {
		tcp_unlink_write_queue(sent, sk);
		consume_skb(sent);
	}
	if (inet_csk(sk)->icsk_ca_state != TCP_CA_Open)
		tcp_fastretrans_alert(sk, prior_snd_una, 0, &flag, &rexmit);
	tcp_rearm_rto(sk);
	return 1;
}

noinline __noclone void tcp_data_ready(struct sock *sk)
{
	sk->sk_data_ready(sk);
}

// tcp_fin processes the peer's FIN.
noinline __noclone void tcp_fin(struct sock *sk)
{
	sk->sk_shutdown |= RCV_SHUTDOWN;
	switch (sk->sk_state) {
	case TCP_SYN_RECV:
	case TCP_ESTABLISHED:
		tcp_set_state(sk, TCP_CLOSE_WAIT);
		break;
	case TCP_FIN_WAIT1:
		tcp_set_state(sk, TCP_CLOSING);
		break;
	case TCP_FIN_WAIT2:
		tcp_send_ack(sk);
		tcp_time_wait(sk, TCP_TIME_WAIT, 0);
		return;
	}
	sk->sk_state_change(sk);
}

// tcp_queue_rcv adds the data of a segment, whose header was removed, to the receive
// queue.
noinline __noclone int tcp_queue_rcv(struct sock *sk, struct sk_buff *skb)
{
	skb_set_owner_r(skb, sk);
	__skb_queue_tail(&sk->sk_receive_queue, skb);
	tcp_sk(sk)->bytes_received += skb->len;
	return 0;
}

// tcp_data_queue consumes a segment. Data that is next in the stream is queued; other
// data is dropped and answered by an acknowledgement.
static __noipa void tcp_data_queue(struct sock *sk, struct sk_buff *skb)
{
	struct tcp_skb_cb *tcb = TCP_SKB_CB(skb);
	bool fin = tcb->tcp_flags & TCPHDR_FIN;

	if (tcb->seq == tcb->end_seq) {
		consume_skb(skb);
		return;
	}
	if (tcb->seq != tcp_sk(sk)->rcv_nxt || (sk->sk_shutdown & RCV_SHUTDOWN && !fin)) {
		kfree_skb(skb);
		tcp_send_ack(sk);
		return;
	}
	tcp_sk(sk)->rcv_nxt = tcb->end_seq;
	skb_pull(skb, tcp_hdr(skb)->doff * 4);
	if (skb->len && !sk->dead) {
		tcp_queue_rcv(sk, skb);
		tcp_data_ready(sk);
	} else {
		consume_skb(skb);
	}
	tcp_send_ack(sk);
	if (fin)
		tcp_fin(sk);
}

// tcp_validate_incoming drops and answers invalid segments.
static __noipa bool tcp_validate_incoming(struct sock *sk, struct sk_buff *skb, const struct tcphdr *th, int syn_inerr)
{
	if (th->rst) {
		if (!before(TCP_SKB_CB(skb)->seq, tcp_sk(sk)->rcv_wup))
			tcp_reset(sk, skb);
	} else if (th->syn) {
		tcp_send_ack(sk);
	} else {
		return true;
	}
	kfree_skb(skb);
	return false;
}

// after_ack changes the state if our FIN has been acknowledged. It returns false if
// the connection has ended.
static __always_inline bool after_ack(struct sock *sk)
{
	if (!tcp_sk(sk)->fin_queued || tcp_sk(sk)->snd_una != tcp_sk(sk)->write_seq)
		return true;
	switch (sk->sk_state) {
	case TCP_FIN_WAIT1:
		tcp_set_state(sk, TCP_FIN_WAIT2);
		break;
	case TCP_CLOSING:
		tcp_time_wait(sk, TCP_TIME_WAIT, 0);
		return false;
	case TCP_LAST_ACK:
		tcp_done(sk);
		return false;
	}
	return true;
}

// receive consumes a segment in the states after the handshake.
static __always_inline void receive(struct sock *sk, struct sk_buff *skb)
{
	if (!tcp_validate_incoming(sk, skb, tcp_hdr(skb), 1))
		return;
	if (!(TCP_SKB_CB(skb)->tcp_flags & TCPHDR_ACK) || !tcp_ack(sk, skb, 0) || !after_ack(sk)) {
		kfree_skb(skb);
		return;
	}
	tcp_data_queue(sk, skb);
	if (!sk->sk_host)
		__tcp_push_pending_frames(sk, tcp_current_mss(sk), 0);
}

// tcp_rcv_established consumes a segment while both sides may send.
void tcp_rcv_established(struct sock *sk, struct sk_buff *skb)
{
	receive(sk, skb);
}

// tcp_finish_connect is called when the other side has accepted a connection.
noinline __noclone void tcp_finish_connect(struct sock *sk, struct sk_buff *skb)
{
	tcp_set_state(sk, TCP_ESTABLISHED);
}

// tcp_rcv_synsent_state_process processes the answer to our SYN.
static __always_inline int tcp_rcv_synsent_state_process(struct sock *sk, struct sk_buff *skb, const struct tcphdr *th)
{
	if (th->ack && TCP_SKB_CB(skb)->ack_seq != tcp_sk(sk)->snd_nxt) {
		tcp_v4_send_reset(sk, skb);
	} else if (th->rst) {
		if (th->ack)
			tcp_reset(sk, skb);
	} else if (th->syn && th->ack) {
		tcp_sk(sk)->rcv_nxt = tcp_sk(sk)->rcv_wup = tcp_sk(sk)->copied_seq = TCP_SKB_CB(skb)->seq + 1;
		tcp_ack(sk, skb, 0);
		tcp_finish_connect(sk, skb);
		tcp_send_ack(sk);
		sk->sk_state_change(sk);
	}
	kfree_skb(skb);
	return 0;
}

// tcp_check_req processes the third segment of a handshake. The connection is passed to its listener; of one of the
// host there is no sock before, and it returns the new one.
noinline __noclone struct sock *tcp_check_req(struct sock *sk, struct sk_buff *skb, void *req, bool fastopen, bool *lost_race)
{
	struct sock *listener = sk->listener;

	if (sk->sk_host)
		return sk->sk_prot->syn_recv_sock(sk, skb);
	tcp_set_state(sk, TCP_ESTABLISHED);
	sk->listener = NULL;
	if (!inet_csk_reqsk_queue_add(listener, sk)) {
		tcp_send_active_reset(sk, GFP_ATOMIC);
		tcp_done(sk);
		sock_put(sk);
	}
	sock_put(listener);
	return sk;
}

// tcp_rcv_state_process consumes a segment in all other states.
int tcp_rcv_state_process(struct sock *sk, struct sk_buff *skb)
{
	const struct tcphdr *th = tcp_hdr(skb);

	switch (sk->sk_state) {
	case TCP_CLOSE:
		kfree_skb(skb);
		return 0;
	case TCP_LISTEN:
		if (th->ack)
			tcp_v4_send_reset(sk, skb);
		else if (th->syn && !th->rst && !th->fin)
			sk->sk_prot->conn_request(sk, skb);
		consume_skb(skb);
		return 0;
	case TCP_SYN_SENT:
		return tcp_rcv_synsent_state_process(sk, skb, th);
	case TCP_SYN_RECV:
		if (sk->sk_host) {
			tcp_ack(sk, skb, 0);
			tcp_set_state(sk, TCP_ESTABLISHED);
			kfree_skb(skb);
			return 0;
		}
		if (th->ack && TCP_SKB_CB(skb)->ack_seq == tcp_sk(sk)->snd_nxt && !th->syn && !th->rst)
			tcp_check_req(sk, skb, NULL, false, NULL);
		break;
	}
	receive(sk, skb);
	return 0;
}
