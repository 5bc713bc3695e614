// Files whose text is generated record by record, in a buffer that grows until a
// record fits. A seq_file without operations is the host's, which has generated the
// text already.
#include <linux/hex.h>
#include <linux/printk.h>
#include <linux/ratelimit.h>
#include <linux/seq_file.h>
#include <linux/string_helpers.h>
#include <linux/sprintf.h>
#include <linux/mm.h>
#include <linux/hostfs.h>
#include <linux/export.h>

noinline int seq_open(struct file *file, const struct seq_operations *op)
{
	struct seq_file *m = kzalloc(sizeof(*m), GFP_KERNEL);

	if (!m)
		return -ENOMEM;
	mutex_init(&m->lock);
	m->op = op;
	m->file = file;
	file->private_data = m;
	file->f_mode &= ~FMODE_PWRITE;
	return 0;
}
EXPORT_SYMBOL(seq_open);

int seq_release(struct inode *inode, struct file *file)
{
	struct seq_file *m = file->private_data;

	kvfree(m->buf);
	kfree(m);
	return 0;
}
EXPORT_SYMBOL(seq_release);

static bool seq_buf_alloc(struct seq_file *m, size_t size)
{
	kvfree(m->buf);
	m->buf = kvmalloc_node(size, GFP_KERNEL, -1);
	m->size = m->buf ? size : 0;
	return m->buf;
}

static void seq_set_overflow(struct seq_file *m)
{
	m->count = m->size;
}

// first_record generates the record at m->index and returns the iterator, or NULL at
// the end. Empty records are skipped.
static void *first_record(struct seq_file *m, int *err)
{
	void *p = m->op->start(m, &m->index);

	m->from = m->count = 0;
	*err = 0;
	while (p) {
		loff_t at = m->index;

		*err = IS_ERR(p) ? PTR_ERR(p) : 0;
		if (*err)
			break;
		*err = m->op->show(m, p);
		if (*err < 0)
			break;
		if (*err)
			m->count = 0;
		*err = 0;
		if (!m->count) {
			p = m->op->next(m, p, &m->index);
			if (m->index == at)
				m->index++;
			continue;
		}
		if (!seq_has_overflowed(m))
			return p;
		// The record does not fit: try again with a buffer of twice the size.
		m->op->stop(m, p);
		m->count = 0;
		if (!seq_buf_alloc(m, m->size * 2)) {
			*err = -ENOMEM;
			return NULL;
		}
		p = m->op->start(m, &m->index);
	}
	m->op->stop(m, p);
	m->count = 0;
	return NULL;
}

// more_records appends records after the first one while the reader wants more and
// they fit.
static void more_records(struct seq_file *m, void *p, size_t wanted)
{
	for (;;) {
		size_t before = m->count;
		loff_t at = m->index;
		int err;

		p = m->op->next(m, p, &m->index);
		if (m->index == at) {
			pr_info_ratelimited("seq_file: buggy .next function %ps did not update position index\n", m->op->next);
			m->index++;
		}
		if (IS_ERR_OR_NULL(p) || m->count >= wanted)
			break;
		err = m->op->show(m, p);
		if (err > 0)
			m->count = before;
		if (err < 0 || seq_has_overflowed(m)) {
			m->count = before;
			break;
		}
	}
	m->op->stop(m, p);
}

// drain copies the buffer's contents to the reader.
static size_t drain(struct seq_file *m, struct iov_iter *iter)
{
	size_t n = copy_to_iter(m->buf + m->from, min(m->count, iter->count), iter);

	m->from += n;
	m->count -= n;
	return n;
}

// traverse generates everything up to offset again, so that the next read begins
// there.
static int traverse(struct seq_file *m, loff_t offset)
{
	loff_t pos = 0;
	int err = 0;
	void *p;

	m->index = 0;
	m->from = m->count = 0;
	if (!m->buf && offset && !seq_buf_alloc(m, PAGE_SIZE))
		return -ENOMEM;
	while (pos < offset && (p = first_record(m, &err))) {
		size_t n = m->count;

		m->op->next(m, p, &m->index);
		m->op->stop(m, p);
		if (pos + n > offset) {
			m->from = offset - pos;
			m->count = n - m->from;
			return 0;
		}
		pos += n;
	}
	m->from = m->count = 0;
	return err;
}

