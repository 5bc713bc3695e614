// Sockets as files, and their system calls.
#include <linux/host.h>
#include <linux/hostfs.h>
#include <linux/poll.h>
#include <linux/security.h>
#include <net/sock.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

// A socket_alloc is a socket with its inode.
struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
};

static struct kmem_cache *sock_inode_cachep;
static struct vfsmount *sock_mnt;

static struct socket *SOCKET_I(struct inode *inode)
{
	return &container_of(inode, struct socket_alloc, vfs_inode)->socket;
}

static struct inode *SOCK_INODE(struct socket *sock)
{
	return &container_of(sock, struct socket_alloc, socket)->vfs_inode;
}

static void init_once(void *foo)
{
	inode_init_once(&((struct socket_alloc *)foo)->vfs_inode);
}

static __noipa struct inode *sock_alloc_inode(struct super_block *sb)
{
	struct socket_alloc *ei = kmem_cache_alloc_lru(sock_inode_cachep, NULL, GFP_KERNEL);

	if (!ei)
		return NULL;
	memset(&ei->socket, 0, sizeof(ei->socket));
	init_waitqueue_head(&ei->socket.wq);
	ei->socket.state = SS_UNCONNECTED;
	return &ei->vfs_inode;
}

static void sock_free_inode(struct inode *inode)
{
	kmem_cache_free(sock_inode_cachep, container_of(inode, struct socket_alloc, vfs_inode));
}

static const struct super_operations sockfs_ops = {
	.alloc_inode = sock_alloc_inode,
	.free_inode = sock_free_inode,
};

static int sockfs_fill_super(struct super_block *sb)
{
	struct inode *root;

	sb->s_op = &sockfs_ops;
	sb->s_magic = 0x534f434b;
	root = new_inode(sb);
	if (root)
		root->i_mode = S_IFDIR | 0600;
	sb->s_root = d_make_root(root);
	return sb->s_root ? 0 : -ENOMEM;
}

static struct file_system_type sock_fs_type = { .name = "sockfs", .fill_super = sockfs_fill_super };

noinline struct socket *sock_alloc(void)
{
	struct inode *inode = new_inode_pseudo(sock_mnt->mnt_sb);

	if (!inode)
		return NULL;
	inode->i_ino = get_next_ino();
	inode->i_mode = S_IFSOCK | S_IRWXUGO;
	return SOCKET_I(inode);
}

noinline __noclone void __sock_release(struct socket *sock, struct inode *inode)
{
	if (sock->ops) {
		sock->ops->release(sock);
		sock->ops = NULL;
	}
	// A socket with a file is freed with the file's inode.
	if (!sock->file)
		iput(SOCK_INODE(sock));
}

void sock_release(struct socket *sock)
{
	__sock_release(sock, NULL);
}

// __sock_create returns -EAFNOSUPPORT except for the Internet family and sockets of the
// host's programs.
int __sock_create(void *net, int family, int type, int protocol, struct socket **res, int kern)
{
	struct socket *sock;
	int err;

	if (family != AF_INET && !host_mirrors())
		return -EAFNOSUPPORT;
	err = security_socket_create(family, type, protocol, kern);
	if (err)
		return err;
	sock = sock_alloc();
	if (!sock)
		return -ENFILE;
	sock->type = type;
	err = host_mirrors() ? host_socket_create(sock, family, protocol) : inet_create(net, sock, protocol, kern);
	if (!err)
		err = security_socket_post_create(sock, family, type, protocol, kern);
	if (err) {
		sock_release(sock);
		return err;
	}
	*res = sock;
	return 0;
}

int sock_create(int family, int type, int protocol, struct socket **res)
{
	return __sock_create(NULL, family, type, protocol, res, 0);
}

int sock_create_kern(void *net, int family, int type, int protocol, struct socket **res)
{
	return __sock_create(net, family, type, protocol, res, 1);
}

// What is inlined in Debian's kernels from 6.12 on, and what is in those before.
#if GUEST_LINUX >= 612
#define INLINE_6_12 static inline
#define INLINE_BEFORE_6_12 static __noipa
#else
#define INLINE_6_12 static __noipa
#define INLINE_BEFORE_6_12 static inline
#endif

