// Listening and accepting.
#include <net/sock.h>

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

// inet_csk_accept returns the next connection, or NULL and *err: -EINVAL (not
// listening), -EAGAIN (O_NONBLOCK), -ERESTARTSYS.
struct sock *inet_csk_accept(struct sock *sk, int flags, int *err, bool kern)
{
	struct sock *newsk = NULL;

	lock_sock(sk);
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
	int err = sk->inet_num ? 0 : inet_csk_get_port(sk, 0);

	if (err)
		return err;
	sk->sk_ack_backlog = 0;
	inet_sk_state_store(sk, TCP_LISTEN);
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

void inet_sk_state_store(struct sock *sk, int newstate)
{
	smp_store_release(&sk->sk_state, newstate);
}
