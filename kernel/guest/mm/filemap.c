// The page cache of files that have one: disks. Their pages stay in memory.
#include <linux/blkdev.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

#define VM_READAHEAD_PAGES 32UL // the most that is read ahead

static DECLARE_WAIT_QUEUE_HEAD(folio_wait_table); // of all pages

static __noipa void folio_wake_bit(struct page *page, int bit)
{
	smp_mb();
	wake_up_all(&folio_wait_table);
}

noinline __noclone void folio_unlock(struct page *page)
{
	clear_bit(PG_locked, &page->flags);
	folio_wake_bit(page, PG_locked);
}

noinline __noclone void folio_end_writeback(struct page *page)
{
	clear_bit(PG_writeback, &page->flags);
	folio_wake_bit(page, PG_writeback);
}

noinline __noclone void folio_wait_writeback(struct page *page)
{
	wait_event_io(folio_wait_table, !page_test(page, PG_writeback));
}

noinline __noclone void __folio_lock(struct page *page)
{
	wait_event_io(folio_wait_table, !test_and_set_bit(PG_locked, &page->flags));
}

void folio_lock(struct page *page)
{
	if (test_and_set_bit(PG_locked, &page->flags))
		__folio_lock(page);
}

noinline __noclone void folio_mark_accessed(struct page *page)
{
	if (!page_test(page, PG_referenced))
		set_bit(PG_referenced, &page->flags);
}

// filemap_add_folio adds a page, which it locks; -EEXIST: there is one already.
noinline __noclone int filemap_add_folio(struct address_space *mapping, struct page *page, unsigned long index, gfp_t gfp)
{
	int err = 0;

	page->mapping = mapping;
	page->index = index;
	set_page_private(page, 0);
	set_bit(PG_locked, &page->flags);
	spin_lock(&mapping->pages_lock);
	if (index >= mapping->nrpages)
		err = -EINVAL;
	else if (mapping->pages[index])
		err = -EEXIST;
	else
		WRITE_ONCE(mapping->pages[index], page);
	spin_unlock(&mapping->pages_lock);
	if (err)
		clear_bit(PG_locked, &page->flags);
	return err;
}

static struct page *find_page(struct address_space *mapping, unsigned long index)
{
	return index < mapping->nrpages ? READ_ONCE(mapping->pages[index]) : NULL;
}

// new_page returns a new page of the file, locked, or NULL.
static struct page *new_page(struct address_space *mapping, unsigned long index)
{
	struct page *page = alloc_pages(GFP_KERNEL | __GFP_ZERO, 0);

	if (page && filemap_add_folio(mapping, page, index, GFP_KERNEL)) {
		page->mapping = NULL;
		put_page(page);
		return NULL;
	}
	return page;
}

// __filemap_get_folio returns a page of the file, locked.
noinline __noclone struct page *__filemap_get_folio(struct address_space *mapping, unsigned long index, bool create)
{
	struct page *page = find_page(mapping, index);

	if (!page && create) {
		page = new_page(mapping, index);
		if (page)
			return page;
		page = find_page(mapping, index); // another task's
	}
	if (page)
		folio_lock(page);
	return page;
}

static __noipa void read_pages(struct address_space *mapping, struct page **pages, unsigned int nr)
{
	struct blk_plug plug;

	blk_start_plug(&plug);
	mapping->a_ops->readahead(mapping, pages, nr);
	blk_finish_plug(&plug);
}

// page_cache_ra_unbounded reads what is missing of nr_to_read pages. When the one that is
// lookahead_size before their end is read, the next window is begun.
noinline __noclone void page_cache_ra_unbounded(struct address_space *mapping, unsigned long index, unsigned long nr_to_read, unsigned long lookahead_size)
{
	struct page *pages[VM_READAHEAD_PAGES];
	unsigned long i;
	unsigned int n = 0;

	for (i = 0; i < nr_to_read; i++) {
		struct page *page = find_page(mapping, index + i) ? NULL : new_page(mapping, index + i);

		if (!page) { // there is one: what follows it is another read
			if (n)
				read_pages(mapping, pages, n);
			n = 0;
			continue;
		}
		if (i == nr_to_read - lookahead_size)
			set_bit(PG_readahead, &page->flags);
		pages[n++] = page;
	}
	if (n)
		read_pages(mapping, pages, n);
}

