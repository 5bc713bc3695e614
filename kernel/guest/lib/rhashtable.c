// Hash tables that grow and shrink while they are used. See include/linux/rhashtable.h for
// what a chain is. Entries only ever move to a newer table, so that whoever looks through the
// tables from the oldest on, with the bucket of each locked, misses none.
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/random.h>
#include <linux/rhashtable.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#define HASH_DEFAULT_SIZE 64UL
#define HASH_MIN_SIZE 4U

// The key's bytes are whole words.
static u32 rhashtable_jhash2(const void *key, u32 length, u32 seed)
{
	return jhash2(key, length, seed);
}

static struct bucket_table *bucket_table_alloc(size_t size, gfp_t gfp)
{
	struct bucket_table *tbl = kvmalloc_node(sizeof(*tbl) + size * sizeof(tbl->buckets[0]), gfp | __GFP_ZERO, -1);

	if (!tbl)
		return NULL;
	tbl->size = size;
	tbl->hash_rnd = get_random_u32();
	INIT_LIST_HEAD(&tbl->walkers);
	return tbl;
}

// A table of a size below 2^31 is one piece of memory: none of its buckets is elsewhere.
struct rhash_lock_head **__rht_bucket_nested(const struct bucket_table *tbl, unsigned int hash)
{
	return (struct rhash_lock_head **)&tbl->buckets[hash];
}
EXPORT_SYMBOL_GPL(__rht_bucket_nested);

struct rhash_lock_head **rht_bucket_nested(const struct bucket_table *tbl, unsigned int hash)
{
	return (struct rhash_lock_head **)&tbl->buckets[hash];
}
EXPORT_SYMBOL_GPL(rht_bucket_nested);

struct rhash_lock_head **rht_bucket_nested_insert(struct rhashtable *ht, struct bucket_table *tbl, unsigned int hash)
{
	return &tbl->buckets[hash];
}
EXPORT_SYMBOL_GPL(rht_bucket_nested_insert);

static struct bucket_table *last_table(struct bucket_table *tbl)
{
	struct bucket_table *next;

	while ((next = READ_ONCE(tbl->future_tbl)))
		tbl = next;
	return tbl;
}

// attach has a new table of size follow tbl, unless another one does already.
static __always_inline int attach(struct bucket_table *tbl, size_t size, gfp_t gfp)
{
	struct bucket_table *new = bucket_table_alloc(size, gfp);

	if (!new)
		return -ENOMEM;
	if (cmpxchg(&tbl->future_tbl, NULL, new))
		kvfree(new);
	return 0;
}

// move_bucket moves the entries of a bucket to the newest table.
static void move_bucket(struct rhashtable *ht, struct bucket_table *old, unsigned int i)
{
	struct rhash_lock_head **from = &old->buckets[i], **to;
	struct rhash_head *e, *next, *before;
	struct bucket_table *new;

	rht_lock(old, from);
	while (!rht_is_a_nulls(e = rht_ptr_rcu(from))) {
		for (before = NULL; !rht_is_a_nulls(next = e->next); e = next)
			before = e;
		new = last_table(old);
		to = &new->buckets[rht_head_hashfn(ht, new, e, ht->p)];
		rht_lock(new, to);
		WRITE_ONCE(e->next, rht_ptr_rcu(to));
		rht_assign_unlock(new, to, e);
		if (before)
			smp_store_release(&before->next, next);
		else
			rht_assign_locked(from, next);
	}
	rht_unlock(old, from);
}

static void bucket_table_free_rcu(struct rcu_head *head)
{
	kvfree(container_of(head, struct bucket_table, rcu));
}

// replace_table moves all entries of the oldest table, and takes it out of use. Who goes
// through it begins with the next one.
static void replace_table(struct rhashtable *ht, struct bucket_table *old)
{
	struct rhashtable_walker *w, *next;
	unsigned int i;

	for (i = 0; i < old->size; i++) {
		move_bucket(ht, old, i);
		cond_resched();
	}
	spin_lock(&ht->lock);
	list_for_each_entry_safe(w, next, &old->walkers, list) {
		list_del(&w->list);
		w->tbl = NULL;
	}
	rcu_assign_pointer(ht->tbl, old->future_tbl);
	spin_unlock(&ht->lock);
	call_rcu(&old->rcu, bucket_table_free_rcu);
}

