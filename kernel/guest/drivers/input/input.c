// Input devices: what a driver reports goes to the handlers, when it is news and the device can
// do it, packet by packet.
#include <linux/input.h>
#include <linux/idr.h>
#include <linux/slab.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/sprintf.h>
#include <linux/dev_printk.h>
#include <linux/export.h>

static LIST_HEAD(input_dev_list);
static LIST_HEAD(input_handler_list);
static DEFINE_MUTEX(input_mutex); // both lists, and the handles of each
static atomic_t input_no = ATOMIC_INIT(-1);

static struct class input_class = { .name = "input" };
EXPORT_SYMBOL_GPL(input_class);

static bool is_event_supported(unsigned int code, const unsigned long *bits, unsigned int count)
{
	return code < count && test_bit(code, bits);
}

// disposition of an event: who gets it.
#define INPUT_IGNORE 0
#define INPUT_TO_HANDLERS 1
#define INPUT_TO_DEVICE 2
#define INPUT_FLUSH 4

// of_state is the disposition of an event that sets a bit: of a switch, a light, a sound. It is
// ignored if the bit has this value.
static int of_state(unsigned int code, int value, const unsigned long *can, unsigned long *now, unsigned int count, int who)
{
	if (!is_event_supported(code, can, count) || !!test_bit(code, now) == !!value)
		return INPUT_IGNORE;
	change_bit(code, now);
	return who;
}

static int of_key(struct input_dev *dev, unsigned int code, int value)
{
	if (!is_event_supported(code, dev->keybit, KEY_CNT))
		return INPUT_IGNORE;
	if (value == 2)
		return INPUT_TO_HANDLERS;
	if (!!test_bit(code, dev->key) == !!value)
		return INPUT_IGNORE;
	change_bit(code, dev->key);
	return INPUT_TO_HANDLERS;
}

// defuzz takes the noise from a value of an axis.
static int defuzz(int value, int old, int fuzz)
{
	if (!fuzz)
		return value;
	if (value > old - fuzz / 2 && value < old + fuzz / 2)
		return old;
	if (value > old - fuzz && value < old + fuzz)
		return (old * 3 + value) / 4;
	if (value > old - fuzz * 2 && value < old + fuzz * 2)
		return (old + value) / 2;
	return value;
}

static int of_abs(struct input_dev *dev, unsigned int code, int *value)
{
	if (!is_event_supported(code, dev->absbit, ABS_CNT))
		return INPUT_IGNORE;
	if (dev->absinfo) {
		*value = defuzz(*value, dev->absinfo[code].value, dev->absinfo[code].fuzz);
		if (dev->absinfo[code].value == *value)
			return INPUT_IGNORE;
		dev->absinfo[code].value = *value;
	}
	return INPUT_TO_HANDLERS;
}

static int disposition(struct input_dev *dev, unsigned int type, unsigned int code, int *value)
{
	switch (type) {
	case EV_SYN:
		return code == SYN_REPORT ? INPUT_TO_HANDLERS | INPUT_FLUSH : INPUT_IGNORE;
	case EV_KEY:
		return of_key(dev, code, *value);
	case EV_REL:
		return is_event_supported(code, dev->relbit, REL_CNT) && *value ? INPUT_TO_HANDLERS : INPUT_IGNORE;
	case EV_ABS:
		return of_abs(dev, code, value);
	case EV_MSC:
		return is_event_supported(code, dev->mscbit, MSC_CNT) ? INPUT_TO_HANDLERS | INPUT_TO_DEVICE : INPUT_IGNORE;
	case EV_SW:
		return of_state(code, *value, dev->swbit, dev->sw, SW_CNT, INPUT_TO_HANDLERS);
	case EV_LED:
		return of_state(code, *value, dev->ledbit, dev->led, LED_CNT, INPUT_TO_HANDLERS | INPUT_TO_DEVICE);
	case EV_SND:
		return of_state(code, *value, dev->sndbit, dev->snd, SND_CNT, INPUT_TO_HANDLERS | INPUT_TO_DEVICE);
	case EV_REP:
		if (code > 1 || *value < 0 || dev->rep[code] == *value)
			return INPUT_IGNORE;
		dev->rep[code] = *value;
		return INPUT_TO_HANDLERS | INPUT_TO_DEVICE;
	}
	return INPUT_IGNORE;
}

