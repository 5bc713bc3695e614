// Listening and accepting.
#include <linux/host.h>
#include <net/sock.h>
#include <trace/events/sock.h>

// inet_csk_wait_for_connect sleeps until there is a connection to accept.
static __always_inline int inet_csk_wait_for_connect(struct sock *sk, long timeo)
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
	if (sk->sk_host) {
		*err = min(host_made(), 0L);
		if (!*err)
			newsk = host_accepts(sk);
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
	host_addresses(sk, host_tells(sk), true);
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

// inet_csk_clone_lock makes the sock of a new connection of a listener. It has the listener's addresses and port until
// the connection's are set.
struct sock *inet_csk_clone_lock(const struct sock *sk, const void *req, const gfp_t priority)
{
	struct sock *newsk = sk_alloc(sk->sk_family, priority);

	if (!newsk)
		return NULL;
	sock_init_data(NULL, newsk);
	newsk->sk_prot = sk->sk_prot;
	newsk->sk_host = sk->sk_host;
	newsk->sk_type = sk->sk_type;
	newsk->sk_protocol = sk->sk_protocol;
	newsk->__sk_common.skc_reuse = sk->__sk_common.skc_reuse;
	newsk->__sk_common.skc_reuseport = sk->__sk_common.skc_reuseport;
	inet_sk(newsk)->inet_num = inet_sk(sk)->inet_num;
	inet_sk(newsk)->inet_sport = inet_sk(sk)->inet_sport;
	inet_sk(newsk)->inet_saddr = inet_sk(newsk)->inet_rcv_saddr = inet_sk(sk)->inet_saddr;
	newsk->sk_v6_rcv_saddr = sk->sk_v6_rcv_saddr;
	newsk->sk_state = sk->sk_state;
	inet_sk_set_state(newsk, TCP_SYN_RECV);
	return newsk;
}

// inet_csk_destroy_sock is called when a closed sock has no file any more.
void inet_csk_destroy_sock(struct sock *sk)
{
	if (sk->sk_prot->destroy)
		sk->sk_prot->destroy(sk);
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