// wanted_size is the size that a table for the present number of entries has.
static size_t wanted_size(const struct rhashtable *ht, const struct bucket_table *tbl)
{
	unsigned int n = atomic_read(&ht->nelems);
	size_t size;

	if (rht_grow_above_75(ht, tbl))
		return tbl->size * 2UL;
	if (!ht->p.automatic_shrinking || !rht_shrink_below_30(ht, tbl))
		return tbl->size;
	size = n ? roundup_pow_of_two(n * 3 / 2) : 0;
	size = max_t(size_t, size, ht->p.min_size);
	return min_t(size_t, size, tbl->size);
}

static void rht_deferred_worker(struct work_struct *work)
{
	struct rhashtable *ht = container_of(work, struct rhashtable, run_work);
	struct bucket_table *tbl;
	size_t size;
	int err = 0;

	mutex_lock(&ht->mutex);
	tbl = last_table(ht->tbl);
	size = wanted_size(ht, tbl);
	if (size != tbl->size)
		err = attach(tbl, size, GFP_KERNEL);
	while ((tbl = ht->tbl)->future_tbl)
		replace_table(ht, tbl);
	mutex_unlock(&ht->mutex);
	if (err)
		schedule_work(&ht->run_work);
}

// make_room has a larger table follow the newest one, or one with other hashes if a chain has
// become long.
static int make_room(struct rhashtable *ht, struct bucket_table *tbl)
{
	bool grow = rht_grow_above_75(ht, tbl);
	int err;

	if (!grow && tbl != READ_ONCE(ht->tbl))
		return -EBUSY; // the hashes have just been changed
	err = attach(tbl, grow ? tbl->size * 2UL : tbl->size, GFP_ATOMIC);
	schedule_work(&ht->run_work);
	return err;
}

// join puts an entry at the head of the list of those with its key, and into their place in
// the chain.
static void join(struct rhash_lock_head **bkt, struct rhash_head *old, struct rhash_head *obj)
{
	container_of(obj, struct rhlist_head, rhead)->next = container_of(old, struct rhlist_head, rhead);
	WRITE_ONCE(obj->next, old->next);
	__rht_replace(bkt, old, obj);
}

// insert_into tries to insert into a table whose bucket is locked. It returns 0, the error, or
// -EAGAIN if a newer table is the one to insert into; *found is an entry with the same key.
static int insert_into(struct rhashtable *ht, struct bucket_table *tbl, struct rhash_lock_head **bkt, const void *key,
		       struct rhash_head *obj, struct rhash_head **found)
{
	unsigned int length = 0;
	struct rhash_head *e;
	int err;

	rht_for_each_from(e, rht_ptr_rcu(bkt), tbl, 0) {
		length++;
		if (!key || __rht_differs(ht, key, e))
			continue;
		if (ht->rhlist)
			join(bkt, e, obj);
		else
			*found = e;
		return 0;
	}
	if (READ_ONCE(tbl->future_tbl))
		return -EAGAIN;
	if (rht_grow_above_max(ht, tbl))
		return -E2BIG;
	if (length >= RHT_ELASTICITY || rht_grow_above_100(ht, tbl)) {
		err = make_room(ht, tbl);
		return err ?: -EAGAIN;
	}
	if (ht->rhlist)
		container_of(obj, struct rhlist_head, rhead)->next = NULL;
	WRITE_ONCE(obj->next, rht_ptr_rcu(bkt));
	rht_assign_locked(bkt, obj);
	atomic_inc(&ht->nelems);
	if (rht_grow_above_75(ht, tbl))
		schedule_work(&ht->run_work);
	return 0;
}

// rhashtable_insert_slow inserts into the newest table, unless key is in one of them. It
// returns the entry that has the key, NULL if there is none, or an error.
void *rhashtable_insert_slow(struct rhashtable *ht, const void *key, struct rhash_head *obj)
{
	struct rhash_head *found = NULL;
	struct rhash_lock_head **bkt;
	struct bucket_table *tbl;
	int err;

	rcu_read_lock();
	tbl = READ_ONCE(ht->tbl);
	for (;;) {
		bkt = &tbl->buckets[rht_head_hashfn(ht, tbl, obj, ht->p)];
		rht_lock(tbl, bkt);
		err = insert_into(ht, tbl, bkt, key, obj, &found);
		rht_unlock(tbl, bkt);
		if (err != -EAGAIN)
			break;
		tbl = READ_ONCE(tbl->future_tbl);
	}
	rcu_read_unlock();
	if (err)
		return ERR_PTR(err);
	return found ? rht_obj(ht, found) : NULL;
}
EXPORT_SYMBOL_GPL(rhashtable_insert_slow);

