/* user_namespace.c: ids of users and groups. There is one namespace, in which they are the kernel's own. */
#include <linux/sched.h>
#include <linux/cred.h>

struct user_namespace {
	char nothing;
} init_user_ns;
EXPORT_SYMBOL(init_user_ns);

kuid_t make_kuid(struct user_namespace *ns, uid_t uid)
{
	return (kuid_t){ uid };
}
EXPORT_SYMBOL(make_kuid);

uid_t from_kuid(struct user_namespace *targ, kuid_t kuid)
{
	return kuid.val;
}
EXPORT_SYMBOL(from_kuid);

/* An id that is none is nobody's. */
uid_t from_kuid_munged(struct user_namespace *targ, kuid_t kuid)
{
	return kuid.val == (uid_t)-1 ? 65534 : kuid.val;
}
EXPORT_SYMBOL(from_kuid_munged);

kgid_t make_kgid(struct user_namespace *ns, gid_t gid)
{
	return (kgid_t){ gid };
}
EXPORT_SYMBOL(make_kgid);

gid_t from_kgid(struct user_namespace *targ, kgid_t kgid)
{
	return kgid.val;
}
EXPORT_SYMBOL(from_kgid);

gid_t from_kgid_munged(struct user_namespace *targ, kgid_t kgid)
{
	return kgid.val == (gid_t)-1 ? 65534 : kgid.val;
}
EXPORT_SYMBOL(from_kgid_munged);
