// rhashtable.h: hash tables that grow and shrink while they are used. Code of Linux's headers
// works on them too, so that the chains are as it expects them: bit 0 of a bucket is its lock,
// and the last entry of a chain points to its bucket, with bit 0 set. A table that is
// replaced points to the next one, to which its entries are moved, the last of a chain first.
#ifndef _LINUX_RHASHTABLE_H
#define _LINUX_RHASHTABLE_H

#include <linux/bit_spinlock.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/interrupt.h>
#include <linux/jhash.h>
#include <linux/kernel.h>
#include <linux/rcupdate.h>
#include <linux/rhashtable-types.h>
#include <linux/string.h>

#define RHT_ELASTICITY 16u

struct rhash_lock_head {};

struct bucket_table {
	unsigned int size, nest;
	u32 hash_rnd;
	struct list_head walkers;
	struct rcu_head rcu;
	struct bucket_table *future_tbl;
	struct rhash_lock_head *buckets[] __attribute__((aligned(64)));
};
static_assert(offsetof(struct bucket_table, future_tbl) == 48, "bucket_table.future_tbl");
static_assert(offsetof(struct bucket_table, buckets) == 64, "bucket_table.buckets");

void *rhashtable_insert_slow(struct rhashtable *ht, const void *key, struct rhash_head *obj);
void rhashtable_walk_enter(struct rhashtable *ht, struct rhashtable_iter *iter);
void rhashtable_walk_exit(struct rhashtable_iter *iter);
int rhashtable_walk_start_check(struct rhashtable_iter *iter);
void *rhashtable_walk_next(struct rhashtable_iter *iter);
void *rhashtable_walk_peek(struct rhashtable_iter *iter);
void rhashtable_walk_stop(struct rhashtable_iter *iter);
void rhashtable_free_and_destroy(struct rhashtable *ht, void (*free_fn)(void *ptr, void *arg), void *arg);
void rhashtable_destroy(struct rhashtable *ht);
struct rhash_lock_head **rht_bucket_nested(const struct bucket_table *tbl, unsigned int hash);
struct rhash_lock_head **__rht_bucket_nested(const struct bucket_table *tbl, unsigned int hash);
struct rhash_lock_head **rht_bucket_nested_insert(struct rhashtable *ht, struct bucket_table *tbl, unsigned int hash);

#define RHT_NULLS_MARKER(ptr) ((void *)((unsigned long)(ptr) | 1))
#define INIT_RHT_NULLS_HEAD(ptr) ((ptr) = NULL)

#define rht_dereference(p, ht) (p)
#define rht_dereference_rcu(p, ht) READ_ONCE(p)
#define rht_dereference_bucket(p, tbl, hash) (p)
#define rht_dereference_bucket_rcu(p, tbl, hash) READ_ONCE(p)
#define rht_entry(tpos, pos, member) ({ tpos = container_of(pos, typeof(*tpos), member); 1; })

static inline bool rht_is_a_nulls(const struct rhash_head *ptr) { return (unsigned long)ptr & 1; }
static inline void *rht_obj(const struct rhashtable *ht, const struct rhash_head *he) { return (char *)he - ht->p.head_offset; }
static inline unsigned int rht_bucket_index(const struct bucket_table *tbl, unsigned int hash) { return hash & (tbl->size - 1); }

// Where key is, or would be. What the parameters say has been noted in the table.
static inline unsigned int rht_key_get_hash(struct rhashtable *ht, const void *key, const struct rhashtable_params params, unsigned int hash_rnd)
{
	return ht->p.hashfn(key, ht->key_len, hash_rnd);
}

static inline unsigned int rht_key_hashfn(struct rhashtable *ht, const struct bucket_table *tbl, const void *key, const struct rhashtable_params params)
{
	return rht_bucket_index(tbl, ht->p.hashfn(key, ht->key_len, tbl->hash_rnd));
}

static inline unsigned int rht_head_hashfn(struct rhashtable *ht, const struct bucket_table *tbl, const struct rhash_head *he, const struct rhashtable_params params)
{
	const char *obj = rht_obj(ht, he);

	if (!ht->p.obj_hashfn)
		return rht_key_hashfn(ht, tbl, obj + ht->p.key_offset, params);
	return rht_bucket_index(tbl, ht->p.obj_hashfn(obj, ht->p.key_len, tbl->hash_rnd));
}

static inline bool __rht_may_grow(const struct rhashtable *ht, const struct bucket_table *tbl)
{
	return !ht->p.max_size || tbl->size < ht->p.max_size;
}

