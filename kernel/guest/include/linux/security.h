#ifndef _LINUX_SECURITY_H
#define _LINUX_SECURITY_H

#include <linux/types.h>

struct file;
struct sock;
struct socket;
struct sockaddr;
struct msghdr;
struct sk_buff;
struct linux_binprm;

enum lockdown_reason { LOCKDOWN_NONE, LOCKDOWN_TRACEFS = 25 };

int security_locked_down(enum lockdown_reason what);
int security_bprm_creds_for_exec(struct linux_binprm *bprm);
struct task_struct;
struct kernel_siginfo;
struct cred;
struct path;
int security_sb_mount(const char *dev_name, const struct path *path, const char *type, unsigned long flags, void *data);
int security_ptrace_access_check(struct task_struct *child, unsigned int mode);
int security_task_kill(struct task_struct *p, struct kernel_siginfo *info, int sig, const struct cred *cred);
int security_mmap_file(struct file *file, unsigned long prot, unsigned long flags);
int security_file_lock(struct file *file, unsigned int cmd);
int security_bprm_check(struct linux_binprm *bprm);
void security_bprm_committing_creds(struct linux_binprm *bprm);
void security_bprm_committed_creds(struct linux_binprm *bprm);
int security_socket_create(int family, int type, int protocol, int kern);
int security_socket_post_create(struct socket *sock, int family, int type, int protocol, int kern);
int security_socket_socketpair(struct socket *socka, struct socket *sockb);
int security_socket_bind(struct socket *sock, struct sockaddr *address, int addrlen);
int security_socket_connect(struct socket *sock, struct sockaddr *address, int addrlen);
int security_socket_listen(struct socket *sock, int backlog);
int security_socket_accept(struct socket *sock, struct socket *newsock);
int security_socket_sendmsg(struct socket *sock, struct msghdr *msg, int size);
int security_socket_recvmsg(struct socket *sock, struct msghdr *msg, int size, int flags);
int security_socket_getsockname(struct socket *sock);
int security_socket_getpeername(struct socket *sock);
int security_socket_setsockopt(struct socket *sock, int level, int optname);
int security_socket_getsockopt(struct socket *sock, int level, int optname);
int security_socket_shutdown(struct socket *sock, int how);
int security_sock_rcv_skb(struct sock *sk, struct sk_buff *skb);

#endif
