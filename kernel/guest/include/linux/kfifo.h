/* kfifo.h: queues without locks for one reader and one writer. */
#ifndef _LINUX_KFIFO_H
#define _LINUX_KFIFO_H
#include <linux/types.h>
#include <linux/gfp.h>

struct __kfifo {
	unsigned int in;
	unsigned int out;
	unsigned int mask; /* size - 1 */
	unsigned int esize;
	void *data;
};
int __kfifo_alloc(struct __kfifo *fifo, unsigned int size, size_t esize, gfp_t gfp);
void __kfifo_free(struct __kfifo *fifo);
int __kfifo_init(struct __kfifo *fifo, void *buffer, unsigned int size, size_t esize);
unsigned int __kfifo_in(struct __kfifo *fifo, const void *buf, unsigned int len);
unsigned int __kfifo_out(struct __kfifo *fifo, void *buf, unsigned int len);
unsigned int __kfifo_out_peek(struct __kfifo *fifo, void *buf, unsigned int len);
int __kfifo_from_user(struct __kfifo *fifo, const void __user *from, unsigned long len, unsigned int *copied);
int __kfifo_to_user(struct __kfifo *fifo, void __user *to, unsigned long len, unsigned int *copied);
unsigned int __kfifo_max_r(unsigned int len, size_t recsize);
unsigned int __kfifo_len_r(struct __kfifo *fifo, size_t recsize);
unsigned int __kfifo_in_r(struct __kfifo *fifo, const void *buf, unsigned int len, size_t recsize);
unsigned int __kfifo_out_r(struct __kfifo *fifo, void *buf, unsigned int len, size_t recsize);
unsigned int __kfifo_out_peek_r(struct __kfifo *fifo, void *buf, unsigned int len, size_t recsize);
void __kfifo_skip_r(struct __kfifo *fifo, size_t recsize);
int __kfifo_from_user_r(struct __kfifo *fifo, const void __user *from, unsigned long len, unsigned int *copied, size_t recsize);
int __kfifo_to_user_r(struct __kfifo *fifo, void __user *to, unsigned long len, unsigned int *copied, size_t recsize);
#endif
