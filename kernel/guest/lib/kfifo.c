// Queues in a buffer whose size is a power of two: of elements, or (the functions that
// end in _r) of records that begin with their length in one or two bytes.
#include <linux/kfifo.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/export.h>

// room returns the number of elements that there is room for.
static unsigned int room(const struct __kfifo *fifo)
{
	return fifo->mask + 1 - (fifo->in - fifo->out);
}

int __kfifo_alloc(struct __kfifo *fifo, unsigned int size, size_t esize, gfp_t gfp)
{
	memset(fifo, 0, sizeof(*fifo));
	fifo->esize = esize;
	size = size > 1U << 31 ? 0 : roundup_pow_of_two(size);
	if (size < 2)
		return -EINVAL;
	fifo->data = kmalloc_array(esize, size, gfp);
	if (!fifo->data)
		return -ENOMEM;
	fifo->mask = size - 1;
	return 0;
}
EXPORT_SYMBOL(__kfifo_alloc);

void __kfifo_free(struct __kfifo *fifo)
{
	kfree(fifo->data);
	memset(fifo, 0, sizeof(*fifo));
}
EXPORT_SYMBOL(__kfifo_free);

// __kfifo_init uses as much of a buffer of size bytes as is a power of two.
int __kfifo_init(struct __kfifo *fifo, void *buffer, unsigned int size, size_t esize)
{
	size /= esize;
	memset(fifo, 0, sizeof(*fifo));
	fifo->esize = esize;
	fifo->data = buffer;
	if (size)
		size = 1U << (fls(size) - 1);
	if (size < 2)
		return -EINVAL;
	fifo->mask = size - 1;
	return 0;
}
EXPORT_SYMBOL(__kfifo_init);

enum way { IN, OUT, FROM_USER, TO_USER };

// move copies n bytes between p and here: how many of them could not be read or written.
static unsigned long move(enum way way, void *here, void *p, unsigned long n)
{
	switch (way) {
	case IN:
		memcpy(here, p, n);
		return 0;
	case OUT:
		memcpy(p, here, n);
		return 0;
	case FROM_USER:
		return _copy_from_user(here, p, n);
	default:
		return _copy_to_user(p, here, n);
	}
}

// copy moves n elements between p and place at of the queue, around its end: the number
// of bytes that remain.
static unsigned long copy(struct __kfifo *fifo, enum way way, void *p, unsigned int n, unsigned int at)
{
	size_t esize = fifo->esize, bytes, first;
	unsigned long left;

	at &= fifo->mask;
	bytes = n * esize;
	first = min(bytes, (fifo->mask + 1 - at) * esize);
	left = move(way, fifo->data + at * esize, p, first);
	if (left)
		return left + bytes - first;
	return bytes > first ? move(way, fifo->data, p + first, bytes - first) : 0;
}

unsigned int __kfifo_in(struct __kfifo *fifo, const void *buf, unsigned int len)
{
	len = min(len, room(fifo));
	copy(fifo, IN, (void *)buf, len, fifo->in);
	smp_wmb();
	fifo->in += len;
	return len;
}
EXPORT_SYMBOL(__kfifo_in);

unsigned int __kfifo_out_peek(struct __kfifo *fifo, void *buf, unsigned int len)
{
	len = min(len, fifo->in - fifo->out);
	copy(fifo, OUT, buf, len, fifo->out);
	smp_wmb();
	return len;
}
EXPORT_SYMBOL(__kfifo_out_peek);

unsigned int __kfifo_out(struct __kfifo *fifo, void *buf, unsigned int len)
{
	len = __kfifo_out_peek(fifo, buf, len);
	fifo->out += len;
	return len;
}
EXPORT_SYMBOL(__kfifo_out);

// __kfifo_from_user takes as many of len bytes as there is room for: -EFAULT.
int __kfifo_from_user(struct __kfifo *fifo, const void __user *from, unsigned long len, unsigned int *copied)
{
	unsigned long n = min(len / fifo->esize, (unsigned long)room(fifo));
	unsigned long left = copy(fifo, FROM_USER, (void *)from, n, fifo->in);
	int err = left ? -EFAULT : 0;

	n -= DIV_ROUND_UP(left, fifo->esize);
	*copied = n * fifo->esize;
	smp_wmb();
	fifo->in += n;
	return err;
}
EXPORT_SYMBOL(__kfifo_from_user);

