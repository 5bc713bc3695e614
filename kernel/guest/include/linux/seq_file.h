// seq_file.h: files whose text is generated record by record.
#ifndef _LINUX_SEQ_FILE_H
#define _LINUX_SEQ_FILE_H

#include <linux/fs.h>

struct seq_operations;

struct seq_file {
	char *buf;
	size_t size;  // of buf
	size_t from;  // read so far from buf
	size_t count; // unread bytes in buf
	size_t pad_until;
	loff_t index; // index of the next record
	loff_t read_pos;
	struct mutex lock;
	const struct seq_operations *op;
	int poll_event;
	const struct file *file;
	void *private;
};
static_assert(sizeof(struct seq_file) == 120, "seq_file");
static_assert(offsetof(struct seq_file, op) == 88, "seq_file.op");

struct seq_operations {
	void *(*start)(struct seq_file *m, loff_t *pos);
	void (*stop)(struct seq_file *m, void *v);
	void *(*next)(struct seq_file *m, void *v, loff_t *pos);
	int (*show)(struct seq_file *m, void *v);
};

#define SEQ_START_TOKEN ((void *)1)
#define SEQ_SKIP 1

int seq_open(struct file *file, const struct seq_operations *op);
int seq_release(struct inode *inode, struct file *file);
ssize_t seq_read(struct file *file, char __user *buf, size_t size, loff_t *ppos);
ssize_t seq_read_iter(struct kiocb *iocb, struct iov_iter *iter);
loff_t seq_lseek(struct file *file, loff_t offset, int whence);
int single_open(struct file *file, int (*show)(struct seq_file *, void *), void *data);
int single_open_size(struct file *file, int (*show)(struct seq_file *, void *), void *data, size_t size);
int seq_open_private(struct file *file, const struct seq_operations *ops, int psize);
void *__seq_open_private(struct file *file, const struct seq_operations *ops, int psize);
int seq_release_private(struct inode *inode, struct file *file);
int single_release(struct inode *inode, struct file *file);
void seq_printf(struct seq_file *m, const char *fmt, ...);
void seq_vprintf(struct seq_file *m, const char *fmt, va_list args);
void seq_puts(struct seq_file *m, const char *s);
void seq_putc(struct seq_file *m, char c);
int seq_write(struct seq_file *m, const void *data, size_t len);
void seq_put_decimal_ull(struct seq_file *m, const char *delimiter, unsigned long long num);
void seq_put_hex_ll(struct seq_file *m, const char *delimiter, unsigned long long v, unsigned int width);
void seq_escape_mem(struct seq_file *m, const char *src, size_t len, unsigned int flags, const char *esc);
char *mangle_path(char *s, const char *p, const char *esc);
int seq_path(struct seq_file *m, const struct path *path, const char *esc);
int seq_file_path(struct seq_file *m, struct file *file, const char *esc);
int seq_dentry(struct seq_file *m, struct dentry *dentry, const char *esc);
struct hlist_node *seq_hlist_start(struct hlist_head *head, loff_t pos);
struct hlist_node *seq_hlist_start_head(struct hlist_head *head, loff_t pos);
struct hlist_node *seq_hlist_next(void *v, struct hlist_head *head, loff_t *ppos);
struct list_head *seq_list_start(struct list_head *head, loff_t pos);
struct list_head *seq_list_next(void *v, struct list_head *head, loff_t *pos);

static inline bool seq_has_overflowed(struct seq_file *m)
{
	return m->count == m->size;
}

#ifdef MODULE
#define DEFINE_SEQ_ATTRIBUTE(__name) \
static int __name##_open(struct inode *inode, struct file *file) \
{ \
	int ret = seq_open(file, &__name##_sops); \
	if (!ret && inode->i_private) \
		((struct seq_file *)file->private_data)->private = inode->i_private; \
	return ret; \
} \
static const struct file_operations __name##_fops = { \
	.owner = THIS_MODULE, .open = __name##_open, .read = seq_read, .llseek = seq_lseek, .release = seq_release, \
}
#define DEFINE_SHOW_ATTRIBUTE(__name) \
static int __name##_open(struct inode *inode, struct file *file) { return single_open(file, __name##_show, inode->i_private); } \
static const struct file_operations __name##_fops = { \
	.owner = THIS_MODULE, .open = __name##_open, .read = seq_read, .llseek = seq_lseek, .release = single_release, \
}
static inline void seq_setwidth(struct seq_file *m, size_t size) { m->pad_until = m->count + size; }
/* The room that is left, to be filled in by the caller, who says with seq_commit how much it was. */
static inline size_t seq_get_buf(struct seq_file *m, char **bufp)
{
	*bufp = m->count < m->size ? m->buf + m->count : NULL;
	return *bufp ? m->size - m->count : 0;
}
static inline void seq_commit(struct seq_file *m, int num) { m->count = num < 0 ? m->size : m->count + num; }
#endif
struct list_head *seq_list_start_rcu(struct list_head *head, loff_t pos);
struct list_head *seq_list_start_head_rcu(struct list_head *head, loff_t pos);
struct list_head *seq_list_next_rcu(void *v, struct list_head *head, loff_t *pos);
void seq_hex_dump(struct seq_file *m, const char *prefix_str, int prefix_type, int rowsize, int groupsize, const void *buf, size_t len, bool ascii);
#endif
