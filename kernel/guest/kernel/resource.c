// Ranges of memory and of ports, and who has which.
#include <linux/ioport.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/device.h>
#include <linux/export.h>

struct resource ioport_resource = { .name = "PCI IO", .start = 0, .end = 0xffff, .flags = IORESOURCE_IO };
EXPORT_SYMBOL(ioport_resource);

struct resource iomem_resource = { .name = "PCI mem", .start = 0, .end = (1ULL << 46) - 1, .flags = IORESOURCE_MEM };
EXPORT_SYMBOL(iomem_resource);

static DEFINE_RWLOCK(resource_lock);

// insert puts new below root, in the order of addresses. It returns NULL, or what is in the way.
static struct resource *insert(struct resource *root, struct resource *new)
{
	struct resource **at;

	if (new->end < new->start || new->start < root->start || new->end > root->end)
		return root;
	for (at = &root->child; *at && (*at)->end < new->start; at = &(*at)->sibling)
		;
	if (*at && (*at)->start <= new->end)
		return *at;
	new->sibling = *at;
	new->parent = root;
	*at = new;
	return NULL;
}

static int remove(struct resource *old)
{
	struct resource **at;

	if (!old->parent)
		return -EINVAL;
	for (at = &old->parent->child; *at; at = &(*at)->sibling)
		if (*at == old) {
			*at = old->sibling;
			old->parent = NULL;
			return 0;
		}
	return -EINVAL;
}

int request_resource(struct resource *root, struct resource *new)
{
	struct resource *conflict;

	write_lock(&resource_lock);
	conflict = insert(root, new);
	write_unlock(&resource_lock);
	return conflict ? -EBUSY : 0;
}
EXPORT_SYMBOL(request_resource);

int release_resource(struct resource *old)
{
	int err;

	write_lock(&resource_lock);
	err = remove(old);
	write_unlock(&resource_lock);
	return err;
}
EXPORT_SYMBOL(release_resource);

// __request_region makes a busy resource of n addresses, inside of what has them if that is
// not busy itself. It returns NULL if somebody else has one.
struct resource *__request_region(struct resource *parent, u64 start, u64 n, const char *name, int flags)
{
	struct resource *res = kzalloc(sizeof(*res), GFP_KERNEL), *conflict;

	if (!res)
		return NULL;
	write_lock(&resource_lock);
	do {
		*res = (struct resource){
			.start = start, .end = start + n - 1, .name = name, .desc = parent->desc,
			.flags = (parent->flags & (IORESOURCE_TYPE_BITS | 0xff)) | IORESOURCE_BUSY | flags,
		};
		conflict = insert(parent, res);
		if (!conflict || conflict == parent || conflict->flags & IORESOURCE_BUSY)
			break;
		parent = conflict;
	} while (true);
	write_unlock(&resource_lock);
	if (!conflict)
		return res;
	kfree(res);
	return NULL;
}
EXPORT_SYMBOL(__request_region);

// find_region returns the busy resource of exactly these addresses, or NULL.
static struct resource *find_region(struct resource *parent, u64 start, u64 end)
{
	struct resource *r = parent->child;

	while (r) {
		if (r->start == start && r->end == end && r->flags & IORESOURCE_BUSY)
			return r;
		r = r->start <= start && r->end >= end && !(r->flags & IORESOURCE_BUSY) ? r->child : r->sibling;
	}
	return NULL;
}

void __release_region(struct resource *parent, u64 start, u64 n)
{
	struct resource *r;

	write_lock(&resource_lock);
	r = find_region(parent, start, start + n - 1);
	if (r)
		remove(r);
	write_unlock(&resource_lock);
	if (!r)
		pr_warn("resource: Trying to free nonexistent resource <%#018llx-%#018llx>\n", start, start + n - 1);
	kfree(r);
}
EXPORT_SYMBOL(__release_region);

struct region_devres {
	struct resource *parent;
	u64 start, n;
};

static void devm_region_release(struct device *dev, void *res)
{
	struct region_devres *d = res;

	__release_region(d->parent, d->start, d->n);
}

static int devm_region_match(struct device *dev, void *res, void *data)
{
	struct region_devres *d = res, *want = data;

	return d->parent == want->parent && d->start == want->start && d->n == want->n;
}

struct resource *__devm_request_region(struct device *dev, struct resource *parent, u64 start, u64 n, const char *name)
{
	struct region_devres *d = devres_alloc(devm_region_release, sizeof(*d), GFP_KERNEL);
	struct resource *r;

	if (!d)
		return NULL;
	*d = (struct region_devres){ parent, start, n };
	r = __request_region(parent, start, n, name, 0);
	if (r)
		devres_add(dev, d);
	else
		devres_free(d);
	return r;
}
EXPORT_SYMBOL(__devm_request_region);

void __devm_release_region(struct device *dev, struct resource *parent, u64 start, u64 n)
{
	struct region_devres d = { parent, start, n };

	__release_region(parent, start, n);
	WARN_ON(devres_destroy(dev, devm_region_release, devm_region_match, &d));
}
EXPORT_SYMBOL(__devm_release_region);
