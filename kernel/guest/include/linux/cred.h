/* cred.h: who a task is. */
#ifndef _LINUX_CRED_H
#define _LINUX_CRED_H
#include <linux/atomic.h>
typedef struct { u32 cap[2]; } kernel_cap_t;
struct user_struct;
struct user_namespace;
struct cred {
	atomic_long_t usage;
	kuid_t uid; kgid_t gid; kuid_t suid; kgid_t sgid;
	kuid_t euid; kgid_t egid; kuid_t fsuid; kgid_t fsgid;
	unsigned int securebits;
	kernel_cap_t cap_inheritable, cap_permitted, cap_effective, cap_bset, cap_ambient;
	unsigned char jit_keyring;
	void *session_keyring, *process_keyring, *thread_keyring, *request_key_auth;
	void *security;
	struct user_struct *user;
	struct user_namespace *user_ns;
	void *ucounts, *group_info;
	union { int non_rcu; struct callback_head rcu; };
};
static_assert(sizeof(struct cred) == 176, "struct cred");
struct task_struct;
extern struct cred init_cred;
int copy_creds(struct task_struct *p, unsigned long clone_flags);
struct cred *prepare_creds(void);
struct cred *prepare_kernel_cred(struct task_struct *daemon);
int commit_creds(struct cred *new);
const struct cred *get_task_cred(struct task_struct *task);
const struct cred *override_creds(const struct cred *new);
void revert_creds(const struct cred *old);
extern struct user_namespace init_user_ns;
kuid_t make_kuid(struct user_namespace *ns, uid_t uid);
uid_t from_kuid(struct user_namespace *targ, kuid_t kuid);
uid_t from_kuid_munged(struct user_namespace *targ, kuid_t kuid);
kgid_t make_kgid(struct user_namespace *ns, gid_t gid);
gid_t from_kgid(struct user_namespace *targ, kgid_t kgid);
gid_t from_kgid_munged(struct user_namespace *targ, kgid_t kgid);
void __put_cred(struct cred *cred);
void exit_creds(struct task_struct *tsk);
static inline const struct cred *get_cred(const struct cred *c) { atomic_long_inc((atomic_long_t *)&c->usage); return c; }
static inline void put_cred(const struct cred *c)
{
	if (c && atomic_long_dec_and_test((atomic_long_t *)&c->usage))
		__put_cred((struct cred *)c);
}
#define current_cred() (current->cred)
#define current_fsuid() (current->cred->fsuid)
#define current_uid() (current->cred->uid)
bool capable(int cap);
#ifdef MODULE
#define current_gid() (current->cred->gid)
#define current_euid() (current->cred->euid)
#define current_egid() (current->cred->egid)
#define current_suid() (current->cred->suid)
#define current_sgid() (current->cred->sgid)
#define current_uid_gid(u, g) do { *(u) = current_uid(); *(g) = current_gid(); } while (0)
#define current_euid_egid(u, g) do { *(u) = current_euid(); *(g) = current_egid(); } while (0)
#define current_fsuid_fsgid(u, g) do { *(u) = current_fsuid(); *(g) = current->cred->fsgid; } while (0)
#define get_current_cred() get_cred(current_cred())
#define task_cred_xxx(task, xxx) ({ __typeof__(((struct cred *)NULL)->xxx) __v; rcu_read_lock(); __v = (task)->cred->xxx; rcu_read_unlock(); __v; })
#define task_uid(task) task_cred_xxx(task, uid)
#define task_euid(task) task_cred_xxx(task, euid)
#endif
#endif
