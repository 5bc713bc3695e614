// namei.h: the state of a path walk.
#ifndef _LINUX_NAMEI_H
#define _LINUX_NAMEI_H

#include <linux/fs.h>

#define EMBEDDED_LEVELS 2
#define MAXSYMLINKS 40
#define MAXNESTED 8

enum { LAST_NORM, LAST_ROOT, LAST_DOT, LAST_DOTDOT };

struct delayed_call {
	void (*fn)(void *);
	void *arg;
};

struct saved {
	struct path link;
	struct delayed_call done;
	const char *name;
	unsigned int seq;
};

struct nameidata {
	struct path path; // current position
	struct qstr last; // next component
	struct path root;
	struct inode *inode;
	unsigned int flags, state;
	unsigned int seq, next_seq, m_seq, r_seq;
	int last_type;
	unsigned int depth; // symbolic links being walked
	int total_link_count;
	struct saved *stack;
	struct saved internal[EMBEDDED_LEVELS];
	struct filename *name;
	struct nameidata *saved;
	unsigned int root_seq;
	int dfd;
	kuid_t dir_uid;
	umode_t dir_mode;
};
static_assert(sizeof(struct nameidata) == 232, "nameidata");
static_assert(offsetof(struct nameidata, root) == 32, "nameidata.root");
static_assert(offsetof(struct nameidata, flags) == 56, "nameidata.flags");
static_assert(offsetof(struct nameidata, stack) == 96, "nameidata.stack");
static_assert(offsetof(struct nameidata, name) == 200, "nameidata.name");
static_assert(offsetof(struct nameidata, dfd) == 220, "nameidata.dfd");

#endif