void rhashtable_walk_enter(struct rhashtable *ht, struct rhashtable_iter *iter)
{
	*iter = (struct rhashtable_iter){.ht = ht};
	spin_lock(&ht->lock);
	iter->walker.tbl = ht->tbl;
	list_add(&iter->walker.list, &ht->tbl->walkers);
	spin_unlock(&ht->lock);
}
EXPORT_SYMBOL_GPL(rhashtable_walk_enter);

void rhashtable_walk_exit(struct rhashtable_iter *iter)
{
	spin_lock(&iter->ht->lock);
	if (iter->walker.tbl)
		list_del(&iter->walker.list);
	spin_unlock(&iter->ht->lock);
}
EXPORT_SYMBOL_GPL(rhashtable_walk_exit);

// at makes the entry number skip of the slot, counted from 1, the present one. Entries of a
// list with the same key count too.
static bool at(struct rhashtable_iter *iter, unsigned int number)
{
	struct bucket_table *tbl = iter->walker.tbl;
	struct rhash_head *e;
	struct rhlist_head *l;
	unsigned int n = 0;

	rht_for_each_rcu(e, tbl, iter->slot) {
		l = iter->ht->rhlist ? container_of(e, struct rhlist_head, rhead) : NULL;
		do {
			if (++n < number)
				continue;
			iter->p = e;
			iter->list = l;
			iter->skip = number;
			return true;
		} while (l && (l = READ_ONCE(l->next)));
	}
	return false;
}

static void *present(struct rhashtable_iter *iter)
{
	return rht_obj(iter->ht, iter->list ? &iter->list->rhead : iter->p);
}

// __rhashtable_walk_find_next goes to the entry number of the present slot, or to the first one after the slot. After
// the last slot the newer table begins, if there is one.
static void *__rhashtable_walk_find_next(struct rhashtable_iter *iter, unsigned int number)
{
	struct bucket_table *tbl = iter->walker.tbl;

	iter->p = NULL;
	if (!tbl)
		return NULL;
	for (; iter->slot < tbl->size; iter->slot++, number = 1)
		if (at(iter, number))
			return present(iter);
	iter->skip = 0;
	smp_rmb();
	iter->walker.tbl = READ_ONCE(tbl->future_tbl);
	if (!iter->walker.tbl) {
		iter->end_of_table = true;
		return NULL;
	}
	iter->slot = 0;
	return ERR_PTR(-EAGAIN);
}

// in_slot is the number of an entry in the present slot, or 0 if it is not there any more.
static unsigned int in_slot(struct rhashtable_iter *iter, const void *entry)
{
	unsigned int n = 1;

	for (; at(iter, n); n++)
		if ((iter->list ? (void *)iter->list : (void *)iter->p) == entry)
			return n;
	return 0;
}

int rhashtable_walk_start_check(struct rhashtable_iter *iter)
{
	struct rhashtable *ht = iter->ht;
	unsigned int skip = iter->skip;
	void *entry = iter->list ? (void *)iter->list : (void *)iter->p;
	bool stood = iter->p;

	rcu_read_lock();
	spin_lock(&ht->lock);
	if (iter->walker.tbl)
		list_del(&iter->walker.list);
	spin_unlock(&ht->lock);
	if (iter->end_of_table)
		return 0;
	if (!iter->walker.tbl) {
		iter->walker.tbl = READ_ONCE(ht->tbl);
		iter->slot = iter->skip = 0;
		iter->p = NULL;
		iter->list = NULL;
		return -EAGAIN;
	}
	if (stood && !in_slot(iter, entry)) {
		iter->p = NULL;
		iter->list = NULL;
		iter->skip = skip;
	}
	return 0;
}
EXPORT_SYMBOL_GPL(rhashtable_walk_start_check);

void *rhashtable_walk_next(struct rhashtable_iter *iter)
{
	if (iter->end_of_table)
		return NULL;
	return __rhashtable_walk_find_next(iter, iter->skip + 1);
}
EXPORT_SYMBOL_GPL(rhashtable_walk_next);

// rhashtable_walk_peek is the entry that the last rhashtable_walk_next gave, or the one in its
// place if it has been removed.
void *rhashtable_walk_peek(struct rhashtable_iter *iter)
{
	if (iter->p)
		return present(iter);
	if (iter->end_of_table)
		return NULL;
	return __rhashtable_walk_find_next(iter, iter->skip ?: 1);
}
EXPORT_SYMBOL_GPL(rhashtable_walk_peek);

