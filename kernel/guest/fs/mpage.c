// Reading many pages of a disk at once.
#include <linux/blkdev.h>

static __noipa void mpage_end_io(struct bio *bio)
{
	unsigned int i;

	for (i = 0; i < bio->bi_vcnt; i++) {
		struct page *page = bio->bi_io_vec[i].bv_page;

		if (!bio->bi_status)
			set_bit(PG_uptodate, &page->flags);
		folio_unlock(page);
	}
	bio_put(bio);
}

static __noipa void mpage_bio_submit(struct bio *bio)
{
	bio->bi_end_io = mpage_end_io;
	submit_bio(bio);
}

// mpage_readahead reads pages that follow each other and are locked.
noinline __noclone void mpage_readahead(struct address_space *mapping, struct page **pages, unsigned int nr)
{
	struct bio *bio = NULL;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		if (!bio) {
			bio = bio_alloc(I_BDEV(mapping->host), nr - i, REQ_OP_READ | REQ_RAHEAD, GFP_KERNEL);
			if (!bio) {
				folio_unlock(pages[i]);
				continue;
			}
			bio->bi_iter.bi_sector = pages[i]->index * PAGE_SECTORS;
		}
		bio_add_page(bio, pages[i], PAGE_SIZE, 0);
		if (bio->bi_vcnt == BIO_MAX_VECS) {
			mpage_bio_submit(bio);
			bio = NULL;
		}
	}
	if (bio)
		mpage_bio_submit(bio);
}
