// Sockets as files, and their system calls.
#include <linux/host.h>
#include <linux/hostfs.h>
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

// __sock_create returns -EAFNOSUPPORT except for the Internet family.
int __sock_create(void *net, int family, int type, int protocol, struct socket **res, int kern)
{
	struct socket *sock;
	int err;

	if (family != AF_INET)
		return -EAFNOSUPPORT;
	sock = sock_alloc();
	if (!sock)
		return -ENFILE;
	sock->type = type;
	err = inet_create(net, sock, protocol, kern);
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

noinline int sock_sendmsg(struct socket *sock, struct msghdr *msg)
{
	return sock->ops->sendmsg(sock, msg, msg->msg_iter.count);
}

noinline int sock_recvmsg(struct socket *sock, struct msghdr *msg, int flags)
{
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
	struct file *file = alloc_file_pseudo(SOCK_INODE(sock), sock_mnt, "TCP", O_RDWR | (flags & O_NONBLOCK), &socket_file_ops);

	if (IS_ERR(file)) {
		sock_release(sock);
		return file;
	}
	sock->file = file;
	file->private_data = sock;
	stream_open(SOCK_INODE(sock), file);
	return file;
}

static __noipa int sock_map_fd(struct socket *sock, int flags)
{
	int fd = get_unused_fd_flags(flags);
	struct file *file;

	if (fd < 0) {
		sock_release(sock);
		return fd;
	}
	file = sock_alloc_file(sock, flags);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		return PTR_ERR(file);
	}
	fd_install(fd, file);
	return fd;
}

static __noipa ssize_t sock_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct file *file = iocb->ki_filp;
	struct msghdr msg = { .msg_iter = *to };

	if (host_mirrors())
		return host_transfer(iocb);
	if (!to->count)
		return 0;
	return sock_recvmsg(file->private_data, &msg, file->f_flags & O_NONBLOCK ? MSG_DONTWAIT : 0);
}

static __noipa ssize_t sock_write_iter(struct kiocb *iocb, struct iov_iter *from)
{
	struct file *file = iocb->ki_filp;
	struct msghdr msg = { .msg_iter = *from };

	if (host_mirrors())
		return host_transfer(iocb);
	if (file->f_flags & O_NONBLOCK)
		msg.msg_flags = MSG_DONTWAIT;
	return sock_sendmsg(file->private_data, &msg);
}

static __noipa int sock_close(struct inode *inode, struct file *filp)
{
	if (filp->private_data) /* not one of the host */
		__sock_release(SOCKET_I(inode), inode);
	return 0;
}

const struct file_operations socket_file_ops = {
	.llseek = no_llseek,
	.read_iter = sock_read_iter,
	.write_iter = sock_write_iter,
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
	struct file *newfile;
	struct fd f;
	int err, newfd;

	if (!sockfd_lookup_light(fd, &err, &f))
		return err;
	newfd = get_unused_fd_flags(flags);
	if (newfd >= 0) {
		newfile = do_accept(f.file, upeer_sockaddr, upeer_addrlen, flags);
		if (IS_ERR(newfile)) {
			put_unused_fd(newfd);
			newfd = PTR_ERR(newfile);
		} else {
			fd_install(newfd, newfile);
		}
	}
	fdput(f);
	return newfd;
}

noinline int __sys_connect(int fd, struct sockaddr __user *uservaddr, int addrlen)
{
	char address[ADDR_MAX];
	struct fd f;
	int err;
	struct socket *sock = sockfd_lookup_light(fd, &err, &f);

	if (!sock)
		return err;
	err = move_addr_to_kernel(uservaddr, addrlen, address);
	if (!err)
		err = sock->ops->connect(sock, (struct sockaddr *)address, addrlen, f.file->f_flags);
	fdput(f);
	return err;
}

noinline int __sys_sendto(int fd, void __user *buff, size_t len, unsigned int flags, struct sockaddr __user *addr, int addr_len)
{
	struct msghdr msg = { .msg_flags = flags };
	struct fd f;
	int err;
	struct socket *sock = sockfd_lookup_light(fd, &err, &f);

	if (!sock)
		return err;
	iov_iter_ubuf(&msg.msg_iter, WRITE, buff, min_t(size_t, len, MAX_RW_COUNT));
	if (f.file->f_flags & O_NONBLOCK)
		msg.msg_flags |= MSG_DONTWAIT;
	err = sock_sendmsg(sock, &msg);
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
	err = sock->ops->shutdown(sock, how);
	fdput(f);
	return err;
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

static int __init sock_init(void)
{
	sock_inode_cachep = kmem_cache_create("sock_inode_cache", sizeof(struct socket_alloc), 8,
					      SLAB_HWCACHE_ALIGN | SLAB_PANIC, init_once);
	register_filesystem(&sock_fs_type);
	sock_mnt = kern_mount(&sock_fs_type);
	return IS_ERR(sock_mnt) ? PTR_ERR(sock_mnt) : 0;
}
subsys_initcall(sock_init);
