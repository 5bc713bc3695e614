// Common functions of sockets.
#include <linux/host.h>
#include <net/sock.h>
#include <linux/security.h>

static struct kmem_cache *sock_cache;

struct sock *sk_alloc(int family, gfp_t priority)
{
	struct sock *sk = kmem_cache_zalloc(sock_cache, priority);

	if (sk) {
		sk->sk_family = family;
		sk->__sk_common.skc_net.net = &init_net;
		refcount_set(&sk->sk_refcnt, 1);
	}
	return sk;
}

void sk_free(struct sock *sk)
{
	skb_queue_purge(&sk->sk_receive_queue);
	skb_queue_purge(&sk->sk_backlog);
	kmem_cache_free(sock_cache, sk);
}

noinline void sock_def_wakeup(struct sock *sk)
{
	if (sk->sk_wq && waitqueue_active(sk->sk_wq))
		wake_up_interruptible_all(sk->sk_wq);
}

noinline void sock_def_readable(struct sock *sk)
{
	if (sk->sk_wq && waitqueue_active(sk->sk_wq))
		wake_up_interruptible_all(sk->sk_wq);
}

void sock_def_error_report(struct sock *sk)
{
	if (sk->sk_wq && waitqueue_active(sk->sk_wq))
		wake_up_interruptible_all(sk->sk_wq);
}

void sk_error_report(struct sock *sk)
{
	sock_def_error_report(sk);
}

// sk_stream_write_space wakes up writers if a third of the buffer is free.
void sk_stream_write_space(struct sock *sk)
{
	if (atomic_read(&sk->sk_wmem_alloc) < sk->sk_sndbuf * 2 / 3 && sk->sk_wq && waitqueue_active(sk->sk_wq))
		wake_up_interruptible_all(sk->sk_wq);
}

noinline __noclone void sk_init_common(struct sock *sk)
{
	skb_queue_head_init(&sk->sk_receive_queue);
	skb_queue_head_init(&sk->sk_backlog);
	skb_queue_head_init(&sk->sk_write_queue);
	spin_lock_init(&sk->sk_lock.slock);
	init_waitqueue_head(&sk->sk_lock.wq);
	spin_lock_init(&sk->accept_lock);
	INIT_LIST_HEAD(&sk->accept_queue);
	INIT_LIST_HEAD(&sk->accept_link);
	INIT_HLIST_NODE(&sk->__sk_common.skc_node);
	INIT_HLIST_NODE(&sk->__sk_common.skc_bind_node);
}

#define BUFFER 262144 // bytes in each direction

void sock_init_data(struct socket *sock, struct sock *sk)
{
	sk_init_common(sk);
	sk->sk_state = TCP_CLOSE;
	sk->sk_rcvbuf = sk->sk_sndbuf = BUFFER;
	sk->sk_state_change = sock_def_wakeup;
	sk->sk_data_ready = sock_def_readable;
	sk->sk_write_space = sk_stream_write_space;
	if (sock) {
		sk->sk_host = host_mirrors();
		sk->sk_type = sock->type;
		sk->sk_socket = sock;
		sk->sk_wq = &sock->wq;
		sock->sk = sk;
	}
}

// sock_orphan detaches a sock from its file.
void sock_orphan(struct sock *sk)
{
	sk->dead = true;
	sk->sk_socket = NULL;
	sk->sk_wq = NULL;
}

static __noipa void __lock_sock(struct sock *sk)
{
	DEFINE_WAIT(wait);

	for (;;) {
		prepare_to_wait_exclusive(&sk->sk_lock.wq, &wait, TASK_UNINTERRUPTIBLE);
		spin_unlock_bh(&sk->sk_lock.slock);
		schedule();
		spin_lock_bh(&sk->sk_lock.slock);
		if (!sock_owned_by_user(sk))
			break;
	}
	finish_wait(&sk->sk_lock.wq, &wait);
}

noinline void lock_sock_nested(struct sock *sk, int subclass)
{
	might_sleep();
	spin_lock_bh(&sk->sk_lock.slock);
	if (sk->sk_lock.owned)
		__lock_sock(sk);
	sk->sk_lock.owned = 1;
	spin_unlock_bh(&sk->sk_lock.slock);
}

// __release_sock processes the backlog. It is called and returns with the spinlock
// held.
noinline __noclone void __release_sock(struct sock *sk)
{
	struct sk_buff *skb;

	while ((skb = skb_peek(&sk->sk_backlog))) {
		__skb_unlink(skb, &sk->sk_backlog);
		spin_unlock_bh(&sk->sk_lock.slock);
		tcp_v4_do_rcv(sk, skb);
		cond_resched();
		spin_lock_bh(&sk->sk_lock.slock);
	}
}

