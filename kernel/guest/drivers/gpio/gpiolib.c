// Pins by number. The machine has no chip with pins, so each that could exist is one that a
// driver may still bring, which is -EPROBE_DEFER. A descriptor is NULL, on which all calls do
// nothing, as they do for a pin that is optional.
#include <linux/gpio.h>
#include <linux/kernel.h>
#include <linux/export.h>

struct gpio_desc *gpio_to_desc(unsigned int gpio)
{
	if (!gpio_is_valid(gpio))
		pr_warn("invalid GPIO %d\n", gpio);
	return NULL;
}
EXPORT_SYMBOL_GPL(gpio_to_desc);

int gpio_request(unsigned int gpio, const char *label)
{
	gpio_to_desc(gpio);
	return gpio_is_valid(gpio) ? -EPROBE_DEFER : -EINVAL;
}
EXPORT_SYMBOL_GPL(gpio_request);

int gpio_request_one(unsigned int gpio, unsigned long flags, const char *label)
{
	return gpio_request(gpio, label);
}
EXPORT_SYMBOL_GPL(gpio_request_one);

void gpio_free(unsigned int gpio)
{
	gpio_to_desc(gpio);
}
EXPORT_SYMBOL_GPL(gpio_free);

int gpio_request_array(const struct gpio *array, size_t num)
{
	size_t i;
	int err;

	for (i = 0; i < num; i++) {
		err = gpio_request_one(array[i].gpio, array[i].flags, array[i].label);
		if (err) {
			gpio_free_array(array, i);
			return err;
		}
	}
	return 0;
}
EXPORT_SYMBOL_GPL(gpio_request_array);

void gpio_free_array(const struct gpio *array, size_t num)
{
	while (num--)
		gpio_free(array[num].gpio);
}
EXPORT_SYMBOL_GPL(gpio_free_array);

#define NO_PIN(name, ...) int name(__VA_ARGS__) { return 0; } EXPORT_SYMBOL_GPL(name)
#define NO_PIN_SET(name) void name(struct gpio_desc *desc, int value) { } EXPORT_SYMBOL_GPL(name)

NO_PIN(gpiod_direction_input, struct gpio_desc *desc);
NO_PIN(gpiod_direction_output, struct gpio_desc *desc, int value);
NO_PIN(gpiod_direction_output_raw, struct gpio_desc *desc, int value);
NO_PIN(gpiod_get_value, const struct gpio_desc *desc);
NO_PIN(gpiod_get_value_cansleep, const struct gpio_desc *desc);
NO_PIN(gpiod_get_raw_value, const struct gpio_desc *desc);
NO_PIN(gpiod_get_raw_value_cansleep, const struct gpio_desc *desc);
NO_PIN(gpiod_set_debounce, struct gpio_desc *desc, unsigned int debounce);
NO_PIN_SET(gpiod_set_value);
NO_PIN_SET(gpiod_set_value_cansleep);
NO_PIN_SET(gpiod_set_raw_value);
NO_PIN_SET(gpiod_set_raw_value_cansleep);

int gpiod_to_irq(const struct gpio_desc *desc)
{
	return -EINVAL;
}
EXPORT_SYMBOL_GPL(gpiod_to_irq);
