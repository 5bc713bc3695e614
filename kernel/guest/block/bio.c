// Bios: which pages are to be read or written, and where on the disk.
#include <linux/blkdev.h>

noinline __noclone struct bio *bio_alloc(struct block_device *bdev, unsigned short nr_vecs, unsigned int opf, gfp_t gfp)
{
	struct bio *bio = kzalloc(sizeof(*bio), gfp);

	if (bio) {
		bio->bi_bdev = bdev;
		bio->bi_opf = opf;
		bio->bi_io_vec = bio->bi_inline_vecs;
		bio->bi_max_vecs = BIO_MAX_VECS;
	}
	return bio;
}

// bio_add_page returns false if the bio is full.
noinline __noclone bool bio_add_page(struct bio *bio, struct page *page, unsigned int len, unsigned int off)
{
	if (bio->bi_vcnt == BIO_MAX_VECS)
		return false;
	bio->bi_io_vec[bio->bi_vcnt++] = (struct bio_vec){ page, len, off };
	bio->bi_iter.bi_size += len;
	return true;
}

void bio_put(struct bio *bio)
{
	kfree(bio);
}

noinline __noclone void bio_endio(struct bio *bio)
{
	if (bio->bi_end_io)
		bio->bi_end_io(bio);
}
