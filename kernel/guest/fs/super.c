// Superblocks and filesystem types.
#include <linux/fs.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

static struct file_system_type *file_systems;
static DEFINE_RWLOCK(file_systems_lock);
static LIST_HEAD(super_blocks);
static DEFINE_SPINLOCK(sb_lock);
static atomic_t next_dev;

static struct file_system_type **find_filesystem(const char *name)
{
	struct file_system_type **p = &file_systems;

	while (*p && strcmp((*p)->name, name))
		p = &(*p)->next;
	return p;
}

// register_filesystem returns -EBUSY if the name is in use.
int register_filesystem(struct file_system_type *fs)
{
	struct file_system_type **p;
	int err = 0;

	write_lock(&file_systems_lock);
	p = find_filesystem(fs->name);
	if (*p)
		err = -EBUSY;
	else
		*p = fs;
	write_unlock(&file_systems_lock);
	return err;
}

struct file_system_type *get_fs_type(const char *name)
{
	struct file_system_type *fs;

	read_lock(&file_systems_lock);
	fs = *find_filesystem(name);
	read_unlock(&file_systems_lock);
	return fs;
}

// alloc_super makes an empty superblock with a device number of its own.
struct super_block *alloc_super(struct file_system_type *type)
{
	struct super_block *s = kzalloc(sizeof(*s), GFP_KERNEL);

	if (!s)
		return NULL;
	init_rwsem(&s->s_umount);
	mutex_init(&s->s_vfs_rename_mutex);
	spin_lock_init(&s->s_inode_list_lock);
	INIT_LIST_HEAD(&s->s_inodes);
	INIT_LIST_HEAD(&s->s_inodes_wb);
	s->s_count = 1;
	atomic_set(&s->s_active, 1);
	s->s_type = type;
	s->s_blocksize = 4096;
	s->s_blocksize_bits = 12;
	s->s_maxbytes = MAX_LFS_FILESIZE;
	s->s_time_gran = 1;
	s->s_dev = atomic_inc_return(&next_dev);
	strscpy(s->s_id, type->name, sizeof(s->s_id));
	spin_lock(&sb_lock);
	list_add_tail(&s->s_list, &super_blocks);
	spin_unlock(&sb_lock);
	return s;
}

// /proc/filesystems.
static int filesystems_proc_show(struct seq_file *m, void *v)
{
	struct file_system_type *fs;

	read_lock(&file_systems_lock);
	for (fs = file_systems; fs; fs = fs->next)
		seq_printf(m, "nodev\t%s\n", fs->name);
	read_unlock(&file_systems_lock);
	return 0;
}

static int __init proc_filesystems_init(void)
{
	return proc_create_single_data("filesystems", 0, NULL, filesystems_proc_show, NULL) ? 0 : -ENOMEM;
}
fs_initcall(proc_filesystems_init);