static void to_handle(struct input_handle *handle, const struct input_value *vals, unsigned int count)
{
	struct input_handler *handler = handle->handler;
	unsigned int i;

	if (handler->events) {
		handler->events(handle, vals, count);
		return;
	}
	for (i = 0; handler->event && i < count; i++)
		handler->event(handle, vals[i].type, vals[i].code, vals[i].value);
}

// pass_values gives a packet to the handles that are open, or to the one that has the device
// for itself.
static void pass_values(struct input_dev *dev)
{
	unsigned int count = dev->num_vals;
	struct input_handle *handle;

	dev->num_vals = 0;
	rcu_read_lock();
	if (dev->grab)
		to_handle(dev->grab, dev->vals, count);
	else
		list_for_each_entry(handle, &dev->h_list, d_node)
			if (handle->open)
				to_handle(handle, dev->vals, count);
	rcu_read_unlock();
}

// input_handle_event deals with an event of a device that is locked.
static __noipa void input_handle_event(struct input_dev *dev, unsigned int type, unsigned int code, int value)
{
	int who = disposition(dev, type, code, &value);

	if (who & INPUT_TO_DEVICE && dev->event)
		dev->event(dev, type, code, value);
	if (!dev->vals)
		return; // it was never registered
	if (who & INPUT_TO_HANDLERS)
		dev->vals[dev->num_vals++] = (struct input_value){ type, code, value };
	if (who & INPUT_FLUSH ? dev->num_vals >= 2 : dev->num_vals >= dev->max_vals - 2)
		pass_values(dev);
	else if (who & INPUT_FLUSH)
		dev->num_vals = 0;
}

void input_event(struct input_dev *dev, unsigned int type, unsigned int code, int value)
{
	unsigned long flags;

	if (!is_event_supported(type, dev->evbit, EV_CNT))
		return;
	spin_lock_irqsave(&dev->event_lock, flags);
	input_handle_event(dev, type, code, value);
	spin_unlock_irqrestore(&dev->event_lock, flags);
}
EXPORT_SYMBOL(input_event);

void input_inject_event(struct input_handle *handle, unsigned int type, unsigned int code, int value)
{
	struct input_dev *dev = handle->dev;
	unsigned long flags;

	if (!is_event_supported(type, dev->evbit, EV_CNT))
		return;
	spin_lock_irqsave(&dev->event_lock, flags);
	if (!dev->grab || dev->grab == handle)
		input_handle_event(dev, type, code, value);
	spin_unlock_irqrestore(&dev->event_lock, flags);
}
EXPORT_SYMBOL(input_inject_event);

void input_alloc_absinfo(struct input_dev *dev)
{
	if (!dev->absinfo)
		dev->absinfo = kcalloc(ABS_CNT, sizeof(*dev->absinfo), GFP_KERNEL);
}
EXPORT_SYMBOL(input_alloc_absinfo);

void input_set_abs_params(struct input_dev *dev, unsigned int axis, int min, int max, int fuzz, int flat)
{
	set_bit(EV_ABS, dev->evbit);
	set_bit(axis, dev->absbit);
	input_alloc_absinfo(dev);
	if (dev->absinfo)
		dev->absinfo[axis] = (struct input_absinfo){ dev->absinfo[axis].value, min, max, fuzz, flat, dev->absinfo[axis].resolution };
}
EXPORT_SYMBOL(input_set_abs_params);