INLINE_6_12 int __sock_sendmsg(struct socket *sock, struct msghdr *msg)
{
	int err = security_socket_sendmsg(sock, msg, msg->msg_iter.count);

	if (err)
		return err;
	return sock->ops->sendmsg(sock, msg, msg->msg_iter.count);
}

noinline int sock_sendmsg(struct socket *sock, struct msghdr *msg)
{
	return __sock_sendmsg(sock, msg);
}

noinline int sock_recvmsg(struct socket *sock, struct msghdr *msg, int flags)
{
	int err = security_socket_recvmsg(sock, msg, msg->msg_iter.count, flags);

	if (err)
		return err;
	return sock->ops->recvmsg(sock, msg, msg->msg_iter.count, flags);
}

int kernel_sendmsg(struct socket *sock, struct msghdr *msg, struct kvec *vec, size_t num, size_t size)
{
	iov_iter_kvec(&msg->msg_iter, WRITE, vec, num, size);
	return sock_sendmsg(sock, msg);
}

int kernel_recvmsg(struct socket *sock, struct msghdr *msg, struct kvec *vec, size_t num, size_t size, int flags)
{
	iov_iter_kvec(&msg->msg_iter, READ, vec, num, size);
	return sock_recvmsg(sock, msg, flags);
}

int kernel_bind(struct socket *sock, struct sockaddr *addr, int addrlen)
{
	return sock->ops->bind(sock, addr, addrlen);
}

int kernel_listen(struct socket *sock, int backlog)
{
	return sock->ops->listen(sock, backlog);
}

int kernel_connect(struct socket *sock, struct sockaddr *addr, int addrlen, int flags)
{
	return sock->ops->connect(sock, addr, addrlen, flags);
}

int kernel_sock_shutdown(struct socket *sock, int how)
{
	return sock->ops->shutdown(sock, how);
}

int kernel_accept(struct socket *sock, struct socket **newsock, int flags)
{
	struct socket *new = sock_alloc();
	int err;

	if (!new)
		return -ENFILE;
	new->type = sock->type;
	new->ops = sock->ops;
	err = sock->ops->accept(sock, new, flags, true);
	if (err < 0) {
		sock_release(new);
		return err;
	}
	*newsock = new;
	return 0;
}

// sock_alloc_file makes the file of a socket. If it fails, it releases the socket.
noinline __noclone struct file *sock_alloc_file(struct socket *sock, int flags)
{
	const char *name = sock->sk ? sock->sk->sk_prot->name : "";
	struct file *file = alloc_file_pseudo(SOCK_INODE(sock), sock_mnt, name, O_RDWR | (flags & O_NONBLOCK), &socket_file_ops);

	if (IS_ERR(file)) {
		sock_release(sock);
		return file;
	}
	sock->file = file;
	file->private_data = sock;
	stream_open(SOCK_INODE(sock), file);
	return file;
}

// It is inlined in Debian's kernels.
static int sock_map_fd(struct socket *sock, int flags)
{
	int fd = get_unused_fd_flags(flags);

	if (fd < 0) {
		sock_release(sock);
		return fd;
	}
	return host_install_new(fd, sock_alloc_file(sock, flags));
}

static __noipa ssize_t sock_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct file *file = iocb->ki_filp;
	struct msghdr msg = { .msg_iter = *to };

	if (!to->count && !host_mirrors())
		return 0;
	return sock_recvmsg(file->private_data, &msg, file->f_flags & O_NONBLOCK ? MSG_DONTWAIT : 0);
}

static __noipa ssize_t sock_write_iter(struct kiocb *iocb, struct iov_iter *from)
{
	struct file *file = iocb->ki_filp;
	struct msghdr msg = { .msg_iter = *from };

	if (file->f_flags & O_NONBLOCK)
		msg.msg_flags = MSG_DONTWAIT;
	return __sock_sendmsg(file->private_data, &msg);
}

