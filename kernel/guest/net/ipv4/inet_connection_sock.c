// Listening and accepting.
#include <linux/host.h>
#include <net/sock.h>
#include <trace/events/sock.h>

// inet_csk_wait_for_connect sleeps until there is a connection to accept.
static __noipa int inet_csk_wait_for_connect(struct sock *sk, long timeo)
{
	timeo = sk_wait_event(sk, timeo, !list_empty(&sk->accept_queue) || sk->sk_state != TCP_LISTEN);
	if (!list_empty(&sk->accept_queue))
		return 0;
	if (sk->sk_state != TCP_LISTEN)
		return -EINVAL;
	return timeo < 0 ? (int)timeo : -EAGAIN;
}

static struct sock *reqsk_queue_remove(struct sock *sk)
{
	struct sock *child;

	spin_lock_bh(&sk->accept_lock);
	child = list_first_entry_or_null(&sk->accept_queue, struct sock, accept_link);
	if (child) {
		list_del_init(&child->accept_link);
		sk->sk_ack_backlog--;
	}
	spin_unlock_bh(&sk->accept_lock);
	return child;
}

// accepted_by_host returns the sock of a connection that the host's kernel has accepted.
static struct sock *accepted_by_host(struct sock *sk)
{
	struct sock *newsk = sk_alloc(sk->sk_family, GFP_KERNEL);

	if (newsk) {
		sock_init_data(NULL, newsk);
		newsk->sk_host = true;
		newsk->sk_prot = sk->sk_prot;
		newsk->sk_type = sk->sk_type;
		newsk->sk_protocol = sk->sk_protocol;
		inet_sk(newsk)->inet_num = inet_sk(sk)->inet_num;
		inet_sk(newsk)->inet_sport = inet_sk(sk)->inet_sport;
		inet_sk(newsk)->inet_saddr = inet_sk(newsk)->inet_rcv_saddr = inet_sk(sk)->inet_saddr;
		newsk->sk_prot->init(newsk);
	}
	return newsk;
}

// inet_csk_accept returns the next connection, or NULL and *err: -EINVAL (not
// listening), -EAGAIN (O_NONBLOCK), -ERESTARTSYS.
struct sock *inet_csk_accept(struct sock *sk, int flags, int *err, bool kern)
{
	struct sock *newsk = NULL;

	lock_sock(sk);
	if (sk->sk_host) {
		*err = min(host_made(), 0L);
		if (!*err)
			newsk = accepted_by_host(sk);
		release_sock(sk);
		return newsk;
	}
	*err = sk->sk_state == TCP_LISTEN ? 0 : -EINVAL;
	if (!*err && list_empty(&sk->accept_queue))
		*err = flags & O_NONBLOCK ? -EAGAIN : inet_csk_wait_for_connect(sk, MAX_SCHEDULE_TIMEOUT);
	if (!*err)
		newsk = reqsk_queue_remove(sk);
	release_sock(sk);
	return newsk;
}

int inet_csk_listen_start(struct sock *sk)
{
	int err = inet_sk(sk)->inet_num && !sk->sk_host ? 0 : sk->sk_prot->get_port(sk, inet_sk(sk)->inet_num);

	if (err)
		return err;
	sk->sk_ack_backlog = 0;
	inet_sk_state_store(sk, TCP_LISTEN);
	if (!sk->sk_host)
		inet_hash(sk);
	return 0;
}

// inet_csk_reqsk_queue_add adds an established connection, with its first reference,
// to its listener's queue. It returns false if the listener is closed.
bool inet_csk_reqsk_queue_add(struct sock *sk, struct sock *child)
{
	bool listening;

	spin_lock_bh(&sk->accept_lock);
	listening = sk->sk_state == TCP_LISTEN;
	if (listening) {
		list_add_tail(&child->accept_link, &sk->accept_queue);
		sk->sk_ack_backlog++;
		sk->sk_data_ready(sk);
	}
	spin_unlock_bh(&sk->accept_lock);
	return listening;
}

void inet_sk_set_state(struct sock *sk, int state)
{
	trace_inet_sock_set_state(sk, sk->sk_state, state);
	sk->sk_state = state;
}

void inet_sk_state_store(struct sock *sk, int newstate)
{
	trace_inet_sock_set_state(sk, sk->sk_state, newstate);
	smp_store_release(&sk->sk_state, newstate);
}