static inline bool rht_grow_above_75(const struct rhashtable *ht, const struct bucket_table *tbl)
{
	return atomic_read(&ht->nelems) > tbl->size / 4 * 3 && __rht_may_grow(ht, tbl);
}

static inline bool rht_grow_above_100(const struct rhashtable *ht, const struct bucket_table *tbl)
{
	return atomic_read(&ht->nelems) > tbl->size && __rht_may_grow(ht, tbl);
}

static inline bool rht_grow_above_max(const struct rhashtable *ht, const struct bucket_table *tbl)
{
	return atomic_read(&ht->nelems) >= ht->max_elems;
}

static inline bool rht_shrink_below_30(const struct rhashtable *ht, const struct bucket_table *tbl)
{
	return atomic_read(&ht->nelems) < tbl->size * 3 / 10 && tbl->size > ht->p.min_size;
}

static inline struct rhash_lock_head *const *rht_bucket(const struct bucket_table *tbl, unsigned int hash) { return &tbl->buckets[hash]; }
static inline struct rhash_lock_head **rht_bucket_var(struct bucket_table *tbl, unsigned int hash) { return &tbl->buckets[hash]; }
static inline struct rhash_lock_head **rht_bucket_insert(struct rhashtable *ht, struct bucket_table *tbl, unsigned int hash) { return &tbl->buckets[hash]; }

static inline void rht_lock(struct bucket_table *tbl, struct rhash_lock_head **bkt)
{
	local_bh_disable();
	bit_spin_lock(0, (unsigned long *)bkt);
}

static inline void rht_unlock(struct bucket_table *tbl, struct rhash_lock_head **bkt)
{
	bit_spin_unlock(0, (unsigned long *)bkt);
	local_bh_enable();
}

// rht_ptr_rcu is the first of a chain, or what ends it, whether the bucket is locked or not.
static inline struct rhash_head *rht_ptr_rcu(struct rhash_lock_head *const *bkt)
{
	unsigned long first = (unsigned long)READ_ONCE(*bkt) & ~1UL;

	return first ? (struct rhash_head *)first : RHT_NULLS_MARKER(bkt);
}
#define rht_ptr(bkt, tbl, hash) rht_ptr_rcu(bkt)
#define rht_ptr_exclusive(bkt) rht_ptr_rcu(bkt)

// rht_assign_locked makes obj the first of a chain, which stays locked.
static inline void rht_assign_locked(struct rhash_lock_head **bkt, struct rhash_head *obj)
{
	unsigned long first = rht_is_a_nulls(obj) ? 0 : (unsigned long)obj;

	smp_store_release(bkt, (struct rhash_lock_head *)(first | 1));
}

static inline void rht_assign_unlock(struct bucket_table *tbl, struct rhash_lock_head **bkt, struct rhash_head *obj)
{
	rht_assign_locked(bkt, obj);
	rht_unlock(tbl, bkt);
}

#define rht_for_each_from(pos, head, tbl, hash) for (pos = (head); !rht_is_a_nulls(pos); pos = (pos)->next)
#define rht_for_each(pos, tbl, hash) rht_for_each_from(pos, rht_ptr_rcu(rht_bucket(tbl, hash)), tbl, hash)
#define rht_for_each_rcu_from(pos, head, tbl, hash) for (pos = (head); !rht_is_a_nulls(pos); pos = READ_ONCE((pos)->next))
#define rht_for_each_rcu(pos, tbl, hash) rht_for_each_rcu_from(pos, rht_ptr_rcu(rht_bucket(tbl, hash)), tbl, hash)
#define rht_for_each_entry_from(tpos, pos, head, tbl, hash, member) \
	for (pos = (head); !rht_is_a_nulls(pos) && rht_entry(tpos, pos, member); pos = (pos)->next)
#define rht_for_each_entry(tpos, pos, tbl, hash, member) \
	rht_for_each_entry_from(tpos, pos, rht_ptr_rcu(rht_bucket(tbl, hash)), tbl, hash, member)
#define rht_for_each_entry_rcu_from(tpos, pos, head, tbl, hash, member) \
	for (pos = (head); !rht_is_a_nulls(pos) && rht_entry(tpos, pos, member); pos = READ_ONCE((pos)->next))
#define rht_for_each_entry_rcu(tpos, pos, tbl, hash, member) \
	rht_for_each_entry_rcu_from(tpos, pos, rht_ptr_rcu(rht_bucket(tbl, hash)), tbl, hash, member)