int __kfifo_to_user(struct __kfifo *fifo, void __user *to, unsigned long len, unsigned int *copied)
{
	unsigned long n = min(len / fifo->esize, (unsigned long)(fifo->in - fifo->out));
	unsigned long left = copy(fifo, TO_USER, to, n, fifo->out);
	int err = left ? -EFAULT : 0;

	n -= DIV_ROUND_UP(left, fifo->esize);
	*copied = n * fifo->esize;
	fifo->out += n;
	return err;
}
EXPORT_SYMBOL(__kfifo_to_user);

// Records.

unsigned int __kfifo_max_r(unsigned int len, size_t recsize)
{
	return min(len, (1U << (recsize * 8)) - 1);
}
EXPORT_SYMBOL(__kfifo_max_r);

// length returns how long the next record is.
static unsigned int length(const struct __kfifo *fifo, size_t recsize)
{
	const u8 *data = fifo->data;
	unsigned int n = data[fifo->out & fifo->mask];

	if (recsize > 1)
		n |= data[(fifo->out + 1) & fifo->mask] << 8;
	return n;
}

static void set_length(struct __kfifo *fifo, unsigned int n, size_t recsize)
{
	u8 *data = fifo->data;

	data[fifo->in & fifo->mask] = n;
	if (recsize > 1)
		data[(fifo->in + 1) & fifo->mask] = n >> 8;
}

unsigned int __kfifo_len_r(struct __kfifo *fifo, size_t recsize)
{
	return length(fifo, recsize);
}
EXPORT_SYMBOL(__kfifo_len_r);

// __kfifo_in_r adds a record, if there is room for all of it.
unsigned int __kfifo_in_r(struct __kfifo *fifo, const void *buf, unsigned int len, size_t recsize)
{
	if (len + recsize > room(fifo))
		return 0;
	set_length(fifo, len, recsize);
	copy(fifo, IN, (void *)buf, len, fifo->in + recsize);
	smp_wmb();
	fifo->in += len + recsize;
	return len;
}
EXPORT_SYMBOL(__kfifo_in_r);

unsigned int __kfifo_out_peek_r(struct __kfifo *fifo, void *buf, unsigned int len, size_t recsize)
{
	if (fifo->in == fifo->out)
		return 0;
	len = min(len, length(fifo, recsize));
	copy(fifo, OUT, buf, len, fifo->out + recsize);
	return len;
}
EXPORT_SYMBOL(__kfifo_out_peek_r);

void __kfifo_skip_r(struct __kfifo *fifo, size_t recsize)
{
	fifo->out += length(fifo, recsize) + recsize;
}
EXPORT_SYMBOL(__kfifo_skip_r);

// __kfifo_out_r removes a record. What is longer than len is lost.
unsigned int __kfifo_out_r(struct __kfifo *fifo, void *buf, unsigned int len, size_t recsize)
{
	if (fifo->in == fifo->out)
		return 0;
	len = __kfifo_out_peek_r(fifo, buf, len, recsize);
	__kfifo_skip_r(fifo, recsize);
	return len;
}
EXPORT_SYMBOL(__kfifo_out_r);

int __kfifo_from_user_r(struct __kfifo *fifo, const void __user *from, unsigned long len, unsigned int *copied,
			size_t recsize)
{
	len = __kfifo_max_r(len, recsize);
	*copied = 0;
	if (len + recsize > room(fifo))
		return 0;
	set_length(fifo, len, recsize);
	if (copy(fifo, FROM_USER, (void *)from, len, fifo->in + recsize))
		return -EFAULT;
	*copied = len;
	smp_wmb();
	fifo->in += len + recsize;
	return 0;
}
EXPORT_SYMBOL(__kfifo_from_user_r);

int __kfifo_to_user_r(struct __kfifo *fifo, void __user *to, unsigned long len, unsigned int *copied, size_t recsize)
{
	*copied = 0;
	if (fifo->in == fifo->out)
		return 0;
	len = min(len, (unsigned long)length(fifo, recsize));
	if (copy(fifo, TO_USER, to, len, fifo->out + recsize))
		return -EFAULT;
	*copied = len;
	__kfifo_skip_r(fifo, recsize);
	return 0;
}
EXPORT_SYMBOL(__kfifo_to_user_r);