#if GUEST_LINUX >= 612
static __noipa ssize_t splice_to_socket(void *pipe, struct file *out, loff_t *ppos, size_t len, unsigned int flags)
{
	struct msghdr msg = {};

	return sock_sendmsg(out->private_data, &msg);
}
#else
noinline __noclone int kernel_sendpage(struct socket *sock, void *page, int offset, size_t size, int flags)
{
	return sock->ops->sendpage ? sock->ops->sendpage(sock, page, offset, size, flags) : host_made();
}

static __noipa ssize_t sock_sendpage(struct file *file, void *page, int offset, size_t size, loff_t *ppos, int more)
{
	return kernel_sendpage(file->private_data, page, offset, size, more);
}
#endif

ssize_t host_splice_to_socket(struct file *out, loff_t *pos, size_t len)
{
#if GUEST_LINUX >= 612
	return splice_to_socket(NULL, out, pos, len, 0);
#else
	return sock_sendpage(out, NULL, 0, len, pos, 0);
#endif
}

static __noipa int sock_close(struct inode *inode, struct file *filp)
{
	__sock_release(SOCKET_I(inode), inode);
	return 0;
}

static __noipa long sock_do_ioctl(void *net, struct socket *sock, unsigned int cmd, unsigned long arg)
{
	return sock->ops->ioctl(sock, cmd, arg);
}

static __noipa long sock_ioctl(struct file *file, unsigned cmd, unsigned long arg)
{
	return sock_do_ioctl(NULL, file->private_data, cmd, arg);
}

static __noipa unsigned int sock_poll(struct file *file, poll_table *wait)
{
	struct socket *sock = file->private_data;

	return sock->sk && sock->sk->sk_prot->poll ? sock->sk->sk_prot->poll(file, sock, wait) : host_poll_op(file, wait);
}

const struct file_operations socket_file_ops = {
	.poll = sock_poll,
	.llseek = no_llseek,
	.read_iter = sock_read_iter,
	.write_iter = sock_write_iter,
	.unlocked_ioctl = sock_ioctl,
	.release = sock_close,
};

// sockfd_lookup_light returns -EBADF, or -ENOTSOCK for other files.
static __noipa struct socket *sockfd_lookup_light(int fd, int *err, struct fd *f)
{
	*f = fdget(fd);
	*err = -EBADF;
	if (!f->file)
		return NULL;
	if (f->file->f_op == &socket_file_ops)
		return f->file->private_data;
	*err = -ENOTSOCK;
	fdput(*f);
	return NULL;
}

#define ADDR_MAX 128

noinline __noclone int move_addr_to_kernel(void __user *uaddr, int ulen, void *kaddr)
{
	if (ulen < 0 || ulen > ADDR_MAX)
		return -EINVAL;
	return ulen && copy_from_user(kaddr, uaddr, ulen) ? -EFAULT : 0;
}

// move_addr_to_user copies as much as fits, and stores the full length.
static __noipa int move_addr_to_user(void *kaddr, int klen, void __user *uaddr, int __user *ulen)
{
	int len;

	if (host_mirrors()) /* the host's kernel has done it */
		return 0;
	if (get_user(len, ulen))
		return -EFAULT;
	if (len < 0)
		return -EINVAL;
	len = min(len, klen);
	if (len && copy_to_user(uaddr, kaddr, len))
		return -EFAULT;
	return put_user(klen, ulen) ? -EFAULT : 0;
}

noinline int __sys_socket(int family, int type, int protocol)
{
	struct socket *sock = NULL;
	int flags = type & (SOCK_NONBLOCK | SOCK_CLOEXEC), err;

	err = sock_create(family, type & 0xf, protocol, &sock);
	return err < 0 ? err : sock_map_fd(sock, flags);
}

noinline int __sys_bind(int fd, struct sockaddr __user *umyaddr, int addrlen)
{
	char address[ADDR_MAX];
	struct fd f;
	int err;
	struct socket *sock = sockfd_lookup_light(fd, &err, &f);

	if (!sock)
		return err;
	err = move_addr_to_kernel(umyaddr, addrlen, address);
	if (!err)
		err = security_socket_bind(sock, (struct sockaddr *)address, addrlen);
	if (!err)
		err = sock->ops->bind(sock, (struct sockaddr *)address, addrlen);
	fdput(f);
	return err;
}

