// Stream sockets of the Internet family.
#include <linux/host.h>
#include <net/sock.h>

noinline __noclone int inet_release(struct socket *sock)
{
	struct sock *sk = sock->sk;

	if (sk) {
		sock->sk = NULL;
		sk->sk_prot->close(sk, 0);
	}
	return 0;
}

// __inet_bind returns -EADDRNOTAVAIL if the address is not local, or -EADDRINUSE.
noinline __noclone int __inet_bind(struct sock *sk, struct sockaddr_in *addr)
{
	int err = -EINVAL;
	__be32 saddr = addr->sin_addr;

	if (saddr && !sk->sk_host && IS_ERR(ip_route_output_flow(NULL, saddr, &saddr)))
		return -EADDRNOTAVAIL;
	lock_sock(sk);
	if (sk->sk_state == TCP_CLOSE && !inet_sk(sk)->inet_num) {
		inet_sk(sk)->inet_saddr = inet_sk(sk)->inet_rcv_saddr = addr->sin_addr;
		err = sk->sk_prot->get_port(sk, ntohs(addr->sin_port));
		if (err)
			inet_sk(sk)->inet_saddr = inet_sk(sk)->inet_rcv_saddr = 0;
		else if (sk->sk_host)
			host_bound(sk, addr->sin_port);
		host_addresses(sk, host_tells(sk), true);
		if (!err)
			sk->port_kept = addr->sin_port;
	}
	release_sock(sk);
	return err;
}

noinline __noclone int inet_bind(struct socket *sock, struct sockaddr *uaddr, int addr_len)
{
	if (addr_len < (int)sizeof(struct sockaddr_in))
		return -EINVAL;
	if (uaddr->sa_family != AF_INET)
		return -EAFNOSUPPORT;
	return __inet_bind(sock->sk, (struct sockaddr_in *)uaddr);
}

noinline __noclone int inet_listen(struct socket *sock, int backlog)
{
	struct sock *sk = sock->sk;
	int err = -EINVAL;

	lock_sock(sk);
	if (sock->state == SS_UNCONNECTED && (sk->sk_state == TCP_CLOSE || sk->sk_state == TCP_LISTEN)) {
		sk->sk_max_ack_backlog = backlog;
		err = sk->sk_state == TCP_LISTEN ? 0 : inet_csk_listen_start(sk);
	}
	release_sock(sk);
	return err;
}

static bool connecting(const struct sock *sk)
{
	return sk->sk_state == TCP_SYN_SENT || sk->sk_state == TCP_SYN_RECV;
}

static __always_inline long inet_wait_for_connect(struct sock *sk, long timeo)
{
	return sk_wait_event(sk, timeo, !connecting(sk) || sk->sk_err);
}

// disconnected is called when a connection has failed.
static void disconnected(struct socket *sock)
{
	sock->state = SS_UNCONNECTED;
	if (sock->sk->sk_prot->disconnect)
		sock->sk->sk_prot->disconnect(sock->sk, 0);
}

// host_stream_connect is __inet_stream_connect for a sock of the host.
static int host_stream_connect(struct socket *sock, struct sockaddr *uaddr, int addr_len)
{
	int err;

	if (sock->state == SS_UNCONNECTED) {
		err = sock->sk->sk_prot->connect(sock->sk, uaddr, addr_len);
		if (err)
			return err;
	}
	err = host_made();
	host_follow(sock->sk, host_tells(sock->sk));
	if (!err)
		sock->state = SS_CONNECTED;
	else if (err == -EINPROGRESS || err == -EALREADY || err == -EINTR || err <= -ERESTARTSYS)
		sock->state = SS_CONNECTING;
	else if (err != -EISCONN)
		disconnected(sock);
	return err;
}

// __inet_stream_connect is called with the sock locked. It returns -EISCONN,
// -EALREADY, -EINPROGRESS, -ECONNREFUSED, ...
noinline __noclone int __inet_stream_connect(struct socket *sock, struct sockaddr *uaddr, int addr_len, int flags)
{
	struct sock *sk = sock->sk;
	long timeo;
	int err;

	if (sk->sk_host)
		return host_stream_connect(sock, uaddr, addr_len);
	if (sock->state == SS_CONNECTED)
		return -EISCONN;
	if (sock->state == SS_UNCONNECTED) {
		if (sk->sk_state != TCP_CLOSE)
			return -EISCONN;
		err = sk->sk_prot->connect(sk, uaddr, addr_len);
		if (err < 0)
			return err;
		sock->state = SS_CONNECTING;
		if (flags & O_NONBLOCK && connecting(sk))
			return -EINPROGRESS;
	}
	if (connecting(sk)) {
		timeo = flags & O_NONBLOCK ? 0 : inet_wait_for_connect(sk, MAX_SCHEDULE_TIMEOUT);
		if (timeo < 0)
			return timeo;
		if (!timeo)
			return -EALREADY;
	}
	if (sk->sk_state == TCP_CLOSE) {
		err = sk->sk_err ? -sk->sk_err : -ECONNABORTED;
		sk->sk_err = 0;
		disconnected(sock);
		return err;
	}
	sock->state = SS_CONNECTED;
	return 0;
}

int inet_stream_connect(struct socket *sock, struct sockaddr *uaddr, int addr_len, int flags)
{
	int err;

	lock_sock(sock->sk);
	err = __inet_stream_connect(sock, uaddr, addr_len, flags);
	release_sock(sock->sk);
	return err;
}

// sock_graft attaches an accepted connection to its socket.
static void sock_graft(struct sock *sk, struct socket *newsock)
{
	spin_lock_bh(&sk->sk_lock.slock);
	newsock->sk = sk;
	sk->sk_socket = newsock;
	sk->sk_wq = &newsock->wq;
	spin_unlock_bh(&sk->sk_lock.slock);
	newsock->state = SS_CONNECTED;
}

