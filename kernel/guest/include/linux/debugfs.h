/* debugfs.h: files and directories in debugfs. */
#ifndef _LINUX_DEBUGFS_H
#define _LINUX_DEBUGFS_H
#include <linux/fs.h>
#include <linux/seq_file.h>
struct dentry *debugfs_create_dir(const char *name, struct dentry *parent);
struct dentry *debugfs_create_file(const char *name, umode_t mode, struct dentry *parent, void *data, const struct file_operations *fops);
struct dentry *debugfs_lookup(const char *name, struct dentry *parent);
void debugfs_remove(struct dentry *dentry);
void debugfs_create_u32(const char *name, umode_t mode, struct dentry *parent, u32 *value);
void debugfs_create_u64(const char *name, umode_t mode, struct dentry *parent, u64 *value);
void debugfs_create_bool(const char *name, umode_t mode, struct dentry *parent, bool *value);
int debugfs_file_get(struct dentry *dentry);
void debugfs_file_put(struct dentry *dentry);
#define debugfs_remove_recursive debugfs_remove
#endif