#define SOMAXCONN 4096

noinline int __sys_listen(int fd, int backlog)
{
	struct fd f;
	int err;
	struct socket *sock = sockfd_lookup_light(fd, &err, &f);

	if (!sock)
		return err;
	err = security_socket_listen(sock, backlog);
	if (!err)
		err = sock->ops->listen(sock, min((unsigned int)backlog, (unsigned int)SOMAXCONN));
	fdput(f);
	return err;
}

// do_accept returns the file of an accepted connection.
noinline __noclone struct file *do_accept(struct file *file, struct sockaddr __user *upeer_sockaddr, int __user *upeer_addrlen, int flags)
{
	struct socket *sock = file->private_data, *newsock = sock_alloc();
	char address[ADDR_MAX];
	struct file *newfile;
	int err, len;

	if (!newsock)
		return ERR_PTR(-ENFILE);
	newsock->type = sock->type;
	newsock->ops = sock->ops;
	newfile = sock_alloc_file(newsock, flags);
	if (IS_ERR(newfile))
		return newfile;
	err = security_socket_accept(sock, newsock);
	if (!err)
		err = sock->ops->accept(sock, newsock, file->f_flags, false);
	if (!err && upeer_sockaddr) {
		len = newsock->ops->getname(newsock, (struct sockaddr *)address, 2);
		err = len < 0 ? -ECONNABORTED : move_addr_to_user(address, len, upeer_sockaddr, upeer_addrlen);
	}
	if (err < 0) {
		fput(newfile);
		return ERR_PTR(err);
	}
	return newfile;
}

noinline int __sys_accept4(int fd, struct sockaddr __user *upeer_sockaddr, int __user *upeer_addrlen, int flags)
{
	struct fd f;
	int err, newfd;

	if (!sockfd_lookup_light(fd, &err, &f))
		return err;
	newfd = get_unused_fd_flags(flags);
	if (newfd >= 0)
		newfd = host_install_new(newfd, do_accept(f.file, upeer_sockaddr, upeer_addrlen, flags));
	fdput(f);
	return newfd;
}

static __noipa int __sys_connect_file(struct file *file, struct sockaddr *address, int addrlen, int file_flags)
{
	struct socket *sock = file->private_data;
	int err = security_socket_connect(sock, address, addrlen);

	if (err)
		return err;
	return sock->ops->connect(sock, address, addrlen, file->f_flags | file_flags);
}

noinline int __sys_connect(int fd, struct sockaddr __user *uservaddr, int addrlen)
{
	char address[ADDR_MAX];
	struct fd f = fdget(fd);
	int err = -EBADF;

	if (!f.file)
		return err;
	err = move_addr_to_kernel(uservaddr, addrlen, address);
	if (!err)
		err = f.file->f_op == &socket_file_ops ? __sys_connect_file(f.file, (struct sockaddr *)address, addrlen, 0) : -ENOTSOCK;
	fdput(f);
	return err;
}

noinline int __sys_sendto(int fd, void __user *buff, size_t len, unsigned int flags, struct sockaddr __user *addr, int addr_len)
{
	struct msghdr msg = { .msg_flags = flags };
	char address[ADDR_MAX];
	struct fd f;
	int err;
	struct socket *sock = sockfd_lookup_light(fd, &err, &f);

	if (!sock)
		return err;
	iov_iter_ubuf(&msg.msg_iter, WRITE, buff, min_t(size_t, len, MAX_RW_COUNT));
	if (f.file->f_flags & O_NONBLOCK)
		msg.msg_flags |= MSG_DONTWAIT;
	err = 0;
	if (addr) {
		err = move_addr_to_kernel(addr, addr_len, address);
		msg.msg_name = address;
		msg.msg_namelen = addr_len;
	}
	if (!err)
		err = __sock_sendmsg(sock, &msg);
	fdput(f);
	return err;
}