noinline __noclone int inet_accept(struct socket *sock, struct socket *newsock, int flags, bool kern)
{
	int err = -EINVAL;
	struct sock *sk = inet_csk_accept(sock->sk, flags, &err, kern);

	if (!sk)
		return err;
	sock_graft(sk, newsock);
	return 0;
}

noinline __noclone int inet_getname(struct socket *sock, struct sockaddr *uaddr, int peer)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)uaddr;
	struct sock *sk = sock->sk;

	if (sk->sk_host && host_made() < 0)
		return host_made();
	if (peer && !sk->sk_host && !inet_sk(sk)->inet_dport)
		return -ENOTCONN;
	memset(sin, 0, sizeof(*sin));
	sin->sin_family = AF_INET;
	sin->sin_port = peer ? inet_sk(sk)->inet_dport : inet_sk(sk)->inet_sport;
	sin->sin_addr = peer ? inet_sk(sk)->inet_daddr : inet_sk(sk)->inet_saddr;
	return sizeof(*sin);
}

noinline __noclone int inet_sendmsg(struct socket *sock, struct msghdr *msg, size_t size)
{
	return sock->sk->sk_prot->sendmsg(sock->sk, msg, size);
}

noinline __noclone int inet_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)
{
	return sock->sk->sk_prot->recvmsg(sock->sk, msg, size, flags);
}

noinline __noclone int inet_shutdown(struct socket *sock, int how)
{
	struct sock *sk = sock->sk;
	int err = 0;

	how++; // 0 read, 1 write, 2 both: as bits
	if (how & ~SHUTDOWN_MASK || !how)
		return -EINVAL;
	lock_sock(sk);
	if (sk->sk_host) {
		sk->sk_shutdown |= how;
		if (sk->sk_prot->shutdown)
			sk->sk_prot->shutdown(sk, how);
		err = host_made();
		host_follow(sk, host_tells(sk));
	} else if (sk->sk_state == TCP_CLOSE || sk->sk_state == TCP_LISTEN) {
		err = -ENOTCONN;
	} else {
		sk->sk_shutdown |= how;
		tcp_shutdown(sk, how);
		sk->sk_state_change(sk);
	}
	release_sock(sk);
	return err;
}

noinline __noclone int inet_dgram_connect(struct socket *sock, struct sockaddr *uaddr, int addr_len, int flags)
{
	return sock->sk->sk_prot->connect(sock->sk, uaddr, addr_len);
}

noinline __noclone int inet_ioctl(struct socket *sock, unsigned int cmd, unsigned long arg)
{
	return sock->sk->sk_prot->ioctl ? sock->sk->sk_prot->ioctl(sock->sk, cmd, arg) : host_result(-ENOIOCTLCMD);
}

#if GUEST_LINUX < 612
static __noipa int tcp_sendpage(struct sock *sk, void *page, int offset, size_t size, int flags)
{
	return host_made();
}

noinline __noclone ssize_t inet_sendpage(struct socket *sock, void *page, int offset, size_t size, int flags)
{
	return sock->type == SOCK_STREAM ? tcp_sendpage(sock->sk, page, offset, size, flags) : host_made();
}
#define INET_SENDPAGE .sendpage = inet_sendpage,
#else
#define INET_SENDPAGE
#endif

static const struct proto_ops inet_stream_ops = {
	INET_SENDPAGE
	.family = AF_INET,
	.release = inet_release,
	.bind = inet_bind,
	.connect = inet_stream_connect,
	.socketpair = sock_no_socketpair,
	.accept = inet_accept,
	.getname = inet_getname,
	.listen = inet_listen,
	.shutdown = inet_shutdown,
	.sendmsg = inet_sendmsg,
	.recvmsg = inet_recvmsg,
	.ioctl = inet_ioctl,
	.setsockopt = sock_common_setsockopt,
	.getsockopt = sock_common_getsockopt,
};

// The other types: only for sockets of the host.
static const struct proto_ops inet_dgram_ops = {
	INET_SENDPAGE
	.family = AF_INET,
	.release = inet_release,
	.bind = inet_bind,
	.connect = inet_dgram_connect,
	.socketpair = sock_no_socketpair,
	.accept = sock_no_accept,
	.getname = inet_getname,
	.listen = sock_no_listen,
	.shutdown = inet_shutdown,
	.sendmsg = inet_sendmsg,
	.recvmsg = inet_recvmsg,
	.ioctl = inet_ioctl,
	.setsockopt = sock_common_setsockopt,
	.getsockopt = sock_common_getsockopt,
};

// inet_create returns -ESOCKTNOSUPPORT or -EPROTONOSUPPORT except for TCP and sockets of the
// host.
int inet_create(void *net, struct socket *sock, int protocol, int kern)
{
	struct sock *sk;

	if (sock->type != SOCK_STREAM && !host_mirrors())
		return -ESOCKTNOSUPPORT;
	if (protocol && protocol != IPPROTO_TCP && !host_mirrors())
		return -EPROTONOSUPPORT;
	sk = sk_alloc(AF_INET, GFP_KERNEL);
	if (!sk)
		return -ENOBUFS;
	sock->ops = sock->type == SOCK_STREAM ? &inet_stream_ops : &inet_dgram_ops;
	sock_init_data(sock, sk);
	sk->sk_prot = sock->type == SOCK_STREAM ? &tcp_prot : host_inet_prot(sock->type);
	sk->sk_protocol = inet_protocol(sock->type, protocol);
	return sk->sk_prot->init(sk);
}
