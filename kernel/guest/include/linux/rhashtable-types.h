// rhashtable-types.h: what structures with an rhashtable in them need.
#ifndef _LINUX_RHASHTABLE_TYPES_H
#define _LINUX_RHASHTABLE_TYPES_H

#include <linux/atomic.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>

struct rhash_head {
	struct rhash_head *next;
};

// The entries of an rhltable that have the same key are a list, of which the first is in the
// chain of its bucket.
struct rhlist_head {
	struct rhash_head rhead;
	struct rhlist_head *next;
};

struct bucket_table;

struct rhashtable_compare_arg {
	struct rhashtable *ht;
	const void *key;
};

typedef u32 (*rht_hashfn_t)(const void *data, u32 len, u32 seed);
typedef u32 (*rht_obj_hashfn_t)(const void *data, u32 len, u32 seed);
typedef int (*rht_obj_cmpfn_t)(struct rhashtable_compare_arg *arg, const void *obj);

struct rhashtable_params {
	u16 nelem_hint, key_len, key_offset, head_offset;
	unsigned int max_size;
	u16 min_size;
	bool automatic_shrinking;
	rht_hashfn_t hashfn;
	rht_obj_hashfn_t obj_hashfn;
	rht_obj_cmpfn_t obj_cmpfn;
};
static_assert(sizeof(struct rhashtable_params) == 40, "struct rhashtable_params");

struct rhashtable {
	struct bucket_table *tbl;
	unsigned int key_len, max_elems; // key_len is what hashfn gets: bytes or words
	struct rhashtable_params p;
	bool rhlist;
	struct work_struct run_work;
	struct mutex mutex; // of who moves entries to another table
	spinlock_t lock;    // of the walkers
	atomic_t nelems;
};
static_assert(offsetof(struct rhashtable, run_work) == 64, "rhashtable.run_work");
static_assert(offsetof(struct rhashtable, nelems) == 132, "rhashtable.nelems");
static_assert(sizeof(struct rhashtable) == 136, "struct rhashtable");

struct rhltable {
	struct rhashtable ht;
};

struct rhashtable_walker {
	struct list_head list;
	struct bucket_table *tbl;
};

struct rhashtable_iter {
	struct rhashtable *ht;
	struct rhash_head *p;
	struct rhlist_head *list;
	struct rhashtable_walker walker;
	unsigned int slot, skip;
	bool end_of_table;
};
static_assert(sizeof(struct rhashtable_iter) == 64, "struct rhashtable_iter");

int rhashtable_init(struct rhashtable *ht, const struct rhashtable_params *params);
int rhltable_init(struct rhltable *hlt, const struct rhashtable_params *params);

#endif
