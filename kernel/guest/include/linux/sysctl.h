// sysctl.h: files below /proc/sys.
#ifndef _LINUX_SYSCTL_H
#define _LINUX_SYSCTL_H

#include <linux/types.h>
#include <linux/wait.h>

struct ctl_table;
struct completion;

// A proc_handler moves a value to or from buffer, which the kernel has allocated and ended
// with a NUL. It sets *lenp to what it has used, and *ppos to what follows.
#if GUEST_LINUX >= 612
typedef int proc_handler(const struct ctl_table *table, int write, void *buffer, size_t *lenp, loff_t *ppos);
#define CTL_TABLE const struct ctl_table
#else
typedef int proc_handler(struct ctl_table *table, int write, void *buffer, size_t *lenp, loff_t *ppos);
#define CTL_TABLE struct ctl_table
#endif

struct ctl_table_poll {
	atomic_t event;
	wait_queue_head_t wait;
};

struct ctl_table {
	const char *procname; // the last one of a table has none
	void *data;
	int maxlen;
	umode_t mode;
#if GUEST_LINUX < 612
	struct ctl_table *child;
#endif
	proc_handler *proc_handler;
	struct ctl_table_poll *poll;
	void *extra1, *extra2;
};
#if GUEST_LINUX < 612
static_assert(sizeof(struct ctl_table) == 64, "struct ctl_table");
#endif

// A ctl_table_header stands for what one call has registered.
struct ctl_table_header {
	struct ctl_table *ctl_table;
	int used, count, nreg;
	struct completion *unregistering;
	struct ctl_table *ctl_table_arg;
};

struct ctl_path {
	const char *procname;
};

#if GUEST_LINUX >= 612
struct ctl_table_header *register_sysctl_sz(const char *path, struct ctl_table *table, size_t table_size);
#define register_sysctl(path, table) register_sysctl_sz(path, table, ARRAY_SIZE(table))
#else
struct ctl_table_header *register_sysctl(const char *path, struct ctl_table *table);
struct ctl_table_header *register_sysctl_table(struct ctl_table *table);
struct ctl_table_header *register_sysctl_paths(const struct ctl_path *path, struct ctl_table *table);
#endif
void unregister_sysctl_table(struct ctl_table_header *header);

int proc_dostring(CTL_TABLE *, int, void *, size_t *, loff_t *);
int proc_dobool(CTL_TABLE *, int, void *, size_t *, loff_t *);
int proc_dointvec(CTL_TABLE *, int, void *, size_t *, loff_t *);
int proc_douintvec(CTL_TABLE *, int, void *, size_t *, loff_t *);
int proc_dointvec_minmax(CTL_TABLE *, int, void *, size_t *, loff_t *);
int proc_douintvec_minmax(CTL_TABLE *, int, void *, size_t *, loff_t *);
int proc_dou8vec_minmax(CTL_TABLE *, int, void *, size_t *, loff_t *);
int proc_dointvec_jiffies(CTL_TABLE *, int, void *, size_t *, loff_t *);
int proc_dointvec_userhz_jiffies(CTL_TABLE *, int, void *, size_t *, loff_t *);
int proc_dointvec_ms_jiffies(CTL_TABLE *, int, void *, size_t *, loff_t *);
int proc_doulongvec_minmax(CTL_TABLE *, int, void *, size_t *, loff_t *);
int proc_doulongvec_ms_jiffies_minmax(CTL_TABLE *, int, void *, size_t *, loff_t *);

// sysctl_check_array reports whether the handler of a table takes one value only, of which
// there is more.
bool sysctl_check_array(const struct ctl_table *table);
// sysctl_has_data reports whether the handler of a table needs data and maxlen.
bool sysctl_has_data(const struct ctl_table *table);

extern const int sysctl_vals[];
#define SYSCTL_ZERO ((void *)&sysctl_vals[0])
#define SYSCTL_ONE ((void *)&sysctl_vals[1])
#define SYSCTL_TWO ((void *)&sysctl_vals[2])
#define SYSCTL_THREE ((void *)&sysctl_vals[3])
#define SYSCTL_FOUR ((void *)&sysctl_vals[4])
#define SYSCTL_ONE_HUNDRED ((void *)&sysctl_vals[5])
#define SYSCTL_TWO_HUNDRED ((void *)&sysctl_vals[6])
#define SYSCTL_ONE_THOUSAND ((void *)&sysctl_vals[7])
#define SYSCTL_THREE_THOUSAND ((void *)&sysctl_vals[8])
#define SYSCTL_INT_MAX ((void *)&sysctl_vals[9])
#define SYSCTL_MAXOLDUID ((void *)&sysctl_vals[10])
#define SYSCTL_NEG_ONE ((void *)&sysctl_vals[11])
extern const unsigned long sysctl_long_vals[];
#define SYSCTL_LONG_ZERO ((void *)&sysctl_long_vals[0])
#define SYSCTL_LONG_ONE ((void *)&sysctl_long_vals[1])
#define SYSCTL_LONG_MAX ((void *)&sysctl_long_vals[2])

#endif