noinline void release_sock(struct sock *sk)
{
	spin_lock_bh(&sk->sk_lock.slock);
	if (!skb_queue_empty(&sk->sk_backlog))
		__release_sock(sk);
	sk->sk_lock.owned = 0;
	if (waitqueue_active(&sk->sk_lock.wq))
		wake_up(&sk->sk_lock.wq);
	spin_unlock_bh(&sk->sk_lock.slock);
}

void sock_wfree(struct sk_buff *skb)
{
	struct sock *sk = skb->sk;

	atomic_sub(skb->truesize, &sk->sk_wmem_alloc);
	sk->sk_write_space(sk);
	sock_put(sk);
}

void sock_rfree(struct sk_buff *skb)
{
	atomic_sub(skb->truesize, &skb->sk->sk_rmem_alloc);
}

void skb_set_owner_w(struct sk_buff *skb, struct sock *sk)
{
	sock_hold(sk);
	skb->sk = sk;
	skb->destructor = sock_wfree;
	atomic_add(skb->truesize, &sk->sk_wmem_alloc);
}

void skb_set_owner_r(struct sk_buff *skb, struct sock *sk)
{
	skb->sk = sk;
	skb->destructor = sock_rfree;
	atomic_add(skb->truesize, &sk->sk_rmem_alloc);
}

// sk_wait_data sleeps until there is data or the end of the stream.
int sk_wait_data(struct sock *sk, long *timeo)
{
	*timeo = sk_wait_event(sk, *timeo, !skb_queue_empty(&sk->sk_receive_queue) || sk->sk_err ||
			       sk->sk_shutdown & RCV_SHUTDOWN || sk->sk_state == TCP_CLOSE);
	return *timeo < 0 ? (int)*timeo : 0;
}

// sk_stream_wait_memory sleeps until there is space to write.
int sk_stream_wait_memory(struct sock *sk, long *timeo)
{
	*timeo = sk_wait_event(sk, *timeo, atomic_read(&sk->sk_wmem_alloc) < sk->sk_sndbuf || sk->sk_err ||
			       sk->sk_shutdown & SEND_SHUTDOWN);
	if (*timeo < 0)
		return *timeo;
	return *timeo ? 0 : -EAGAIN;
}

int sk_filter_trim_cap(struct sock *sk, struct sk_buff *skb, unsigned int cap)
{
	return security_sock_rcv_skb(sk, skb);
}

// A pending timer holds a reference to its sock.
void sk_reset_timer(struct sock *sk, struct timer_list *timer, unsigned long expires)
{
	if (!mod_timer(timer, expires))
		sock_hold(sk);
}

void sk_stop_timer(struct sock *sk, struct timer_list *timer)
{
	if (del_timer(timer))
		sock_put(sk);
}

// Operations that a family lacks.
#define SOCK_NO(name, ...)				\
noinline __noclone int sock_no_##name(__VA_ARGS__)	\
{							\
	return host_result(-EOPNOTSUPP);		\
}

SOCK_NO(bind, struct socket *sock, struct sockaddr *saddr, int len)
SOCK_NO(connect, struct socket *sock, struct sockaddr *saddr, int len, int flags)
SOCK_NO(socketpair, struct socket *sock1, struct socket *sock2)
SOCK_NO(accept, struct socket *sock, struct socket *newsock, int flags, bool kern)
SOCK_NO(getname, struct socket *sock, struct sockaddr *saddr, int peer)
SOCK_NO(ioctl, struct socket *sock, unsigned int cmd, unsigned long arg)
SOCK_NO(listen, struct socket *sock, int backlog)
SOCK_NO(shutdown, struct socket *sock, int how)
SOCK_NO(sendmsg, struct socket *sock, struct msghdr *m, size_t len)
SOCK_NO(recvmsg, struct socket *sock, struct msghdr *m, size_t len, int flags)

// Options of sockets: all are the host's.
noinline __noclone int sock_common_setsockopt(struct socket *sock, int level, int optname, char __user *optval, unsigned int optlen)
{
	return host_result(-ENOPROTOOPT);
}

noinline __noclone int sock_common_getsockopt(struct socket *sock, int level, int optname, char __user *optval, int __user *optlen)
{
	return host_result(-ENOPROTOOPT);
}

static int __init sock_cache_init(void)
{
	skb_init();
	sock_cache = kmem_cache_create("TCP", sizeof(struct tcp_sock), 8, SLAB_HWCACHE_ALIGN | SLAB_PANIC, NULL);
	return 0;
}
core_initcall(sock_cache_init);