static __noipa void do_page_cache_ra(struct address_space *mapping, unsigned long index, unsigned long nr_to_read, unsigned long lookahead_size)
{
	if (index >= mapping->nrpages)
		return;
	page_cache_ra_unbounded(mapping, index, min(nr_to_read, mapping->nrpages - index), lookahead_size);
}

// first_window is how much is read for the first read of a file that is read in order.
static unsigned long first_window(unsigned long wanted)
{
	unsigned long size = 1;

	while (size < wanted)
		size *= 2;
	if (size <= VM_READAHEAD_PAGES / 32)
		return 4 * size;
	return size <= VM_READAHEAD_PAGES / 4 ? 2 * size : VM_READAHEAD_PAGES;
}

// next_window is how much is read behind a window.
static unsigned long next_window(unsigned long size)
{
	return min(size < VM_READAHEAD_PAGES / 16 ? 4 * size : 2 * size, VM_READAHEAD_PAGES);
}

// ondemand_readahead reads ahead for a read of req_size pages from index on. Windows grow as
// long as a file is read in order; of other places only what is asked for is read.
static __noipa void ondemand_readahead(struct file *file, unsigned long index, unsigned long req_size, bool marked)
{
	struct file_ra_state *ra = &file->f_ra;
	unsigned long before = ra->prev_pos >> PAGE_SHIFT;

	if (index && (index == ra->start + ra->size - ra->async_size || index == ra->start + ra->size)) {
		ra->start += ra->size;
		ra->size = next_window(ra->size);
		ra->async_size = ra->size;
	} else if (marked) { // of another window than the last one: where it ends is not known
		ra->start = index + 1;
		while (ra->start < index + VM_READAHEAD_PAGES && find_page(file->f_mapping, ra->start))
			ra->start++;
		ra->size = next_window(ra->start - index + req_size);
		ra->async_size = ra->size;
	} else if (!index || req_size > VM_READAHEAD_PAGES || index - before <= 1) {
		ra->start = index;
		ra->size = first_window(req_size);
		ra->async_size = ra->size > req_size ? ra->size - req_size : ra->size;
	} else {
		do_page_cache_ra(file->f_mapping, index, min(req_size, VM_READAHEAD_PAGES), 0);
		return;
	}
	if (ra->start == index && ra->size == ra->async_size) { // the mark would be met at once
		unsigned long both = ra->size + next_window(ra->size);

		ra->async_size = both <= VM_READAHEAD_PAGES ? both - ra->size : VM_READAHEAD_PAGES / 2;
		ra->size = min(both, VM_READAHEAD_PAGES);
	}
	do_page_cache_ra(file->f_mapping, ra->start, ra->size, ra->async_size);
}

notrace_before_6_1 noinline __noclone void page_cache_sync_ra(struct file *file, unsigned long index, unsigned long req_count)
{
	ondemand_readahead(file, index, req_count, false);
}

noinline __noclone void page_cache_async_ra(struct file *file, struct page *page, unsigned long req_count)
{
	if (page_test(page, PG_writeback))
		return;
	clear_bit(PG_readahead, &page->flags);
	ondemand_readahead(file, page->index, req_count, true);
}

// filemap_get_pages returns a page that can be read, or an error. One whose reading failed is
// read once more.
static __noipa struct page *filemap_get_pages(struct kiocb *iocb, struct iov_iter *iter)
{
	struct address_space *mapping = iocb->ki_filp->f_mapping;
	unsigned long index = iocb->ki_pos >> PAGE_SHIFT;
	unsigned long wanted = ((iocb->ki_pos + iter->count + PAGE_SIZE - 1) >> PAGE_SHIFT) - index;
	struct page *page = find_page(mapping, index);

	if (!page) {
		page_cache_sync_ra(iocb->ki_filp, index, wanted);
		page = find_page(mapping, index);
		if (!page)
			return ERR_PTR(-ENOMEM);
	}
	if (page_test(page, PG_readahead))
		page_cache_async_ra(iocb->ki_filp, page, wanted);
	if (page_test(page, PG_uptodate))
		return page;
	folio_lock(page);
	if (!page_test(page, PG_uptodate)) {
		read_pages(mapping, &page, 1);
		folio_lock(page);
	}
	folio_unlock(page);
	return page_test(page, PG_uptodate) ? page : ERR_PTR(-EIO);
}

