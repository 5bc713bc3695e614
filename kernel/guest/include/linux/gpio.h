// gpio.h: pins by number. There is no chip that has any.
#ifndef __LINUX_GPIO_H
#define __LINUX_GPIO_H

#include <linux/types.h>
#include <linux/errno.h>

#define ARCH_NR_GPIOS 1024
#define GPIOF_DIR_OUT 0
#define GPIOF_DIR_IN 1
#define GPIOF_INIT_LOW 0
#define GPIOF_INIT_HIGH 2
#define GPIOF_IN GPIOF_DIR_IN
#define GPIOF_OUT_INIT_LOW (GPIOF_DIR_OUT | GPIOF_INIT_LOW)
#define GPIOF_OUT_INIT_HIGH (GPIOF_DIR_OUT | GPIOF_INIT_HIGH)

struct gpio {
	unsigned int gpio;
	unsigned long flags; // GPIOF_*
	const char *label;
};

struct gpio_desc;

static inline bool gpio_is_valid(int number) { return number >= 0 && number < ARCH_NR_GPIOS; }

int gpio_request(unsigned int gpio, const char *label);
int gpio_request_one(unsigned int gpio, unsigned long flags, const char *label);
int gpio_request_array(const struct gpio *array, size_t num);
void gpio_free(unsigned int gpio);
void gpio_free_array(const struct gpio *array, size_t num);
struct gpio_desc *gpio_to_desc(unsigned int gpio);
int gpiod_direction_input(struct gpio_desc *desc);
int gpiod_direction_output_raw(struct gpio_desc *desc, int value);
int gpiod_direction_output(struct gpio_desc *desc, int value);
int gpiod_get_raw_value(const struct gpio_desc *desc);
int gpiod_get_value(const struct gpio_desc *desc);
int gpiod_get_value_cansleep(const struct gpio_desc *desc);
int gpiod_get_raw_value_cansleep(const struct gpio_desc *desc);
void gpiod_set_raw_value(struct gpio_desc *desc, int value);
void gpiod_set_value(struct gpio_desc *desc, int value);
void gpiod_set_value_cansleep(struct gpio_desc *desc, int value);
void gpiod_set_raw_value_cansleep(struct gpio_desc *desc, int value);
int gpiod_set_debounce(struct gpio_desc *desc, unsigned int debounce);
int gpiod_to_irq(const struct gpio_desc *desc);

static inline int gpio_direction_input(unsigned int gpio) { return gpiod_direction_input(gpio_to_desc(gpio)); }
static inline int gpio_direction_output(unsigned int gpio, int value) { return gpiod_direction_output_raw(gpio_to_desc(gpio), value); }
static inline int gpio_get_value(unsigned int gpio) { return gpiod_get_raw_value(gpio_to_desc(gpio)); }
static inline void gpio_set_value(unsigned int gpio, int value) { gpiod_set_raw_value(gpio_to_desc(gpio), value); }
static inline int gpio_to_irq(unsigned int gpio) { return gpiod_to_irq(gpio_to_desc(gpio)); }
static inline int gpio_set_debounce(unsigned int gpio, unsigned int debounce) { return gpiod_set_debounce(gpio_to_desc(gpio), debounce); }

#endif