noinline int __sys_recvfrom(int fd, void __user *ubuf, size_t size, unsigned int flags, struct sockaddr __user *addr, int __user *addr_len)
{
	struct msghdr msg = { .msg_flags = 0 };
	struct fd f;
	int err;
	struct socket *sock = sockfd_lookup_light(fd, &err, &f);

	if (!sock)
		return err;
	iov_iter_ubuf(&msg.msg_iter, READ, ubuf, min_t(size_t, size, MAX_RW_COUNT));
	err = sock_recvmsg(sock, &msg, flags | (f.file->f_flags & O_NONBLOCK ? MSG_DONTWAIT : 0));
	if (err >= 0 && addr && host_mirrors())
		move_addr_to_user(NULL, 0, addr, addr_len);
	fdput(f);
	return err;
}

noinline int __sys_shutdown(int fd, int how)
{
	struct fd f;
	int err;
	struct socket *sock = sockfd_lookup_light(fd, &err, &f);

	if (!sock)
		return err;
	err = security_socket_shutdown(sock, how);
	if (!err)
		err = sock->ops->shutdown(sock, how);
	fdput(f);
	return err;
}

// The calls from here on do something only for sockets of the host's programs.

// A user_msghdr is what user space gives sendmsg(2) and recvmsg(2).
struct user_msghdr {
	void __user *msg_name;
	int msg_namelen;
	struct iovec __user *msg_iov;
	size_t msg_iovlen;
	void __user *msg_control;
	size_t msg_controllen;
	unsigned int msg_flags;
};
static_assert(sizeof(struct user_msghdr) == 56, "user_msghdr");

static __noipa int ____sys_sendmsg(struct socket *sock, struct msghdr *msg, unsigned int flags)
{
	msg->msg_flags = flags;
	return __sock_sendmsg(sock, msg);
}

static __noipa int ____sys_recvmsg(struct socket *sock, struct msghdr *msg, struct user_msghdr *user, unsigned int flags)
{
	int err = sock_recvmsg(sock, msg, flags);

	if (err >= 0 && user->msg_name)
		move_addr_to_user(NULL, 0, user->msg_name, NULL);
	return err;
}

// copy_msghdr imports a struct msghdr, with the memory for data of which *iov is to be freed.
static int copy_msghdr(struct msghdr *msg, struct user_msghdr *user, struct user_msghdr __user *umsg, int type, struct iovec **iov)
{
	ssize_t err;

	*iov = NULL;
	if (copy_from_user(user, umsg, sizeof(*user)))
		return -EFAULT;
	msg->msg_name = NULL;
	msg->msg_namelen = user->msg_namelen;
	err = import_iovec(type, user->msg_iov, user->msg_iovlen, 0, iov, &msg->msg_iter);
	return min(err, 0L);
}

static __noipa int ___sys_sendmsg(struct socket *sock, struct user_msghdr __user *umsg, struct msghdr *msg, unsigned int flags)
{
	struct user_msghdr user;
	char address[ADDR_MAX];
	struct iovec *iov;
	int err = copy_msghdr(msg, &user, umsg, WRITE, &iov);

	if (!err && user.msg_name) {
		err = move_addr_to_kernel(user.msg_name, user.msg_namelen, address);
		msg->msg_name = address;
	}
	if (!err)
		err = ____sys_sendmsg(sock, msg, flags);
	kfree(iov);
	return err;
}

static __noipa int ___sys_recvmsg(struct socket *sock, struct user_msghdr __user *umsg, struct msghdr *msg, unsigned int flags)
{
	struct user_msghdr user;
	struct iovec *iov;
	int err = copy_msghdr(msg, &user, umsg, READ, &iov);

	if (!err)
		err = ____sys_recvmsg(sock, msg, &user, flags);
	kfree(iov);
	return err;
}

