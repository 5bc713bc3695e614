#ifndef _LINUX_NOTIFIER_H
#define _LINUX_NOTIFIER_H
#include <linux/rwsem.h>
struct notifier_block;
typedef int (*notifier_fn_t)(struct notifier_block *nb, unsigned long action, void *data);
struct notifier_block { notifier_fn_t notifier_call; struct notifier_block *next; int priority; };
struct raw_notifier_head { struct notifier_block *head; };
struct atomic_notifier_head { spinlock_t lock; struct notifier_block *head; };
static_assert(sizeof(struct atomic_notifier_head) == 16, "struct atomic_notifier_head");
struct blocking_notifier_head { struct rw_semaphore rwsem; struct notifier_block *head; };
#define RAW_NOTIFIER_HEAD(n) struct raw_notifier_head n = { NULL }
#define BLOCKING_NOTIFIER_HEAD(n) struct blocking_notifier_head n = { __RWSEM_INITIALIZER((n).rwsem), NULL }
#define NOTIFY_DONE 0
#define NOTIFY_OK 1
#define NOTIFY_STOP_MASK 0x8000
#define NOTIFY_STOP (NOTIFY_OK | NOTIFY_STOP_MASK)
struct pt_regs;
enum die_val { DIE_OOPS = 1, DIE_INT3 };
struct die_args { struct pt_regs *regs; const char *str; long err; int trapnr, signr; };
int register_die_notifier(struct notifier_block *nb);
int unregister_die_notifier(struct notifier_block *nb);
int notify_die(enum die_val val, const char *str, struct pt_regs *regs, long err, int trap, int sig);
int raw_notifier_chain_register(struct raw_notifier_head *nh, struct notifier_block *n);
int raw_notifier_chain_unregister(struct raw_notifier_head *nh, struct notifier_block *n);
int raw_notifier_call_chain(struct raw_notifier_head *nh, unsigned long val, void *v);
int atomic_notifier_chain_register(struct atomic_notifier_head *nh, struct notifier_block *n);
int atomic_notifier_chain_unregister(struct atomic_notifier_head *nh, struct notifier_block *n);
int atomic_notifier_call_chain(struct atomic_notifier_head *nh, unsigned long val, void *v);
int blocking_notifier_chain_register(struct blocking_notifier_head *nh, struct notifier_block *n);
int blocking_notifier_chain_unregister(struct blocking_notifier_head *nh, struct notifier_block *n);
int blocking_notifier_call_chain_robust(struct blocking_notifier_head *nh, unsigned long val_up, unsigned long val_down, void *v);
int blocking_notifier_call_chain(struct blocking_notifier_head *nh, unsigned long val, void *v);
#define NOTIFY_BAD (NOTIFY_STOP_MASK | 2)
#define ATOMIC_NOTIFIER_INIT(name) { .lock = __SPIN_LOCK_UNLOCKED((name).lock), .head = NULL }
#define ATOMIC_NOTIFIER_HEAD(name) struct atomic_notifier_head name = ATOMIC_NOTIFIER_INIT(name)
#define ATOMIC_INIT_NOTIFIER_HEAD(name) do { spin_lock_init(&(name)->lock); (name)->head = NULL; } while (0)
#define BLOCKING_INIT_NOTIFIER_HEAD(name) do { init_rwsem(&(name)->rwsem); (name)->head = NULL; } while (0)
#define RAW_INIT_NOTIFIER_HEAD(name) do { (name)->head = NULL; } while (0)
static inline int notifier_from_errno(int err) { return err ? NOTIFY_STOP_MASK | (NOTIFY_OK - err) : NOTIFY_OK; }
static inline int notifier_to_errno(int ret) { ret &= ~NOTIFY_STOP_MASK; return ret > NOTIFY_OK ? NOTIFY_OK - ret : 0; }
extern struct atomic_notifier_head panic_notifier_list;
int register_pm_notifier(struct notifier_block *nb);
int unregister_pm_notifier(struct notifier_block *nb);
int register_oom_notifier(struct notifier_block *nb);
int unregister_oom_notifier(struct notifier_block *nb);
int register_keyboard_notifier(struct notifier_block *nb);
int unregister_keyboard_notifier(struct notifier_block *nb);
int register_vt_notifier(struct notifier_block *nb);
int unregister_vt_notifier(struct notifier_block *nb);
int register_inetaddr_notifier(struct notifier_block *nb);
int unregister_inetaddr_notifier(struct notifier_block *nb);
int register_netdevice_notifier(struct notifier_block *nb);
int unregister_netdevice_notifier(struct notifier_block *nb);
#endif
