/* libfuse DIR: a file kprobes/enabled in DIR, by libfuse 3, with nothing behind
 * it: two bytes to read, any write taken. Nothing is cached, as with kprobefs. */
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fuse.h>
#include <string.h>

static int is(const char *path, const char *name) { return strcmp(path, name) == 0; }

static int get_attr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	memset(st, 0, sizeof(*st));
	if (is(path, "/") || is(path, "/kprobes")) {
		st->st_mode = S_IFDIR | 0755;
		st->st_nlink = 2;
		return 0;
	}
	if (!is(path, "/kprobes/enabled"))
		return -ENOENT;
	st->st_mode = S_IFREG | 0600;
	st->st_nlink = 1;
	return 0;
}

static int do_open(const char *path, struct fuse_file_info *fi)
{
	fi->direct_io = 1;
	return is(path, "/kprobes/enabled") ? 0 : -ENOENT;
}

static int do_read(const char *path, char *buf, size_t n, off_t off, struct fuse_file_info *fi)
{
	if (off || n < 2)
		return 0;
	memcpy(buf, "1\n", 2);
	return 2;
}

static int do_write(const char *path, const char *buf, size_t n, off_t off, struct fuse_file_info *fi)
{
	return n;
}

static int do_flush(const char *path, struct fuse_file_info *fi) { return 0; }

static void *init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
	cfg->entry_timeout = cfg->attr_timeout = cfg->negative_timeout = 0;
	return 0;
}

static const struct fuse_operations ops = {
	.init = init, .getattr = get_attr, .open = do_open, .read = do_read, .write = do_write, .flush = do_flush,
};

int main(int argc, char **argv)
{
	char *args[] = { argv[0], "-f", "-s", argc > 1 ? argv[1] : ".", 0 };

	return fuse_main(4, args, &ops, 0);
}