void input_set_capability(struct input_dev *dev, unsigned int type, unsigned int code)
{
	unsigned long *const bits[] = {
		[EV_KEY] = dev->keybit, [EV_REL] = dev->relbit, [EV_ABS] = dev->absbit, [EV_MSC] = dev->mscbit,
		[EV_SW] = dev->swbit, [EV_LED] = dev->ledbit, [EV_SND] = dev->sndbit, [EV_FF] = dev->ffbit,
	};

	if (type >= ARRAY_SIZE(bits) || !bits[type]) {
		pr_err("%s: unknown type %u (code %u)\n", __func__, type, code);
		dump_stack();
		return;
	}
	if (type == EV_ABS)
		input_alloc_absinfo(dev);
	set_bit(code, bits[type]);
	set_bit(type, dev->evbit);
}
EXPORT_SYMBOL(input_set_capability);

static ssize_t name_show(struct device *d, struct device_attribute *attr, char *buf)
{
	struct input_dev *dev = to_input_dev(d);

	return sysfs_emit(buf, "%s\n", dev->name ?: "");
}
DEVICE_ATTR_RO(name);

static ssize_t phys_show(struct device *d, struct device_attribute *attr, char *buf)
{
	struct input_dev *dev = to_input_dev(d);

	return sysfs_emit(buf, "%s\n", dev->phys ?: "");
}
DEVICE_ATTR_RO(phys);

static ssize_t uniq_show(struct device *d, struct device_attribute *attr, char *buf)
{
	struct input_dev *dev = to_input_dev(d);

	return sysfs_emit(buf, "%s\n", dev->uniq ?: "");
}
DEVICE_ATTR_RO(uniq);

static struct attribute *input_dev_attrs[] = { &dev_attr_name.attr, &dev_attr_phys.attr, &dev_attr_uniq.attr, NULL };
static const struct attribute_group input_dev_attr_group = { .attrs = input_dev_attrs };

#define INPUT_ID_ATTR(n)									  \
	static ssize_t n##_show(struct device *d, struct device_attribute *attr, char *buf)	  \
	{											  \
		return sysfs_emit(buf, "%04x\n", to_input_dev(d)->id.n);			  \
	}											  \
	DEVICE_ATTR_RO(n)
INPUT_ID_ATTR(bustype);
INPUT_ID_ATTR(vendor);
INPUT_ID_ATTR(product);
INPUT_ID_ATTR(version);
static struct attribute *input_id_attrs[] = { &dev_attr_bustype.attr, &dev_attr_vendor.attr, &dev_attr_product.attr, &dev_attr_version.attr, NULL };
static const struct attribute_group input_id_attr_group = { .name = "id", .attrs = input_id_attrs };

// bits_show writes a bitmap, the highest word first, without zeros at its beginning.
static ssize_t bits_show(char *buf, const unsigned long *bits, unsigned int count)
{
	int i = BITS_TO_LONGS(count) - 1, n = 0;

	while (i > 0 && !bits[i])
		i--;
	for (; i >= 0; i--)
		n += sysfs_emit_at(buf, n, "%lx%s", bits[i], i ? " " : "\n");
	return n;
}