ssize_t seq_read_iter(struct kiocb *iocb, struct iov_iter *iter)
{
	struct seq_file *m = iocb->ki_filp->private_data;
	size_t copied = 0, n;
	int err = 0;
	void *p;

	if (!iter->count)
		return 0;
	mutex_lock(&m->lock);
	if (!m->op) {
		copied = hostfs_read_iter(iocb, iter);
		mutex_unlock(&m->lock);
		return copied;
	}
	if (!m->buf && !seq_buf_alloc(m, PAGE_SIZE))
		goto nomem;
	if (iocb->ki_pos != m->read_pos) {
		err = traverse(m, iocb->ki_pos);
		if (err)
			goto done;
		m->read_pos = iocb->ki_pos;
	}
	if (m->count) {
		n = drain(m, iter);
		copied += n;
		if (m->count)
			goto done;
	}
	if (iter->count) {
		p = first_record(m, &err);
		if (p) {
			more_records(m, p, iter->count);
			copied += drain(m, iter);
		}
	}
done:
	if (!copied)
		copied = m->count && !err ? -EFAULT : err;
	else {
		iocb->ki_pos += copied;
		m->read_pos += copied;
	}
	mutex_unlock(&m->lock);
	return copied;
nomem:
	mutex_unlock(&m->lock);
	return -ENOMEM;
}
EXPORT_SYMBOL(seq_read_iter);

ssize_t seq_read(struct file *file, char __user *buf, size_t size, loff_t *ppos)
{
	struct kiocb kiocb = { .ki_filp = file, .ki_pos = *ppos };
	struct iov_iter iter;
	ssize_t ret;

	iov_iter_ubuf(&iter, READ, buf, size);
	ret = seq_read_iter(&kiocb, &iter);
	*ppos = kiocb.ki_pos;
	return ret;
}
EXPORT_SYMBOL(seq_read);

// seq_lseek allows SEEK_SET and SEEK_CUR.
loff_t seq_lseek(struct file *file, loff_t offset, int whence)
{
	struct seq_file *m = file->private_data;
	int err = 0;

	mutex_lock(&m->lock);
	if (whence == SEEK_CUR)
		offset += file->f_pos;
	else if (whence != SEEK_SET)
		err = -EINVAL;
	if (offset < 0)
		err = -EINVAL;
	if (!err && m->op && offset != m->read_pos) {
		err = traverse(m, offset);
		m->read_pos = offset;
	}
	if (!err)
		file->f_pos = offset;
	mutex_unlock(&m->lock);
	return err ? err : offset;
}
EXPORT_SYMBOL(seq_lseek);

noinline void seq_vprintf(struct seq_file *m, const char *fmt, va_list args)
{
	size_t room = m->size - m->count;
	size_t n = m->count < m->size ? vsnprintf(m->buf + m->count, room, fmt, args) : 0;

	if (m->count < m->size && n < room)
		m->count += n;
	else
		seq_set_overflow(m);
}
EXPORT_SYMBOL(seq_vprintf);

void seq_printf(struct seq_file *m, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	seq_vprintf(m, fmt, args);
	va_end(args);
}
EXPORT_SYMBOL(seq_printf);

noinline void seq_putc(struct seq_file *m, char c)
{
	if (m->count < m->size)
		m->buf[m->count++] = c;
}
EXPORT_SYMBOL(seq_putc);

// seq_write returns 0, or -1 if the data does not fit.
noinline int seq_write(struct seq_file *m, const void *data, size_t len)
{
	if (m->count + len >= m->size) {
		seq_set_overflow(m);
		return -1;
	}
	memcpy(m->buf + m->count, data, len);
	m->count += len;
	return 0;
}
EXPORT_SYMBOL(seq_write);

noinline void seq_puts(struct seq_file *m, const char *s)
{
	seq_write(m, s, strlen(s));
}
EXPORT_SYMBOL(seq_puts);

void seq_put_decimal_ull(struct seq_file *m, const char *delimiter, unsigned long long num)
{
	char digits[24];

	if (delimiter)
		seq_puts(m, delimiter);
	seq_write(m, digits, num_to_str(digits, sizeof(digits), num, 0));
}
EXPORT_SYMBOL(seq_put_decimal_ull);

// seq_put_hex_ll writes at least width digits.
void seq_put_hex_ll(struct seq_file *m, const char *delimiter, unsigned long long v, unsigned int width)
{
	seq_printf(m, "%s%0*llx", delimiter ? delimiter : "", width, v);
}

