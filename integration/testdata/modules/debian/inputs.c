// An input device, and a handler of its own that tells what it gets: only news, of what the device can do.
#include <linux/input.h>
#include <linux/module.h>
#include <linux/slab.h>

static struct input_dev *dev;
static int opened;

static void event(struct input_handle *handle, unsigned int type, unsigned int code, int value)
{
	pr_info("inputs: event %u %u %d\n", type, code, value);
}

static bool match(struct input_handler *handler, struct input_dev *d)
{
	return d->name && !strcmp(d->name, "hf keys");
}

static int connect(struct input_handler *handler, struct input_dev *d, const struct input_device_id *id)
{
	struct input_handle *h = kzalloc(sizeof(*h), GFP_KERNEL);
	int err[2];

	h->dev = d;
	h->handler = handler;
	h->name = "hf_handler";
	err[0] = input_register_handle(h);
	err[1] = input_open_device(h);
	pr_info("inputs: connect of %s: %d %d, opened %d, driver %lu\n", d->name, err[0], err[1], opened, id->driver_info);
	return 0;
}

static void disconnect(struct input_handle *h)
{
	input_close_device(h);
	input_unregister_handle(h);
	pr_info("inputs: disconnect of %s, opened %d\n", h->dev->name, opened);
	kfree(h);
}

static const struct input_device_id ids[] = {{.driver_info = 7}, {}};
static struct input_handler handler = {
	.event = event, .match = match, .connect = connect, .disconnect = disconnect, .name = "hf_handler", .id_table = ids,
};

static int hf_open(struct input_dev *d)
{
	opened++;
	return 0;
}

static void hf_close(struct input_dev *d) { opened--; }

static int __init start(void)
{
	int err;

	dev = input_allocate_device();
	dev->name = "hf keys";
	dev->phys = "hf/input0";
	dev->id = (struct input_id){BUS_VIRTUAL, 0x1234, 0xfedc, 2};
	dev->open = hf_open;
	dev->close = hf_close;
	dev->evbit[0] = BIT_MASK(EV_KEY) | BIT_MASK(EV_REL);
	set_bit(KEY_A, dev->keybit);
	set_bit(KEY_F1, dev->keybit);
	set_bit(BTN_LEFT, dev->keybit);
	input_set_capability(dev, EV_REL, REL_X);
	input_set_abs_params(dev, ABS_X, 0, 1000, 4, 0);
	input_report_key(dev, KEY_A, 1); // nobody listens yet
	input_report_key(dev, KEY_A, 0);
	err = input_register_device(dev);
	pr_info("inputs: register %d, handler %d\n", err, input_register_handler(&handler));
	input_report_key(dev, KEY_A, 1);
	input_report_key(dev, KEY_A, 1); // pressed already
	input_report_key(dev, KEY_B, 1); // it has none
	input_sync(dev);
	input_report_rel(dev, REL_X, -5);
	input_report_rel(dev, REL_X, 0);
	input_report_rel(dev, REL_Y, 1);
	input_sync(dev);
	input_sync(dev); // an empty packet
	input_report_abs(dev, ABS_X, 500);
	input_report_abs(dev, ABS_X, 501); // noise
	input_sync(dev);
	input_event(dev, EV_KEY, KEY_A, 2);
	input_event(dev, EV_LED, LED_CAPSL, 1);
	input_sync(dev);
	return 0;
}

static void __exit stop(void)
{
	input_unregister_device(dev); // A is still pressed
	input_unregister_handler(&handler);
}

module_init(start);
module_exit(stop);
MODULE_LICENSE("GPL");