#define INPUT_CAP_ATTR(n, count)								  \
	static ssize_t n##_show(struct device *d, struct device_attribute *attr, char *buf)	  \
	{											  \
		return bits_show(buf, to_input_dev(d)->n##bit, count);				  \
	}											  \
	DEVICE_ATTR_RO(n)
INPUT_CAP_ATTR(ev, EV_CNT);
INPUT_CAP_ATTR(key, KEY_CNT);
INPUT_CAP_ATTR(rel, REL_CNT);
INPUT_CAP_ATTR(abs, ABS_CNT);
INPUT_CAP_ATTR(msc, MSC_CNT);
INPUT_CAP_ATTR(led, LED_CNT);
INPUT_CAP_ATTR(snd, SND_CNT);
INPUT_CAP_ATTR(ff, FF_CNT);
INPUT_CAP_ATTR(sw, SW_CNT);
static struct attribute *input_caps_attrs[] = {
	&dev_attr_ev.attr, &dev_attr_key.attr, &dev_attr_rel.attr, &dev_attr_abs.attr, &dev_attr_msc.attr,
	&dev_attr_led.attr, &dev_attr_snd.attr, &dev_attr_ff.attr, &dev_attr_sw.attr, NULL,
};
static const struct attribute_group input_caps_attr_group = { .name = "capabilities", .attrs = input_caps_attrs };
static const struct attribute_group *input_dev_attr_groups[] = {
	&input_dev_attr_group, &input_id_attr_group, &input_caps_attr_group, NULL,
};

static void input_dev_release(struct device *d)
{
	struct input_dev *dev = to_input_dev(d);

	kfree(dev->absinfo);
	kfree(dev->vals);
	kfree(dev);
}

static const struct device_type input_dev_type = { .groups = input_dev_attr_groups, .release = input_dev_release };

struct input_dev *input_allocate_device(void)
{
	struct input_dev *dev = kzalloc(sizeof(*dev), GFP_KERNEL);

	if (!dev)
		return NULL;
	dev->dev.type = &input_dev_type;
	dev->dev.class = &input_class;
	device_initialize(&dev->dev);
	mutex_init(&dev->mutex);
	spin_lock_init(&dev->event_lock);
	timer_setup(&dev->timer, NULL, 0);
	INIT_LIST_HEAD(&dev->h_list);
	INIT_LIST_HEAD(&dev->node);
	dev_set_name(&dev->dev, "input%lu", (unsigned long)atomic_inc_return(&input_no));
	return dev;
}
EXPORT_SYMBOL(input_allocate_device);

struct input_devres {
	struct input_dev *input;
};

static int devm_input_device_match(struct device *dev, void *res, void *data)
{
	return ((struct input_devres *)res)->input == data;
}

static void devm_input_device_release(struct device *dev, void *res)
{
	input_put_device(((struct input_devres *)res)->input);
}

static void unregister_device(struct input_dev *dev);

static void devm_input_device_unregister(struct device *dev, void *res)
{
	unregister_device(((struct input_devres *)res)->input);
}

struct input_dev *devm_input_allocate_device(struct device *dev)
{
	struct input_devres *res = devres_alloc(devm_input_device_release, sizeof(*res), GFP_KERNEL);
	struct input_dev *input;

	if (!res)
		return NULL;
	input = input_allocate_device();
	if (!input) {
		devres_free(res);
		return NULL;
	}
	input->dev.parent = dev;
	input->devres_managed = true;
	res->input = input;
	devres_add(dev, res);
	return input;
}
EXPORT_SYMBOL(devm_input_allocate_device);

void input_free_device(struct input_dev *dev)
{
	if (!dev)
		return;
	if (dev->devres_managed)
		WARN_ON(devres_destroy(dev->dev.parent, devm_input_device_release, devm_input_device_match, dev));
	input_put_device(dev);
}
EXPORT_SYMBOL(input_free_device);

// subset reports whether a device has all bits that an id wants.
static bool subset(const unsigned long *want, const unsigned long *has, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < BITS_TO_LONGS(count); i++)
		if (want[i] & ~has[i])
			return false;
	return true;
}

static bool matches(const struct input_device_id *id, const struct input_dev *dev)
{
	return (!(id->flags & INPUT_DEVICE_ID_MATCH_BUS) || id->bustype == dev->id.bustype) &&
	       (!(id->flags & INPUT_DEVICE_ID_MATCH_VENDOR) || id->vendor == dev->id.vendor) &&
	       (!(id->flags & INPUT_DEVICE_ID_MATCH_PRODUCT) || id->product == dev->id.product) &&
	       (!(id->flags & INPUT_DEVICE_ID_MATCH_VERSION) || id->version == dev->id.version) &&
	       subset(id->evbit, dev->evbit, EV_CNT) && subset(id->keybit, dev->keybit, KEY_CNT) &&
	       subset(id->relbit, dev->relbit, REL_CNT) && subset(id->absbit, dev->absbit, ABS_CNT) &&
	       subset(id->mscbit, dev->mscbit, MSC_CNT) && subset(id->ledbit, dev->ledbit, LED_CNT) &&
	       subset(id->sndbit, dev->sndbit, SND_CNT) && subset(id->ffbit, dev->ffbit, FF_CNT) &&
	       subset(id->swbit, dev->swbit, SW_CNT) && subset(id->propbit, dev->propbit, INPUT_PROP_CNT);
}

