// The hooks of security modules. There is one module, as always in Debian's kernel:
// BPF's, which allows everything.
#include <linux/fs.h>
#include <linux/security.h>

// Each hook of the BPF module is a separate function, so that it can be traced.
#define LSM_HOOK(name, ...)						\
noinline __noclone int bpf_lsm_##name(__VA_ARGS__);			\
noinline __noclone int bpf_lsm_##name(__VA_ARGS__)				\
{									\
	__asm__ volatile("");						\
	return 0;							\
}

LSM_HOOK(ptrace_access_check, struct task_struct *child, unsigned int mode)
LSM_HOOK(sb_mount, const char *dev_name, const struct path *path, const char *type, unsigned long flags, void *data)
LSM_HOOK(bprm_creds_for_exec, struct linux_binprm *bprm)
LSM_HOOK(bprm_check_security, struct linux_binprm *bprm)
LSM_HOOK(file_alloc_security, struct file *file)
LSM_HOOK(file_open, struct file *file)
LSM_HOOK(file_permission, struct file *file, int mask)
LSM_HOOK(mmap_file, struct file *file, unsigned long reqprot, unsigned long prot, unsigned long flags)
LSM_HOOK(file_lock, struct file *file, unsigned int cmd)
LSM_HOOK(inode_alloc_security, struct inode *inode)
LSM_HOOK(inode_permission, struct inode *inode, int mask)
LSM_HOOK(inode_getattr, const struct path *path)
LSM_HOOK(inode_mkdir, struct inode *dir, struct dentry *dentry, umode_t mode)
LSM_HOOK(inode_symlink, struct inode *dir, struct dentry *dentry, const char *old_name)
LSM_HOOK(inode_unlink, struct inode *dir, struct dentry *dentry)
LSM_HOOK(inode_create, struct inode *dir, struct dentry *dentry, umode_t mode)
LSM_HOOK(inode_rmdir, struct inode *dir, struct dentry *dentry)
LSM_HOOK(inode_rename, struct inode *old_dir, struct dentry *old_dentry, struct inode *new_dir, struct dentry *new_dentry)
LSM_HOOK(inode_follow_link, struct dentry *dentry, struct inode *inode, bool rcu)
LSM_HOOK(locked_down, enum lockdown_reason what)
LSM_HOOK(task_kill, struct task_struct *p, struct kernel_siginfo *info, int sig, const struct cred *cred)
LSM_HOOK(socket_create, int family, int type, int protocol, int kern)
LSM_HOOK(socket_post_create, struct socket *sock, int family, int type, int protocol, int kern)
LSM_HOOK(socket_socketpair, struct socket *socka, struct socket *sockb)
LSM_HOOK(socket_bind, struct socket *sock, struct sockaddr *address, int addrlen)
LSM_HOOK(socket_connect, struct socket *sock, struct sockaddr *address, int addrlen)
LSM_HOOK(socket_listen, struct socket *sock, int backlog)
LSM_HOOK(socket_accept, struct socket *sock, struct socket *newsock)
LSM_HOOK(socket_sendmsg, struct socket *sock, struct msghdr *msg, int size)
LSM_HOOK(socket_recvmsg, struct socket *sock, struct msghdr *msg, int size, int flags)
LSM_HOOK(socket_getsockname, struct socket *sock)
LSM_HOOK(socket_getpeername, struct socket *sock)
LSM_HOOK(socket_setsockopt, struct socket *sock, int level, int optname)
LSM_HOOK(socket_getsockopt, struct socket *sock, int level, int optname)
LSM_HOOK(socket_shutdown, struct socket *sock, int how)
LSM_HOOK(socket_sock_rcv_skb, struct sock *sk, struct sk_buff *skb)

noinline void bpf_lsm_d_instantiate(struct dentry *dentry, struct inode *inode)
{
	__asm__ volatile("");
}

noinline void bpf_lsm_bprm_committing_creds(struct linux_binprm *bprm)
{
	__asm__ volatile("");
}

noinline void bpf_lsm_bprm_committed_creds(struct linux_binprm *bprm)
{
	__asm__ volatile("");
}

noinline void bpf_lsm_file_free_security(struct file *file)
{
	__asm__ volatile("");
}

int security_ptrace_access_check(struct task_struct *child, unsigned int mode)
{
	return bpf_lsm_ptrace_access_check(child, mode);
}

int security_sb_mount(const char *dev_name, const struct path *path, const char *type, unsigned long flags, void *data)
{
	return bpf_lsm_sb_mount(dev_name, path, type, flags, data);
}

int security_task_kill(struct task_struct *p, struct kernel_siginfo *info, int sig, const struct cred *cred)
{
	return bpf_lsm_task_kill(p, info, sig, cred);
}

int security_file_alloc(struct file *file)
{
	return bpf_lsm_file_alloc_security(file);
}

void security_file_free(struct file *file)
{
	bpf_lsm_file_free_security(file);
}

int security_file_open(struct file *file)
{
	return bpf_lsm_file_open(file);
}

int security_mmap_file(struct file *file, unsigned long prot, unsigned long flags)
{
	return bpf_lsm_mmap_file(file, prot, prot, flags);
}