static bool in_use(const struct rhashtable *ht, const struct bucket_table *tbl)
{
	const struct bucket_table *t;

	for (t = ht->tbl; t; t = t->future_tbl)
		if (t == tbl)
			return true;
	return false;
}

void rhashtable_walk_stop(struct rhashtable_iter *iter)
{
	struct bucket_table *tbl = iter->walker.tbl;

	if (tbl) {
		spin_lock(&iter->ht->lock);
		if (in_use(iter->ht, tbl))
			list_add(&iter->walker.list, &tbl->walkers);
		else
			iter->walker.tbl = NULL;
		spin_unlock(&iter->ht->lock);
	}
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(rhashtable_walk_stop);

int rhashtable_init(struct rhashtable *ht, const struct rhashtable_params *params)
{
	size_t size = HASH_DEFAULT_SIZE;

	if ((!params->key_len && !params->obj_hashfn) || (params->obj_hashfn && !params->obj_cmpfn))
		return -EINVAL;
	memset(ht, 0, sizeof(*ht));
	mutex_init(&ht->mutex);
	spin_lock_init(&ht->lock);
	ht->p = *params;
	if (params->min_size)
		ht->p.min_size = roundup_pow_of_two(params->min_size);
	ht->p.min_size = max_t(u16, ht->p.min_size, HASH_MIN_SIZE);
	ht->max_elems = 1U << 31;
	if (params->max_size) {
		ht->p.max_size = rounddown_pow_of_two(params->max_size);
		if (ht->p.max_size < ht->max_elems / 2)
			ht->max_elems = ht->p.max_size * 2;
	}
	if (params->nelem_hint)
		size = roundup_pow_of_two(params->nelem_hint * 4UL / 3);
	size = max_t(size_t, size, ht->p.min_size);
	ht->key_len = params->key_len;
	if (!params->hashfn) {
		ht->p.hashfn = jhash;
		if (!(ht->key_len % sizeof(u32))) {
			ht->key_len /= sizeof(u32);
			ht->p.hashfn = rhashtable_jhash2;
		}
	}
	ht->tbl = bucket_table_alloc(size, GFP_KERNEL);
	if (!ht->tbl)
		return -ENOMEM;
	INIT_WORK(&ht->run_work, rht_deferred_worker);
	return 0;
}
EXPORT_SYMBOL_GPL(rhashtable_init);

int rhltable_init(struct rhltable *hlt, const struct rhashtable_params *params)
{
	int err = rhashtable_init(&hlt->ht, params);

	hlt->ht.rhlist = true;
	return err;
}
EXPORT_SYMBOL_GPL(rhltable_init);

static void free_entry(struct rhashtable *ht, struct rhash_head *e, void (*free_fn)(void *ptr, void *arg), void *arg)
{
	struct rhlist_head *l, *next;

	if (!ht->rhlist) {
		free_fn(rht_obj(ht, e), arg);
		return;
	}
	for (l = container_of(e, struct rhlist_head, rhead); l; l = next) {
		next = l->next;
		free_fn(rht_obj(ht, &l->rhead), arg);
	}
}

noinline void rhashtable_free_and_destroy(struct rhashtable *ht, void (*free_fn)(void *ptr, void *arg), void *arg)
{
	struct bucket_table *tbl, *newer;
	struct rhash_head *e, *next;
	unsigned int i;

	cancel_work_sync(&ht->run_work);
	mutex_lock(&ht->mutex);
	for (tbl = ht->tbl; tbl; tbl = newer) {
		newer = tbl->future_tbl;
		for (i = 0; free_fn && i < tbl->size; i++) {
			cond_resched();
			for (e = rht_ptr_rcu(&tbl->buckets[i]); !rht_is_a_nulls(e); e = next) {
				next = e->next;
				free_entry(ht, e, free_fn, arg);
			}
		}
		kvfree(tbl);
	}
	mutex_unlock(&ht->mutex);
}
EXPORT_SYMBOL_GPL(rhashtable_free_and_destroy);

void rhashtable_destroy(struct rhashtable *ht)
{
	rhashtable_free_and_destroy(ht, NULL, NULL);
}
EXPORT_SYMBOL_GPL(rhashtable_destroy);