#define rhl_for_each_rcu(pos, list) for (pos = (list); pos; pos = READ_ONCE((pos)->next))
#define rhl_for_each_entry_rcu(tpos, pos, list, member) \
	for (pos = (list); pos && rht_entry(tpos, pos, member); pos = READ_ONCE((pos)->next))

static inline int rhashtable_compare(struct rhashtable_compare_arg *arg, const void *obj)
{
	return memcmp((const char *)obj + arg->ht->p.key_offset, arg->key, arg->ht->p.key_len);
}

static inline int __rht_differs(struct rhashtable *ht, const void *key, const struct rhash_head *he)
{
	struct rhashtable_compare_arg arg = {.ht = ht, .key = key};

	return ht->p.obj_cmpfn ? ht->p.obj_cmpfn(&arg, rht_obj(ht, he)) : rhashtable_compare(&arg, rht_obj(ht, he));
}

// A reader who has come to the end of another chain stood on an entry that was moved.
static inline struct rhash_head *__rhashtable_lookup(struct rhashtable *ht, const void *key, const struct rhashtable_params params)
{
	struct bucket_table *tbl;
	struct rhash_head *he;

	for (tbl = READ_ONCE(ht->tbl); tbl; tbl = READ_ONCE(tbl->future_tbl)) {
		struct rhash_lock_head *const *bkt = rht_bucket(tbl, rht_key_hashfn(ht, tbl, key, params));

		do {
			rht_for_each_rcu_from(he, rht_ptr_rcu(bkt), tbl, 0)
				if (!__rht_differs(ht, key, he))
					return he;
		} while (he != RHT_NULLS_MARKER(bkt));
		smp_rmb(); // a table that was attached before an entry moved to it is seen
	}
	return NULL;
}

static inline void *rhashtable_lookup(struct rhashtable *ht, const void *key, const struct rhashtable_params params)
{
	struct rhash_head *he = __rhashtable_lookup(ht, key, params);

	return he ? rht_obj(ht, he) : NULL;
}

static inline void *rhashtable_lookup_fast(struct rhashtable *ht, const void *key, const struct rhashtable_params params)
{
	void *obj;

	rcu_read_lock();
	obj = rhashtable_lookup(ht, key, params);
	rcu_read_unlock();
	return obj;
}

static inline struct rhlist_head *rhltable_lookup(struct rhltable *hlt, const void *key, const struct rhashtable_params params)
{
	struct rhash_head *he = __rhashtable_lookup(&hlt->ht, key, params);

	return he ? container_of(he, struct rhlist_head, rhead) : NULL;
}

static inline int __rht_inserted(void *found)
{
	return IS_ERR(found) ? PTR_ERR(found) : found ? -EEXIST : 0;
}

static inline int rhashtable_insert_fast(struct rhashtable *ht, struct rhash_head *obj, const struct rhashtable_params params)
{
	return __rht_inserted(rhashtable_insert_slow(ht, NULL, obj));
}

static inline void *rhashtable_lookup_get_insert_fast(struct rhashtable *ht, struct rhash_head *obj, const struct rhashtable_params params)
{
	BUG_ON(ht->p.obj_hashfn);
	return rhashtable_insert_slow(ht, (char *)rht_obj(ht, obj) + ht->p.key_offset, obj);
}

static inline int rhashtable_lookup_insert_fast(struct rhashtable *ht, struct rhash_head *obj, const struct rhashtable_params params)
{
	return __rht_inserted(rhashtable_lookup_get_insert_fast(ht, obj, params));
}

static inline void *rhashtable_lookup_get_insert_key(struct rhashtable *ht, const void *key, struct rhash_head *obj, const struct rhashtable_params params)
{
	BUG_ON(!ht->p.obj_hashfn || !key);
	return rhashtable_insert_slow(ht, key, obj);
}

static inline int rhashtable_lookup_insert_key(struct rhashtable *ht, const void *key, struct rhash_head *obj, const struct rhashtable_params params)
{
	return __rht_inserted(rhashtable_lookup_get_insert_key(ht, key, obj, params));
}

static inline int rhltable_insert_key(struct rhltable *hlt, const void *key, struct rhlist_head *list, const struct rhashtable_params params)
{
	return PTR_ERR(rhashtable_insert_slow(&hlt->ht, key, &list->rhead));
}

static inline int rhltable_insert(struct rhltable *hlt, struct rhlist_head *list, const struct rhashtable_params params)
{
	return rhltable_insert_key(hlt, (char *)rht_obj(&hlt->ht, &list->rhead) + hlt->ht.p.key_offset, list, params);
}

