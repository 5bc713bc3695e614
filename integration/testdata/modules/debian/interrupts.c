// Interrupts that are raised, shared, disabled and handled in threads; pins by number, which are not there.
#include <linux/delay.h>
#include <linux/gpio.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irq_work.h>
#include <linux/irqdesc.h>
#include <linux/ioport.h>
#include <linux/module.h>
#include <linux/sched.h>

#define LINE 5

static int count[3], in_hard, in_thread;
static int a, b, c;

static irqreturn_t first(int irq, void *dev)
{
	count[0]++;
	in_hard += in_hardirq() && irqs_disabled() && irq == LINE && dev == &a;
	return IRQ_HANDLED;
}

static irqreturn_t second(int irq, void *dev)
{
	count[1]++;
	return IRQ_WAKE_THREAD;
}

static irqreturn_t second_thread(int irq, void *dev)
{
	count[2]++;
	in_thread += !in_interrupt() && !strncmp(current->comm, "irq/5-hf_second", 15);
	return IRQ_HANDLED;
}

static int result;
static void raise(struct irq_work *work) { result = generic_handle_irq(LINE); }
static struct irq_work work = IRQ_WORK_INIT_HARD(raise);

static void tell(const char *when)
{
	irq_work_queue(&work);
	irq_work_sync(&work);
	msleep(20);
	pr_info("interrupts: %s: %d, hits %d %d %d, hard %d, thread %d\n", when, result, count[0], count[1], count[2], in_hard, in_thread);
}

static void lines(void)
{
	const void *name;
	int err;

	pr_info("interrupts: no handler %d, shared by nobody %d, no line %d\n", request_irq(LINE, NULL, 0, "hf", &a),
		request_irq(LINE, first, IRQF_SHARED, "hf", NULL), request_irq(4000, first, 0, "hf", &a));
	pr_info("interrupts: cascade %d\n", request_irq(2, first, 0, "hf", &a));
	err = request_irq(LINE, first, IRQF_SHARED, "hf_first", &a);
	pr_info("interrupts: first %d, alone %d\n", err, request_irq(LINE, first, 0, "hf_alone", &c));
	tell("one");
	err = request_threaded_irq(LINE, second, second_thread, IRQF_SHARED, "hf_second", &b);
	pr_info("interrupts: second %d, oneshot %d\n", err, request_threaded_irq(LINE, NULL, second_thread, IRQF_SHARED, "hf_third", &c));
	tell("two");
	disable_irq(LINE);
	tell("disabled");
	disable_irq_nosync(LINE);
	enable_irq(LINE);
	tell("disabled once");
	enable_irq(LINE);
	msleep(20);
	tell("enabled");
	name = free_irq(LINE, &a);
	tell("second alone");
	pr_info("interrupts: freed %s, %s\n", (char *)name, (char *)free_irq(LINE, &b));
	tell("none");
}

static struct gpio pins[] = {{4, GPIOF_OUT_INIT_LOW, "hf led"}, {17, GPIOF_IN, "hf button"}};

static void gpios(void)
{
	pr_info("interrupts: pin %d, valid %d %d, array %d\n", gpio_request(4, "hf led"), gpio_is_valid(4), gpio_is_valid(-1),
		gpio_request_array(pins, ARRAY_SIZE(pins)));
	pr_info("interrupts: pin one %d, its line %d\n", gpio_request_one(17, GPIOF_IN, "hf button"), gpio_to_irq(17));
}

static void regions(void)
{
	struct resource *r = request_region(0x3a0, 8, "hf_ports"), *s = request_mem_region(0xfe200000, 0x1000, "hf_memory");

	pr_info("interrupts: ports %d, overlap %d, next %d\n", !!r, !!request_region(0x3a4, 8, "hf_overlap"), !!request_region(0x3a8, 2, "hf_next"));
	pr_info("interrupts: %pR %s, %pR\n", r, r->name, s);
	release_region(0x3a8, 2);
	release_region(0x3a0, 8);
	release_region(0x3a0, 8);
	release_mem_region(0xfe200000, 0x1000);
}

static int __init start(void)
{
	lines();
	gpios();
	regions();
	return 0;
}

static void __exit stop(void) { }

module_init(start);
module_exit(stop);
MODULE_LICENSE("GPL");