static void input_attach_handler(struct input_dev *dev, struct input_handler *handler)
{
	const struct input_device_id *id;
	int err;

	for (id = handler->id_table; id->flags || id->driver_info; id++) {
		if (!matches(id, dev) || (handler->match && !handler->match(handler, dev)))
			continue;
		err = handler->connect(handler, dev, id);
		if (err && err != -ENODEV)
			pr_err("input: failed to attach handler %s to device %s, error: %d\n", handler->name, kobject_name(&dev->dev.kobj), err);
		return;
	}
}

static unsigned int packet_size(struct input_dev *dev)
{
	unsigned int i, n = 1; // SYN_REPORT

	for (i = 0; i < ABS_CNT; i++)
		n += test_bit(EV_ABS, dev->evbit) && test_bit(i, dev->absbit);
	for (i = 0; i < REL_CNT; i++)
		n += test_bit(EV_REL, dev->evbit) && test_bit(i, dev->relbit);
	return n + 7; // keys and scan codes
}

// path_of writes the path of an object in sysfs to buf, and returns its beginning.
static char *path_of(struct kobject *kobj, char *buf, size_t size)
{
	char *at = buf + size - 1;

	for (*at = 0; kobj; kobj = kobj->parent) {
		size_t n = strlen(kobj->name);

		if (at - buf < (long)n + 1)
			break;
		at -= n;
		memcpy(at, kobj->name, n);
		*--at = '/';
	}
	return at;
}

int input_register_device(struct input_dev *dev)
{
	struct input_devres *res = NULL;
	struct input_handler *handler;
	unsigned int packet;
	char path[256];
	int err;

	if (test_bit(EV_ABS, dev->evbit) && !dev->absinfo) {
		dev_err(&dev->dev, "Absolute device without dev->absinfo, refusing to register\n");
		return -EINVAL;
	}
	if (dev->devres_managed) {
		res = devres_alloc(devm_input_device_unregister, sizeof(*res), GFP_KERNEL);
		if (!res)
			return -ENOMEM;
		res->input = dev;
	}
	set_bit(EV_SYN, dev->evbit);
	clear_bit(0, dev->keybit); // KEY_RESERVED
	packet = packet_size(dev);
	if (dev->hint_events_per_packet < packet)
		dev->hint_events_per_packet = packet;
	dev->max_vals = dev->hint_events_per_packet + 2;
	dev->vals = kcalloc(dev->max_vals, sizeof(*dev->vals), GFP_KERNEL);
	err = dev->vals ? 0 : -ENOMEM;
	if (!err && !dev->rep[0] && !dev->rep[1]) {
		dev->rep[0] = 250; // ms before the first repetition
		dev->rep[1] = 33;  // ms between two
	}
	if (!err)
		err = device_add(&dev->dev);
	if (err) {
		kfree(dev->vals);
		dev->vals = NULL;
		devres_free(res);
		return err;
	}
	pr_info("input: %s as %s\n", dev->name ?: "Unspecified device", path_of(&dev->dev.kobj, path, sizeof(path)));
	mutex_lock(&input_mutex);
	list_add_tail(&dev->node, &input_dev_list);
	list_for_each_entry(handler, &input_handler_list, node)
		input_attach_handler(dev, handler);
	mutex_unlock(&input_mutex);
	if (res)
		devres_add(dev->dev.parent, res);
	return 0;
}
EXPORT_SYMBOL(input_register_device);

// release_keys reports that no key is pressed any more.
static void release_keys(struct input_dev *dev)
{
	unsigned int code, any = 0;

	for (code = 0; code < KEY_CNT; code++)
		if (test_bit(code, dev->key)) {
			input_handle_event(dev, EV_KEY, code, 0);
			any = 1;
		}
	if (any)
		input_handle_event(dev, EV_SYN, SYN_REPORT, 1);
}