noinline __noclone long __sys_sendmsg(int fd, struct user_msghdr __user *umsg, unsigned int flags, bool forbid_cmsg_compat)
{
	struct msghdr msg = {};
	struct fd f;
	int err;
	struct socket *sock = sockfd_lookup_light(fd, &err, &f);

	if (!sock)
		return err;
	err = ___sys_sendmsg(sock, umsg, &msg, flags);
	fdput(f);
	return err;
}

noinline __noclone long __sys_recvmsg(int fd, struct user_msghdr __user *umsg, unsigned int flags, bool forbid_cmsg_compat)
{
	struct msghdr msg = {};
	struct fd f;
	int err;
	struct socket *sock = sockfd_lookup_light(fd, &err, &f);

	if (!sock)
		return err;
	err = ___sys_recvmsg(sock, umsg, &msg, flags);
	fdput(f);
	return err;
}

// mmsghdr is a message of sendmmsg(2) and recvmmsg(2), of which msg_len says how long it was.
struct mmsghdr {
	struct user_msghdr msg_hdr;
	unsigned int msg_len;
};
static_assert(sizeof(struct mmsghdr) == 64, "mmsghdr");

typedef int (*message_call)(struct socket *sock, struct user_msghdr __user *umsg, struct msghdr *msg, unsigned int flags);

// each_message makes a call for each message of which the host's kernel has sent or received
// some, and the one at which it has ended.
static __always_inline int each_message(int fd, struct mmsghdr __user *mmsg, unsigned int vlen, unsigned int flags, message_call call)
{
	struct socket *sock;
	unsigned int i;
	struct fd f;
	int err;

	if (!host_mirrors())
		return -ENOSYS;
	sock = sockfd_lookup_light(fd, &err, &f);
	if (!sock)
		return err;
	for (i = 0, err = 0; i < vlen && err >= 0; i++) {
		struct msghdr msg = {};

		host_each(&mmsg[i].msg_len, i);
		err = call(sock, &mmsg[i].msg_hdr, &msg, flags);
		host_each(NULL, 0);
	}
	fdput(f);
	return host_made();
}

noinline __noclone int __sys_sendmmsg(int fd, struct mmsghdr __user *mmsg, unsigned int vlen, unsigned int flags, bool forbid_cmsg_compat)
{
	return each_message(fd, mmsg, vlen, flags, ___sys_sendmsg);
}

static __noipa int do_recvmmsg(int fd, struct mmsghdr __user *mmsg, unsigned int vlen, unsigned int flags, struct timespec64 *timeout)
{
	return each_message(fd, mmsg, vlen, flags, ___sys_recvmsg);
}

// get_name is getsockname(2), or with peer getpeername(2).
static __always_inline int get_name(int fd, struct sockaddr __user *addr, int __user *addr_len, bool peer)
{
	char address[ADDR_MAX];
	struct fd f;
	int err;
	struct socket *sock = sockfd_lookup_light(fd, &err, &f);

	if (!sock)
		return err;
	err = peer ? security_socket_getpeername(sock) : security_socket_getsockname(sock);
	if (!err)
		err = sock->ops->getname(sock, (struct sockaddr *)address, peer);
	if (err >= 0)
		err = move_addr_to_user(address, err, addr, addr_len);
	fdput(f);
	return err;
}

noinline __noclone int __sys_getsockname(int fd, struct sockaddr __user *usockaddr, int __user *usockaddr_len)
{
	return get_name(fd, usockaddr, usockaddr_len, false);
}

noinline __noclone int __sys_getpeername(int fd, struct sockaddr __user *usockaddr, int __user *usockaddr_len)
{
	return get_name(fd, usockaddr, usockaddr_len, true);
}

noinline __noclone int sock_setsockopt(struct socket *sock, int level, int optname, char __user *optval, unsigned int optlen)
{
	struct linger linger;
	int val = 0, err = host_result(-ENOPROTOOPT);

	if (!err && optname == SO_LINGER && !copy_from_user(&linger, optval, sizeof(linger)) && linger.l_onoff)
		sock->sk->sk_lingertime = (unsigned long)(unsigned int)linger.l_linger * HZ;
	if (err || (optname != SO_REUSEADDR && optname != SO_REUSEPORT) || copy_from_user(&val, optval, sizeof(val)))
		return err;
	if (optname == SO_REUSEADDR)
		sock->sk->__sk_common.skc_reuse = val ? SK_CAN_REUSE : 0;
	else
		sock->sk->__sk_common.skc_reuseport = !!val;
	return 0;
}

