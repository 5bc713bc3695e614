// What drivers ask for once and need not release: it is released when the driver is unbound
// or the device goes, the last first.
#include <linux/device.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sprintf.h>
#include <linux/string.h>
#include <linux/export.h>

struct devres {
	struct list_head entry;
	dr_release_t release;
	const char *name;
	size_t size;
	u64 data[] __attribute__((aligned(8)));
};

static struct devres *devres_of(const void *res)
{
	return container_of((const void *)res, struct devres, data);
}

static struct devres *alloc_dr(dr_release_t release, size_t size, gfp_t gfp, const char *name)
{
	struct devres *dr;
	size_t all;

	if (__builtin_add_overflow(sizeof(*dr), size, &all))
		return NULL;
	dr = kmalloc(all, gfp);
	if (!dr)
		return NULL;
	memset(dr, 0, sizeof(*dr));
	INIT_LIST_HEAD(&dr->entry);
	dr->release = release;
	dr->name = name;
	dr->size = size;
	return dr;
}

void *__devres_alloc_node(dr_release_t release, size_t size, gfp_t gfp, int nid, const char *name)
{
	struct devres *dr = alloc_dr(release, size, gfp | __GFP_ZERO, name);

	return dr ? dr->data : NULL;
}
EXPORT_SYMBOL_GPL(__devres_alloc_node);

void devres_free(void *res)
{
	if (!res)
		return;
	WARN_ON(!list_empty(&devres_of(res)->entry));
	kfree(devres_of(res));
}
EXPORT_SYMBOL_GPL(devres_free);

void devres_add(struct device *dev, void *res)
{
	unsigned long flags;

	spin_lock_irqsave(&dev->devres_lock, flags);
	WARN_ON(!list_empty(&devres_of(res)->entry));
	list_add_tail(&devres_of(res)->entry, &dev->devres_head);
	spin_unlock_irqrestore(&dev->devres_lock, flags);
}
EXPORT_SYMBOL_GPL(devres_add);

// find_dr returns the resource that was added last of those that match. The list is locked.
static struct devres *find_dr(struct device *dev, dr_release_t release, dr_match_t match, void *match_data)
{
	struct list_head *at;

	for (at = dev->devres_head.prev; at != &dev->devres_head; at = at->prev) {
		struct devres *dr = list_entry(at, struct devres, entry);

		if (dr->release == release && (!match || match(dev, dr->data, match_data)))
			return dr;
	}
	return NULL;
}

void *devres_find(struct device *dev, dr_release_t release, dr_match_t match, void *match_data)
{
	unsigned long flags;
	struct devres *dr;

	spin_lock_irqsave(&dev->devres_lock, flags);
	dr = find_dr(dev, release, match, match_data);
	spin_unlock_irqrestore(&dev->devres_lock, flags);
	return dr ? dr->data : NULL;
}
EXPORT_SYMBOL_GPL(devres_find);

// devres_get returns the resource that matches, or adds new_res; one of both is freed.
void *devres_get(struct device *dev, void *new_res, dr_match_t match, void *match_data)
{
	struct devres *new = devres_of(new_res), *dr;
	unsigned long flags;

	spin_lock_irqsave(&dev->devres_lock, flags);
	dr = find_dr(dev, new->release, match, match_data);
	if (!dr) {
		list_add_tail(&new->entry, &dev->devres_head);
		dr = new;
		new = NULL;
	}
	spin_unlock_irqrestore(&dev->devres_lock, flags);
	if (new)
		devres_free(new_res);
	return dr->data;
}
EXPORT_SYMBOL_GPL(devres_get);

void *devres_remove(struct device *dev, dr_release_t release, dr_match_t match, void *match_data)
{
	unsigned long flags;
	struct devres *dr;

	spin_lock_irqsave(&dev->devres_lock, flags);
	dr = find_dr(dev, release, match, match_data);
	if (dr)
		list_del_init(&dr->entry);
	spin_unlock_irqrestore(&dev->devres_lock, flags);
	return dr ? dr->data : NULL;
}
EXPORT_SYMBOL_GPL(devres_remove);

int devres_destroy(struct device *dev, dr_release_t release, dr_match_t match, void *match_data)
{
	void *res = devres_remove(dev, release, match, match_data);

	devres_free(res);
	return res ? 0 : -ENOENT;
}
EXPORT_SYMBOL_GPL(devres_destroy);

int devres_release(struct device *dev, dr_release_t release, dr_match_t match, void *match_data)
{
	void *res = devres_remove(dev, release, match, match_data);

	if (!res)
		return -ENOENT;
	release(dev, res);
	devres_free(res);
	return 0;
}
EXPORT_SYMBOL_GPL(devres_release);

// devres_release_all releases all that a device has, and returns how many.
int devres_release_all(struct device *dev)
{
	unsigned long flags;
	LIST_HEAD(todo);
	int n = 0;

	if (!dev->devres_head.next)
		return 0; // never initialized
	spin_lock_irqsave(&dev->devres_lock, flags);
	while (!list_empty(&dev->devres_head))
		list_move(dev->devres_head.next, &todo); // the last one comes first
	spin_unlock_irqrestore(&dev->devres_lock, flags);
	while (!list_empty(&todo)) {
		struct devres *dr = list_entry(todo.next, struct devres, entry);

		list_del_init(&dr->entry);
		dr->release(dev, dr->data);
		kfree(dr);
		n++;
	}
	return n;
}

