// The hooks of security modules. There is one module, as always in Debian's kernel:
// BPF's, which allows everything.
#include <linux/fs.h>
#include <linux/security.h>

// Each hook of the BPF module is a separate function, so that it can be traced.
#define LSM_HOOK(name, ...)						\
noinline int bpf_lsm_##name(__VA_ARGS__);				\
noinline int bpf_lsm_##name(__VA_ARGS__)				\
{									\
	__asm__ volatile("");						\
	return 0;							\
}

LSM_HOOK(bprm_creds_for_exec, struct linux_binprm *bprm)
LSM_HOOK(bprm_check_security, struct linux_binprm *bprm)
LSM_HOOK(file_alloc_security, struct file *file)
LSM_HOOK(file_open, struct file *file)
LSM_HOOK(file_permission, struct file *file, int mask)
LSM_HOOK(inode_alloc_security, struct inode *inode)
LSM_HOOK(inode_permission, struct inode *inode, int mask)
LSM_HOOK(inode_getattr, const struct path *path)
LSM_HOOK(inode_mkdir, struct inode *dir, struct dentry *dentry, umode_t mode)
LSM_HOOK(inode_symlink, struct inode *dir, struct dentry *dentry, const char *old_name)
LSM_HOOK(inode_unlink, struct inode *dir, struct dentry *dentry)
LSM_HOOK(inode_create, struct inode *dir, struct dentry *dentry, umode_t mode)
LSM_HOOK(inode_rmdir, struct inode *dir, struct dentry *dentry)
LSM_HOOK(inode_follow_link, struct dentry *dentry, struct inode *inode, bool rcu)
LSM_HOOK(locked_down, enum lockdown_reason what)
LSM_HOOK(task_kill, struct task_struct *p, struct kernel_siginfo *info, int sig, const struct cred *cred)
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