noinline __noclone int sock_getsockopt(struct socket *sock, int level, int optname, char __user *optval, int __user *optlen)
{
	return host_result(-ENOPROTOOPT);
}

INLINE_BEFORE_6_12 int do_sock_setsockopt(struct socket *sock, bool compat, int level, int optname, char __user *optval, int optlen)
{
	int err = security_socket_setsockopt(sock, level, optname);

	if (err)
		return err;
	if (level == SOL_SOCKET)
		return sock_setsockopt(sock, level, optname, optval, optlen);
	return sock->ops->setsockopt ? sock->ops->setsockopt(sock, level, optname, optval, optlen) : host_result(-EOPNOTSUPP);
}

INLINE_BEFORE_6_12 int do_sock_getsockopt(struct socket *sock, bool compat, int level, int optname, char __user *optval, int __user *optlen)
{
	int err = security_socket_getsockopt(sock, level, optname);

	if (err)
		return err;
	if (level == SOL_SOCKET)
		return sock_getsockopt(sock, level, optname, optval, optlen);
	return sock->ops->getsockopt ? sock->ops->getsockopt(sock, level, optname, optval, optlen) : host_result(-EOPNOTSUPP);
}

noinline __noclone int __sys_setsockopt(int fd, int level, int optname, char __user *optval, int optlen)
{
	struct fd f;
	int err;
	struct socket *sock = sockfd_lookup_light(fd, &err, &f);

	if (!sock)
		return err;
	err = do_sock_setsockopt(sock, false, level, optname, optval, optlen);
	fdput(f);
	return err;
}

noinline __noclone int __sys_getsockopt(int fd, int level, int optname, char __user *optval, int __user *optlen)
{
	struct fd f;
	int err;
	struct socket *sock = sockfd_lookup_light(fd, &err, &f);

	if (!sock)
		return err;
	err = do_sock_getsockopt(sock, false, level, optname, optval, optlen);
	fdput(f);
	return err;
}

// make_pair makes the files of two connected sockets.
static int make_pair(int family, int type, int protocol, int flags, struct file *file[2])
{
	struct socket *sock[2];
	int err = sock_create(family, type, protocol, &sock[0]);

	if (err)
		return err;
	err = sock_create(family, type, protocol, &sock[1]);
	if (err)
		goto release_first;
	err = security_socket_socketpair(sock[0], sock[1]);
	if (!err)
		err = sock[0]->ops->socketpair(sock[0], sock[1]);
	if (err)
		goto release_both;
	file[0] = sock_alloc_file(sock[0], flags); /* it releases the socket if it fails */
	if (IS_ERR(file[0])) {
		sock_release(sock[1]);
		return PTR_ERR(file[0]);
	}
	file[1] = sock_alloc_file(sock[1], flags);
	if (IS_ERR(file[1]))
		fput(file[0]);
	return PTR_ERR_OR_ZERO(file[1]);

release_both:
	sock_release(sock[1]);
release_first:
	sock_release(sock[0]);
	return err;
}

// __sys_socketpair installs both ends at the descriptors that the host's kernel has chosen.
noinline __noclone int __sys_socketpair(int family, int type, int protocol, int __user *usockvec)
{
	int flags = type & ~SOCK_TYPE_MASK, fd[2], i, err;
	struct file *file[2];

	if (!host_mirrors())
		return -EOPNOTSUPP;
	for (i = 0; i < 2; i++)
		fd[i] = get_unused_fd_flags(flags);
	err = make_pair(family, type & SOCK_TYPE_MASK, protocol, flags, file);
	for (i = 0; i < 2; i++)
		if (fd[i] >= 0)
			put_unused_fd(fd[i]);
	return err ? err : host_install_pair(file, usockvec);
}