static void devm_kmalloc_release(struct device *dev, void *res)
{
}

static int devm_kmalloc_match(struct device *dev, void *res, void *data)
{
	return res == data;
}

void *devm_kmalloc(struct device *dev, size_t size, gfp_t gfp)
{
	struct devres *dr;

	if (!size)
		return (void *)16; // ZERO_SIZE_PTR
	dr = alloc_dr(devm_kmalloc_release, size, gfp, "devm_kzalloc_release");
	if (!dr)
		return NULL;
	devres_add(dev, dr->data);
	return dr->data;
}
EXPORT_SYMBOL_GPL(devm_kmalloc);

void devm_kfree(struct device *dev, const void *p)
{
	if ((unsigned long)p <= 16)
		return;
	WARN_ON(devres_destroy(dev, devm_kmalloc_release, devm_kmalloc_match, (void *)p));
}
EXPORT_SYMBOL_GPL(devm_kfree);

void *devm_krealloc(struct device *dev, void *ptr, size_t size, gfp_t gfp)
{
	void *new;

	if (!size) {
		devm_kfree(dev, ptr);
		return (void *)16;
	}
	new = devm_kmalloc(dev, size, gfp);
	if (!new || (unsigned long)ptr <= 16)
		return new;
	memcpy(new, ptr, min(size, devres_of(ptr)->size));
	devm_kfree(dev, ptr);
	return new;
}
EXPORT_SYMBOL_GPL(devm_krealloc);

void *devm_kmemdup(struct device *dev, const void *src, size_t len, gfp_t gfp)
{
	void *p = devm_kmalloc(dev, len, gfp);

	return p ? memcpy(p, src, len) : NULL;
}
EXPORT_SYMBOL_GPL(devm_kmemdup);

char *devm_kstrdup(struct device *dev, const char *s, gfp_t gfp)
{
	return s ? devm_kmemdup(dev, s, strlen(s) + 1, gfp) : NULL;
}
EXPORT_SYMBOL_GPL(devm_kstrdup);

const char *devm_kstrdup_const(struct device *dev, const char *s, gfp_t gfp)
{
	return devm_kstrdup(dev, s, gfp);
}
EXPORT_SYMBOL(devm_kstrdup_const);

char *devm_kvasprintf(struct device *dev, gfp_t gfp, const char *fmt, va_list ap)
{
	va_list again;
	char *p;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	p = devm_kmalloc(dev, n + 1, gfp);
	if (p)
		vsnprintf(p, n + 1, fmt, ap);
	return p;
}
EXPORT_SYMBOL(devm_kvasprintf);

char *devm_kasprintf(struct device *dev, gfp_t gfp, const char *fmt, ...)
{
	va_list ap;
	char *p;

	va_start(ap, fmt);
	p = devm_kvasprintf(dev, gfp, fmt, ap);
	va_end(ap);
	return p;
}
EXPORT_SYMBOL_GPL(devm_kasprintf);

struct pages_devres {
	unsigned long addr;
	unsigned int order;
};

static void devm_pages_release(struct device *dev, void *res)
{
	struct pages_devres *p = res;

	free_pages(p->addr, p->order);
}

static int devm_pages_match(struct device *dev, void *res, void *data)
{
	return ((struct pages_devres *)res)->addr == *(unsigned long *)data;
}

unsigned long devm_get_free_pages(struct device *dev, gfp_t gfp_mask, unsigned int order)
{
	struct pages_devres *p = devres_alloc(devm_pages_release, sizeof(*p), GFP_KERNEL);

	if (!p)
		return 0;
	p->order = order;
	p->addr = __get_free_pages(gfp_mask, order);
	if (!p->addr) {
		devres_free(p);
		return 0;
	}
	devres_add(dev, p);
	return p->addr;
}
EXPORT_SYMBOL_GPL(devm_get_free_pages);

void devm_free_pages(struct device *dev, unsigned long addr)
{
	WARN_ON(devres_release(dev, devm_pages_release, devm_pages_match, &addr));
}
EXPORT_SYMBOL_GPL(devm_free_pages);

struct action_devres {
	void *data;
	void (*action)(void *);
};

static void devm_action_release(struct device *dev, void *res)
{
	struct action_devres *d = res;

	d->action(d->data);
}

static int devm_action_match(struct device *dev, void *res, void *data)
{
	struct action_devres *d = res, *want = data;

	return d->action == want->action && d->data == want->data;
}

int devm_add_action(struct device *dev, void (*action)(void *), void *data)
{
	struct action_devres *d = devres_alloc(devm_action_release, sizeof(*d), GFP_KERNEL);

	if (!d)
		return -ENOMEM;
	*d = (struct action_devres){ data, action };
	devres_add(dev, d);
	return 0;
}
EXPORT_SYMBOL_GPL(devm_add_action);

void devm_remove_action(struct device *dev, void (*action)(void *), void *data)
{
	struct action_devres d = { data, action };

	WARN_ON(devres_destroy(dev, devm_action_release, devm_action_match, &d));
}
EXPORT_SYMBOL_GPL(devm_remove_action);

void devm_release_action(struct device *dev, void (*action)(void *), void *data)
{
	struct action_devres d = { data, action };

	WARN_ON(devres_release(dev, devm_action_release, devm_action_match, &d));
}
EXPORT_SYMBOL_GPL(devm_release_action);