noinline __noclone ssize_t filemap_read(struct kiocb *iocb, struct iov_iter *iter, ssize_t already_read)
{
	struct inode *inode = iocb->ki_filp->f_mapping->host;

	while (iter->count && iocb->ki_pos < inode->i_size) {
		unsigned long off = offset_in_page(iocb->ki_pos);
		size_t want = min3((size_t)(PAGE_SIZE - off), iter->count, (size_t)(inode->i_size - iocb->ki_pos)), n;
		struct page *page = filemap_get_pages(iocb, iter);

		if (IS_ERR(page))
			return already_read ? already_read : PTR_ERR(page);
		folio_mark_accessed(page);
		n = copy_to_iter(page_address(page) + off, want, iter);
		iocb->ki_pos += n;
		iocb->ki_filp->f_ra.prev_pos = iocb->ki_pos;
		already_read += n;
		if (n < want)
			return already_read ? already_read : -EFAULT;
	}
	return already_read;
}

static __noipa int write_cache_pages(struct address_space *mapping, unsigned long start, unsigned long end)
{
	unsigned long index;
	int err = 0;

	for (index = start; index <= end && index < mapping->nrpages; index++) {
		struct page *page = find_page(mapping, index);

		if (!page || !page_test(page, PG_dirty))
			continue;
		folio_lock(page);
		folio_wait_writeback(page);
		if (test_and_clear_bit(PG_dirty, &page->flags))
			err = mapping->a_ops->writepage(page) ?: err;
		else
			folio_unlock(page);
	}
	return err;
}

static __noipa int generic_writepages(struct address_space *mapping, unsigned long start, unsigned long end)
{
	struct blk_plug plug;
	int err;

	blk_start_plug(&plug);
	err = write_cache_pages(mapping, start, end);
	blk_finish_plug(&plug);
	return err;
}

noinline __noclone int do_writepages(struct address_space *mapping, unsigned long start, unsigned long end)
{
	return generic_writepages(mapping, start, end);
}

static __noipa int filemap_fdatawrite_wbc(struct address_space *mapping, loff_t start, loff_t end)
{
	return do_writepages(mapping, start >> PAGE_SHIFT, end >> PAGE_SHIFT);
}

// __filemap_fdatawait_range waits until pages are written. One that is dirty by then, which
// has failed, is an error.
static __noipa int __filemap_fdatawait_range(struct address_space *mapping, loff_t start, loff_t end)
{
	unsigned long index;

	for (index = start >> PAGE_SHIFT; index <= end >> PAGE_SHIFT && index < mapping->nrpages; index++) {
		struct page *page = find_page(mapping, index);

		if (page && page_test(page, PG_writeback))
			folio_wait_writeback(page);
	}
	return 0;
}

noinline __noclone int filemap_write_and_wait_range(struct address_space *mapping, loff_t start, loff_t end)
{
	int err = filemap_fdatawrite_wbc(mapping, start, end);

	return __filemap_fdatawait_range(mapping, start, end) ?: err;
}

noinline __noclone int file_write_and_wait_range(struct file *file, loff_t start, loff_t end)
{
	int err = filemap_fdatawrite_wbc(file->f_mapping, start, end);

	return __filemap_fdatawait_range(file->f_mapping, start, end) ?: err;
}

// truncate_inode_pages frees the pages of a file that nobody uses.
noinline __noclone void truncate_inode_pages(struct address_space *mapping, loff_t lstart)
{
	unsigned long index;

	for (index = lstart >> PAGE_SHIFT; index < mapping->nrpages; index++) {
		struct page *page = mapping->pages[index];

		if (!page)
			continue;
		mapping->pages[index] = NULL;
		try_to_free_buffers(page);
		page->flags &= ~PG_CACHE_FLAGS;
		page->mapping = NULL;
		put_page(page);
	}
}