int security_file_lock(struct file *file, unsigned int cmd)
{
	return bpf_lsm_file_lock(file, cmd);
}

int security_file_permission(struct file *file, int mask)
{
	return bpf_lsm_file_permission(file, mask);
}

int security_inode_alloc(struct inode *inode)
{
	inode->i_security = NULL;
	return bpf_lsm_inode_alloc_security(inode);
}

void security_inode_free(struct inode *inode)
{
	WARN_ON(inode->i_security);
}

int security_inode_permission(struct inode *inode, int mask)
{
	return bpf_lsm_inode_permission(inode, mask);
}

int security_inode_getattr(const struct path *path)
{
	return bpf_lsm_inode_getattr(path);
}

int security_inode_mkdir(struct inode *dir, struct dentry *dentry, umode_t mode)
{
	return bpf_lsm_inode_mkdir(dir, dentry, mode);
}

int security_inode_symlink(struct inode *dir, struct dentry *dentry, const char *old_name)
{
	return bpf_lsm_inode_symlink(dir, dentry, old_name);
}

int security_inode_unlink(struct inode *dir, struct dentry *dentry)
{
	return bpf_lsm_inode_unlink(dir, dentry);
}

int security_inode_create(struct inode *dir, struct dentry *dentry, umode_t mode)
{
	return bpf_lsm_inode_create(dir, dentry, mode);
}

int security_inode_rmdir(struct inode *dir, struct dentry *dentry)
{
	return bpf_lsm_inode_rmdir(dir, dentry);
}

int security_inode_rename(struct inode *old_dir, struct dentry *old_dentry, struct inode *new_dir, struct dentry *new_dentry, unsigned int flags)
{
	if (unlikely(flags & RENAME_EXCHANGE)) {
		int err = bpf_lsm_inode_rename(new_dir, new_dentry, old_dir, old_dentry);

		if (err)
			return err;
	}
	return bpf_lsm_inode_rename(old_dir, old_dentry, new_dir, new_dentry);
}

int security_inode_follow_link(struct dentry *dentry, struct inode *inode, bool rcu)
{
	return bpf_lsm_inode_follow_link(dentry, inode, rcu);
}

void security_d_instantiate(struct dentry *dentry, struct inode *inode)
{
	bpf_lsm_d_instantiate(dentry, inode);
}

int security_bprm_creds_for_exec(struct linux_binprm *bprm)
{
	return bpf_lsm_bprm_creds_for_exec(bprm);
}

int security_bprm_check(struct linux_binprm *bprm)
{
	return bpf_lsm_bprm_check_security(bprm);
}

void security_bprm_committing_creds(struct linux_binprm *bprm)
{
	bpf_lsm_bprm_committing_creds(bprm);
}

void security_bprm_committed_creds(struct linux_binprm *bprm)
{
	bpf_lsm_bprm_committed_creds(bprm);
}

int security_locked_down(enum lockdown_reason what)
{
	return bpf_lsm_locked_down(what);
}

int security_sock_rcv_skb(struct sock *sk, struct sk_buff *skb)
{
	return bpf_lsm_socket_sock_rcv_skb(sk, skb);
}

int security_socket_create(int family, int type, int protocol, int kern)
{
	return bpf_lsm_socket_create(family, type, protocol, kern);
}

int security_socket_post_create(struct socket *sock, int family, int type, int protocol, int kern)
{
	return bpf_lsm_socket_post_create(sock, family, type, protocol, kern);
}

int security_socket_socketpair(struct socket *socka, struct socket *sockb)
{
	return bpf_lsm_socket_socketpair(socka, sockb);
}

int security_socket_bind(struct socket *sock, struct sockaddr *address, int addrlen)
{
	return bpf_lsm_socket_bind(sock, address, addrlen);
}

int security_socket_connect(struct socket *sock, struct sockaddr *address, int addrlen)
{
	return bpf_lsm_socket_connect(sock, address, addrlen);
}

int security_socket_listen(struct socket *sock, int backlog)
{
	return bpf_lsm_socket_listen(sock, backlog);
}

int security_socket_accept(struct socket *sock, struct socket *newsock)
{
	return bpf_lsm_socket_accept(sock, newsock);
}

int security_socket_sendmsg(struct socket *sock, struct msghdr *msg, int size)
{
	return bpf_lsm_socket_sendmsg(sock, msg, size);
}

int security_socket_recvmsg(struct socket *sock, struct msghdr *msg, int size, int flags)
{
	return bpf_lsm_socket_recvmsg(sock, msg, size, flags);
}

int security_socket_getsockname(struct socket *sock)
{
	return bpf_lsm_socket_getsockname(sock);
}

int security_socket_getpeername(struct socket *sock)
{
	return bpf_lsm_socket_getpeername(sock);
}

int security_socket_setsockopt(struct socket *sock, int level, int optname)
{
	return bpf_lsm_socket_setsockopt(sock, level, optname);
}

int security_socket_getsockopt(struct socket *sock, int level, int optname)
{
	return bpf_lsm_socket_getsockopt(sock, level, optname);
}

int security_socket_shutdown(struct socket *sock, int how)
{
	return bpf_lsm_socket_shutdown(sock, how);
}