// __rht_replace puts other into obj's place in a chain that the caller has locked, which is
// the end of the chain if obj was the last. It reports whether obj was there.
static inline bool __rht_replace(struct rhash_lock_head **bkt, struct rhash_head *obj, struct rhash_head *other)
{
	struct rhash_head *he, *before = NULL;

	rht_for_each_from(he, rht_ptr_rcu(bkt), NULL, 0) {
		if (he != obj) {
			before = he;
			continue;
		}
		if (before)
			smp_store_release(&before->next, other);
		else
			rht_assign_locked(bkt, other);
		return true;
	}
	return false;
}

// __rht_unlist takes an entry out of a list of equal ones. It is not in the chain itself.
static inline bool __rht_unlist(struct rhash_lock_head **bkt, struct rhlist_head *entry)
{
	struct rhash_head *he;
	struct rhlist_head *l;

	rht_for_each_from(he, rht_ptr_rcu(bkt), NULL, 0) {
		for (l = container_of(he, struct rhlist_head, rhead); l->next; l = l->next) {
			if (l->next != entry)
				continue;
			WRITE_ONCE(l->next, entry->next);
			return true;
		}
	}
	return false;
}

static inline int __rhashtable_remove_fast(struct rhashtable *ht, struct rhash_head *obj, const struct rhashtable_params params, bool rhlist)
{
	struct rhlist_head *entry = container_of(obj, struct rhlist_head, rhead);
	struct bucket_table *tbl;
	int err = -ENOENT;

	rcu_read_lock();
	for (tbl = READ_ONCE(ht->tbl); tbl && err; tbl = READ_ONCE(tbl->future_tbl)) {
		struct rhash_lock_head **bkt = rht_bucket_var(tbl, rht_head_hashfn(ht, tbl, obj, params));
		bool last = !rhlist || !entry->next;

		rht_lock(tbl, bkt);
		if (!last)
			WRITE_ONCE(entry->next->rhead.next, obj->next);
		if (__rht_replace(bkt, obj, last ? obj->next : &entry->next->rhead))
			err = 0;
		else if (rhlist && __rht_unlist(bkt, entry))
			err = last = false;
		rht_unlock(tbl, bkt);
		if (err || !last)
			continue;
		atomic_dec(&ht->nelems);
		if (ht->p.automatic_shrinking && rht_shrink_below_30(ht, tbl))
			schedule_work(&ht->run_work);
	}
	rcu_read_unlock();
	return err;
}

static inline int rhashtable_remove_fast(struct rhashtable *ht, struct rhash_head *obj, const struct rhashtable_params params)
{
	return __rhashtable_remove_fast(ht, obj, params, false);
}

static inline int rhltable_remove(struct rhltable *hlt, struct rhlist_head *list, const struct rhashtable_params params)
{
	return __rhashtable_remove_fast(&hlt->ht, &list->rhead, params, true);
}

static inline int rhashtable_replace_fast(struct rhashtable *ht, struct rhash_head *obj_old, struct rhash_head *obj_new, const struct rhashtable_params params)
{
	struct bucket_table *tbl;
	int err = -ENOENT;

	rcu_read_lock();
	for (tbl = READ_ONCE(ht->tbl); tbl && err == -ENOENT; tbl = READ_ONCE(tbl->future_tbl)) {
		unsigned int hash = rht_head_hashfn(ht, tbl, obj_old, params);
		struct rhash_lock_head **bkt = rht_bucket_var(tbl, hash);

		if (hash != rht_head_hashfn(ht, tbl, obj_new, params)) {
			err = -EINVAL;
			break;
		}
		rht_lock(tbl, bkt);
		WRITE_ONCE(obj_new->next, obj_old->next);
		if (__rht_replace(bkt, obj_old, obj_new))
			err = 0;
		rht_unlock(tbl, bkt);
	}
	rcu_read_unlock();
	return err;
}

static inline void rhashtable_walk_start(struct rhashtable_iter *iter) { rhashtable_walk_start_check(iter); }
static inline void rhltable_walk_enter(struct rhltable *hlt, struct rhashtable_iter *iter) { rhashtable_walk_enter(&hlt->ht, iter); }
static inline void rhltable_free_and_destroy(struct rhltable *hlt, void (*free_fn)(void *ptr, void *arg), void *arg) { rhashtable_free_and_destroy(&hlt->ht, free_fn, arg); }
static inline void rhltable_destroy(struct rhltable *hlt) { rhashtable_free_and_destroy(&hlt->ht, NULL, NULL); }

#endif