void seq_escape_mem(struct seq_file *m, const char *src, size_t len, unsigned int flags, const char *esc)
{
	size_t room = m->size - m->count;
	size_t n = string_escape_mem(src, len, m->buf + m->count, room, flags, esc);

	m->count = n < room ? m->count + n : m->size;
}
EXPORT_SYMBOL(seq_escape_mem);

static void *single_start(struct seq_file *m, loff_t *pos)
{
	return *pos ? NULL : SEQ_START_TOKEN;
}

static void *single_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return NULL;
}

static void single_stop(struct seq_file *m, void *v)
{
}

int single_open(struct file *file, int (*show)(struct seq_file *, void *), void *data)
{
	struct seq_operations *op = kmalloc(sizeof(*op), GFP_KERNEL);
	int err;

	if (!op)
		return -ENOMEM;
	*op = (struct seq_operations){ single_start, single_stop, single_next, show };
	err = seq_open(file, op);
	if (err)
		kfree(op);
	else
		((struct seq_file *)file->private_data)->private = data;
	return err;
}
EXPORT_SYMBOL(single_open);

int single_release(struct inode *inode, struct file *file)
{
	const struct seq_operations *op = ((struct seq_file *)file->private_data)->op;
	int err = seq_release(inode, file);

	kfree(op);
	return err;
}
EXPORT_SYMBOL(single_release);

struct list_head *seq_list_start(struct list_head *head, loff_t pos)
{
	struct list_head *at;

	list_for_each(at, head) {
		if (pos-- == 0)
			return at;
	}
	return NULL;
}
EXPORT_SYMBOL(seq_list_start);

struct list_head *seq_list_next(void *v, struct list_head *head, loff_t *pos)
{
	struct list_head *next = ((struct list_head *)v)->next;

	++*pos;
	return next == head ? NULL : next;
}
EXPORT_SYMBOL(seq_list_next);

struct list_head *seq_list_start_head(struct list_head *head, loff_t pos)
{
	return pos ? seq_list_start(head, pos - 1) : head;
}
EXPORT_SYMBOL(seq_list_start_head);

// __seq_open_private allocates psize bytes for the iterator, which seq_release_private
// frees, and returns them.
noinline void *__seq_open_private(struct file *file, const struct seq_operations *ops, int psize)
{
	void *state = kzalloc(psize, GFP_KERNEL);

	if (!state)
		return NULL;
	if (seq_open(file, ops) < 0) {
		kfree(state);
		return NULL;
	}
	((struct seq_file *)file->private_data)->private = state;
	return state;
}
EXPORT_SYMBOL(__seq_open_private);

int seq_open_private(struct file *file, const struct seq_operations *ops, int psize)
{
	return __seq_open_private(file, ops, psize) ? 0 : -ENOMEM;
}
EXPORT_SYMBOL(seq_open_private);

int seq_release_private(struct inode *inode, struct file *file)
{
	struct seq_file *m = file->private_data;

	kfree(m->private);
	m->private = NULL;
	return seq_release(inode, file);
}
EXPORT_SYMBOL(seq_release_private);

// single_open_size is single_open with a buffer of size bytes.
int single_open_size(struct file *file, int (*show)(struct seq_file *, void *), void *data, size_t size)
{
	char *buf = kvmalloc_node(size, GFP_KERNEL, -1);
	struct seq_file *m;
	int err;

	if (!buf)
		return -ENOMEM;
	err = single_open(file, show, data);
	if (err) {
		kvfree(buf);
		return err;
	}
	m = file->private_data;
	m->buf = buf;
	m->size = size;
	return 0;
}
EXPORT_SYMBOL(single_open_size);

void seq_put_decimal_ll(struct seq_file *m, const char *delimiter, long long num)
{
	if (delimiter)
		seq_puts(m, delimiter);
	seq_printf(m, "%lld", num);
}
EXPORT_SYMBOL(seq_put_decimal_ll);

// seq_pad fills up to m->pad_until with spaces, then writes c unless it is 0.
void seq_pad(struct seq_file *m, char c)
{
	int size = m->pad_until - m->count;

	if (size > 0) {
		if (size + m->count > m->size) {
			seq_set_overflow(m);
			return;
		}
		memset(m->buf + m->count, ' ', size);
		m->count += size;
	}
	if (c)
		seq_putc(m, c);
}
EXPORT_SYMBOL(seq_pad);

// seq_get_buf and seq_commit in one: path writes to the rest of the buffer by a function that
// begins at its end, and escapes what esc has.
static int seq_put_path(struct seq_file *m, char *path, char *rest, const char *esc)
{
	char *end;

	if (IS_ERR(path))
		return PTR_ERR(path);
	end = mangle_path(rest, path, esc);
	if (!end)
		return -ENAMETOOLONG;
	m->count = end - m->buf;
	return end - rest;
}