SYSCALL_DEFINE3(socket, int, family, int, type, int, protocol)
{
	return __sys_socket(family, type, protocol);
}

SYSCALL_DEFINE3(bind, int, fd, struct sockaddr __user *, umyaddr, int, addrlen)
{
	return __sys_bind(fd, umyaddr, addrlen);
}

SYSCALL_DEFINE2(listen, int, fd, int, backlog)
{
	return __sys_listen(fd, backlog);
}

SYSCALL_DEFINE3(accept, int, fd, struct sockaddr __user *, addr, int __user *, len)
{
	return __sys_accept4(fd, addr, len, 0);
}

SYSCALL_DEFINE4(accept4, int, fd, struct sockaddr __user *, addr, int __user *, len, int, flags)
{
	return __sys_accept4(fd, addr, len, flags);
}

SYSCALL_DEFINE3(connect, int, fd, struct sockaddr __user *, addr, int, len)
{
	return __sys_connect(fd, addr, len);
}

SYSCALL_DEFINE6(sendto, int, fd, void __user *, buff, size_t, len, unsigned int, flags, struct sockaddr __user *, addr, int, addr_len)
{
	return __sys_sendto(fd, buff, len, flags, addr, addr_len);
}

SYSCALL_DEFINE6(recvfrom, int, fd, void __user *, ubuf, size_t, size, unsigned int, flags, struct sockaddr __user *, addr, int __user *, addr_len)
{
	return __sys_recvfrom(fd, ubuf, size, flags, addr, addr_len);
}

SYSCALL_DEFINE2(shutdown, int, fd, int, how)
{
	return __sys_shutdown(fd, how);
}

SYSCALL_DEFINE3(sendmsg, int, fd, struct user_msghdr __user *, msg, unsigned int, flags)
{
	return __sys_sendmsg(fd, msg, flags, true);
}

SYSCALL_DEFINE3(recvmsg, int, fd, struct user_msghdr __user *, msg, unsigned int, flags)
{
	return __sys_recvmsg(fd, msg, flags, true);
}

SYSCALL_DEFINE4(sendmmsg, int, fd, struct mmsghdr __user *, mmsg, unsigned int, vlen, unsigned int, flags)
{
	return __sys_sendmmsg(fd, mmsg, vlen, flags, true);
}

SYSCALL_DEFINE5(recvmmsg, int, fd, struct mmsghdr __user *, mmsg, unsigned int, vlen, unsigned int, flags, void __user *, timeout)
{
	return do_recvmmsg(fd, mmsg, vlen, flags, NULL);
}

SYSCALL_DEFINE3(getsockname, int, fd, struct sockaddr __user *, usockaddr, int __user *, usockaddr_len)
{
	return __sys_getsockname(fd, usockaddr, usockaddr_len);
}

SYSCALL_DEFINE3(getpeername, int, fd, struct sockaddr __user *, usockaddr, int __user *, usockaddr_len)
{
	return __sys_getpeername(fd, usockaddr, usockaddr_len);
}

SYSCALL_DEFINE4(socketpair, int, family, int, type, int, protocol, int __user *, usockvec)
{
	return __sys_socketpair(family, type, protocol, usockvec);
}

SYSCALL_DEFINE5(setsockopt, int, fd, int, level, int, optname, char __user *, optval, int, optlen)
{
	return __sys_setsockopt(fd, level, optname, optval, optlen);
}

SYSCALL_DEFINE5(getsockopt, int, fd, int, level, int, optname, char __user *, optval, int __user *, optlen)
{
	return __sys_getsockopt(fd, level, optname, optval, optlen);
}

static int __init sock_init(void)
{
	sock_inode_cachep = kmem_cache_create("sock_inode_cache", sizeof(struct socket_alloc), 8,
					      SLAB_HWCACHE_ALIGN | SLAB_PANIC, init_once);
	register_filesystem(&sock_fs_type);
	sock_mnt = kern_mount(&sock_fs_type);
	return IS_ERR(sock_mnt) ? PTR_ERR(sock_mnt) : 0;
}
subsys_initcall(sock_init);