static void unregister_device(struct input_dev *dev)
{
	struct input_handle *handle, *next;

	mutex_lock(&dev->mutex);
	dev->going_away = true;
	mutex_unlock(&dev->mutex);
	spin_lock_irq(&dev->event_lock);
	release_keys(dev);
	spin_unlock_irq(&dev->event_lock);
	mutex_lock(&input_mutex);
	list_for_each_entry_safe(handle, next, &dev->h_list, d_node)
		handle->handler->disconnect(handle);
	timer_delete_sync(&dev->timer);
	list_del_init(&dev->node);
	mutex_unlock(&input_mutex);
	device_del(&dev->dev);
}

void input_unregister_device(struct input_dev *dev)
{
	if (dev->devres_managed) {
		WARN_ON(devres_destroy(dev->dev.parent, devm_input_device_unregister, devm_input_device_match, dev));
		unregister_device(dev); // the reference is given back with the parent's resources
	} else {
		unregister_device(dev);
		input_put_device(dev);
	}
}
EXPORT_SYMBOL(input_unregister_device);

int input_register_handler(struct input_handler *handler)
{
	struct input_dev *dev;

	mutex_lock(&input_mutex);
	INIT_LIST_HEAD(&handler->h_list);
	list_add_tail(&handler->node, &input_handler_list);
	list_for_each_entry(dev, &input_dev_list, node)
		input_attach_handler(dev, handler);
	mutex_unlock(&input_mutex);
	return 0;
}
EXPORT_SYMBOL(input_register_handler);

void input_unregister_handler(struct input_handler *handler)
{
	struct input_handle *handle, *next;

	mutex_lock(&input_mutex);
	list_for_each_entry_safe(handle, next, &handler->h_list, h_node)
		handler->disconnect(handle);
	list_del_init(&handler->node);
	mutex_unlock(&input_mutex);
}
EXPORT_SYMBOL(input_unregister_handler);

// input_register_handle is called by a handler's connect function, with input_mutex held.
int input_register_handle(struct input_handle *handle)
{
	mutex_lock(&handle->dev->mutex);
	if (handle->handler->filter)
		list_add_rcu(&handle->d_node, &handle->dev->h_list);
	else
		list_add_tail_rcu(&handle->d_node, &handle->dev->h_list);
	mutex_unlock(&handle->dev->mutex);
	list_add_tail_rcu(&handle->h_node, &handle->handler->h_list);
	if (handle->handler->start)
		handle->handler->start(handle);
	return 0;
}
EXPORT_SYMBOL(input_register_handle);

void input_unregister_handle(struct input_handle *handle)
{
	list_del_rcu(&handle->h_node);
	mutex_lock(&handle->dev->mutex);
	list_del_rcu(&handle->d_node);
	mutex_unlock(&handle->dev->mutex);
	synchronize_rcu();
}
EXPORT_SYMBOL(input_unregister_handle);

int input_open_device(struct input_handle *handle)
{
	struct input_dev *dev = handle->dev;
	int err = 0;

	mutex_lock(&dev->mutex);
	if (dev->going_away) {
		err = -ENODEV;
	} else {
		handle->open++;
		if (!dev->users++ && dev->open)
			err = dev->open(dev);
		if (err) {
			dev->users--;
			handle->open--;
		}
	}
	mutex_unlock(&dev->mutex);
	return err;
}
EXPORT_SYMBOL(input_open_device);

void input_close_device(struct input_handle *handle)
{
	struct input_dev *dev = handle->dev;

	mutex_lock(&dev->mutex);
	if (!--dev->users && dev->close)
		dev->close(dev);
	if (!--handle->open)
		synchronize_rcu();
	mutex_unlock(&dev->mutex);
}
EXPORT_SYMBOL(input_close_device);

static int __init input_init(void)
{
	return __class_register(&input_class, NULL);
}
subsys_initcall(input_init);