// mangle_path copies p to s, with the characters in esc as octal escapes. It returns the end,
// or NULL if the two have met: p is in the same buffer, behind s.
char *mangle_path(char *s, const char *p, const char *esc)
{
	while (s <= p) {
		char c = *p++;

		if (!c)
			return s;
		if (!strchr(esc, c)) {
			*s++ = c;
			continue;
		}
		if (s + 4 > p)
			break;
		*s++ = '\\';
		*s++ = '0' + ((c & 0300) >> 6);
		*s++ = '0' + ((c & 070) >> 3);
		*s++ = '0' + (c & 07);
	}
	return NULL;
}
EXPORT_SYMBOL(mangle_path);

noinline int seq_path(struct seq_file *m, const struct path *path, const char *esc)
{
	char *rest = m->buf + m->count;
	int res = -1;

	if (m->count < m->size)
		res = seq_put_path(m, d_path(path, rest, m->size - m->count), rest, esc);
	if (res < 0)
		seq_set_overflow(m);
	return res;
}
EXPORT_SYMBOL(seq_path);

int seq_file_path(struct seq_file *m, struct file *file, const char *esc)
{
	return seq_path(m, &file->f_path, esc);
}
EXPORT_SYMBOL(seq_file_path);

int seq_dentry(struct seq_file *m, struct dentry *dentry, const char *esc)
{
	char *rest = m->buf + m->count;
	int res = -1;

	if (m->count < m->size)
		res = seq_put_path(m, dentry_path_raw(dentry, rest, m->size - m->count), rest, esc);
	if (res < 0)
		seq_set_overflow(m);
	return res;
}
EXPORT_SYMBOL(seq_dentry);

struct hlist_node *seq_hlist_start(struct hlist_head *head, loff_t pos)
{
	struct hlist_node *node;

	for (node = head->first; node; node = node->next) {
		if (pos-- == 0)
			return node;
	}
	return NULL;
}
EXPORT_SYMBOL(seq_hlist_start);

struct hlist_node *seq_hlist_start_head(struct hlist_head *head, loff_t pos)
{
	return pos ? seq_hlist_start(head, pos - 1) : SEQ_START_TOKEN;
}
EXPORT_SYMBOL(seq_hlist_start_head);

struct hlist_node *seq_hlist_next(void *v, struct hlist_head *head, loff_t *ppos)
{
	struct hlist_node *node = v;

	++*ppos;
	return v == SEQ_START_TOKEN ? head->first : node->next;
}
EXPORT_SYMBOL(seq_hlist_next);

// Writers of an RCU list do not wait for readers: these walk it as those without _rcu do.
struct list_head *seq_list_start_rcu(struct list_head *head, loff_t pos)
{
	return seq_list_start(head, pos);
}
EXPORT_SYMBOL(seq_list_start_rcu);

struct list_head *seq_list_start_head_rcu(struct list_head *head, loff_t pos)
{
	return seq_list_start_head(head, pos);
}
EXPORT_SYMBOL(seq_list_start_head_rcu);

struct list_head *seq_list_next_rcu(void *v, struct list_head *head, loff_t *pos)
{
	return seq_list_next(v, head, pos);
}
EXPORT_SYMBOL(seq_list_next_rcu);

// seq_hex_dump writes one line for each rowsize bytes.
void seq_hex_dump(struct seq_file *m, const char *prefix_str, int prefix_type, int rowsize, int groupsize,
		  const void *buf, size_t len, bool ascii)
{
	const u8 *from = buf;
	char line[32 * 3 + 2 + 32 + 1];
	size_t at;

	if (rowsize != 16 && rowsize != 32)
		rowsize = 16;
	for (at = 0; at < len && !seq_has_overflowed(m); at += rowsize) {
		seq_puts(m, prefix_str);
		if (prefix_type == DUMP_PREFIX_ADDRESS)
			seq_printf(m, "%p: ", from + at);
		else if (prefix_type == DUMP_PREFIX_OFFSET)
			seq_printf(m, "%.8x: ", (int)at);
		hex_dump_to_buffer(from + at, min(len - at, (size_t)rowsize), rowsize, groupsize, line, sizeof(line), ascii);
		seq_printf(m, "%s\n", line);
	}
}
EXPORT_SYMBOL(seq_hex_dump);
