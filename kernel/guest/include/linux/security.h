#ifndef _LINUX_SECURITY_H
#define _LINUX_SECURITY_H

#include <linux/types.h>

struct sock;
struct sk_buff;
struct linux_binprm;

enum lockdown_reason { LOCKDOWN_NONE, LOCKDOWN_TRACEFS = 25 };

int security_locked_down(enum lockdown_reason what);
int security_bprm_creds_for_exec(struct linux_binprm *bprm);
struct task_struct;
struct kernel_siginfo;
struct cred;
int security_task_kill(struct task_struct *p, struct kernel_siginfo *info, int sig, const struct cred *cred);
int security_bprm_check(struct linux_binprm *bprm);
void security_bprm_committing_creds(struct linux_binprm *bprm);
void security_bprm_committed_creds(struct linux_binprm *bprm);
int security_sock_rcv_skb(struct sock *sk, struct sk_buff *skb);

#endif
