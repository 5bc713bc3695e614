// The memory of a read or write: user or kernel memory.
#include <linux/fs.h>
#include <linux/uaccess.h>

noinline void iov_iter_init(struct iov_iter *i, unsigned int direction, const struct iovec *iov, unsigned long nr_segs, size_t count)
{
	*i = (struct iov_iter){
		.iter_type = ITER_IOVEC, .data_source = direction, .user_backed = true,
		.iov = iov, .nr_segs = nr_segs, .count = count,
	};
}

noinline void iov_iter_ubuf(struct iov_iter *i, unsigned int direction, void __user *buf, size_t count)
{
	*i = (struct iov_iter){
		.iter_type = ITER_UBUF, .data_source = direction, .user_backed = true,
		.ubuf = buf, .nr_segs = 1, .count = count,
	};
}

noinline void iov_iter_kvec(struct iov_iter *i, unsigned int direction, const struct kvec *kvec, unsigned long nr_segs, size_t count)
{
	*i = (struct iov_iter){
		.iter_type = ITER_KVEC, .data_source = direction,
		.kvec = kvec, .nr_segs = nr_segs, .count = count,
	};
}

// iovec_from_user copies an array of pieces of user memory into fast, or into memory of its
// own if it is too long for that.
noinline struct iovec *iovec_from_user(const struct iovec __user *uvec, unsigned long nr_segs, unsigned long fast_segs, struct iovec *fast, bool compat)
{
	struct iovec *iov = fast;
	unsigned long i;

	if (!nr_segs)
		return iov;
	if (nr_segs > UIO_MAXIOV)
		return ERR_PTR(-EINVAL);
	if (nr_segs > fast_segs) {
		iov = kmalloc_array(nr_segs, sizeof(*iov), GFP_KERNEL);
		if (!iov)
			return ERR_PTR(-ENOMEM);
	}
	if (copy_from_user(iov, uvec, nr_segs * sizeof(*iov))) {
		if (iov != fast)
			kfree(iov);
		return ERR_PTR(-EFAULT);
	}
	for (i = 0; i < nr_segs; i++) {
		if ((ssize_t)iov[i].iov_len >= 0)
			continue;
		if (iov != fast)
			kfree(iov);
		return ERR_PTR(-EINVAL);
	}
	return iov;
}

noinline ssize_t __import_iovec(int type, const struct iovec __user *uvec, unsigned int nr_segs, unsigned int fast_segs, struct iovec **iovp, struct iov_iter *i, bool compat)
{
	struct iovec *iov = iovec_from_user(uvec, nr_segs, fast_segs, *iovp, compat);
	ssize_t total = 0;
	unsigned int n;

	if (IS_ERR(iov)) {
		*iovp = NULL;
		return PTR_ERR(iov);
	}
	for (n = 0; n < nr_segs; n++) {
		if (!access_ok(iov[n].iov_base, iov[n].iov_len)) {
			if (iov != *iovp)
				kfree(iov);
			*iovp = NULL;
			return -EFAULT;
		}
		iov[n].iov_len = min_t(size_t, iov[n].iov_len, MAX_RW_COUNT - total);
		total += iov[n].iov_len;
	}
	iov_iter_init(i, type, iov, nr_segs, total);
	*iovp = iov == *iovp ? NULL : iov;
	return total;
}

// import_iovec sets up i for an array of pieces of user memory. *iovp is where fast_segs of
// them have room; afterwards it is what the caller must kfree, or NULL. It returns the
// number of bytes, or an error.
noinline ssize_t import_iovec(int type, const struct iovec __user *uvec, unsigned int nr_segs, unsigned int fast_segs, struct iovec **iovp, struct iov_iter *i)
{
	return __import_iovec(type, uvec, nr_segs, fast_segs, iovp, i, false);
}

// segment returns the next piece of memory and its length.
static char *segment(struct iov_iter *i, size_t *len)
{
	if (i->iter_type == ITER_UBUF) {
		*len = i->count;
		return (char *)i->ubuf + i->iov_offset;
	}
	while (i->iov_offset >= i->iov->iov_len) {
		i->iov_offset -= i->iov->iov_len;
		i->iov++;
		i->nr_segs--;
	}
	*len = min(i->iov->iov_len - i->iov_offset, i->count);
	return (char *)i->iov->iov_base + i->iov_offset;
}

static void moved(struct iov_iter *i, size_t n)
{
	i->iov_offset += n;
	i->count -= n;
}

// Both copy functions return the number of bytes copied, which is less than requested
// on a fault.
noinline size_t _copy_to_iter(const void *addr, size_t bytes, struct iov_iter *i)
{
	size_t done = 0, n, left;

	if (bytes > i->count)
		bytes = i->count;
	while (done < bytes) {
		char *to = segment(i, &n);

		n = min(n, bytes - done);
		if (i->user_backed) {
			left = copy_to_user(to, (const char *)addr + done, n);
		} else {
			memcpy(to, (const char *)addr + done, n);
			left = 0;
		}
		moved(i, n - left);
		done += n - left;
		if (left)
			break;
	}
	return done;
}

noinline size_t _copy_from_iter(void *addr, size_t bytes, struct iov_iter *i)
{
	size_t done = 0, n, left;

	if (bytes > i->count)
		bytes = i->count;
	while (done < bytes) {
		char *from = segment(i, &n);

		n = min(n, bytes - done);
		if (i->user_backed) {
			left = copy_from_user((char *)addr + done, from, n);
		} else {
			memcpy((char *)addr + done, from, n);
			left = 0;
		}
		moved(i, n - left);
		done += n - left;
		if (left)
			break;
	}
	return done;
}

size_t iov_iter_zero(size_t bytes, struct iov_iter *i)
{
	static const char zeros[64];
	size_t done = 0, n;

	while (done < bytes && i->count) {
		n = _copy_to_iter(zeros, min(bytes - done, sizeof(zeros)), i);
		done += n;
		if (!n)
			break;
	}
	return done;
}

void iov_iter_advance(struct iov_iter *i, size_t bytes)
{
	moved(i, min(bytes, i->count));
}

// iov_iter_revert goes back by bytes of the last copy, within its segment.
void iov_iter_revert(struct iov_iter *i, size_t bytes)
{
	i->iov_offset -= bytes;
	i->count += bytes;
}
