// Changing attributes of inodes.
#include <linux/fs.h>
#include <linux/host.h>

// setattr_prepare checks whether the caller may change attributes so. The host's kernel
// has its own view of that, which is the result of the call.
int setattr_prepare(IDMAP_PARAM struct dentry *dentry, struct iattr *attr)
{
	struct inode *inode = dentry->d_inode;

	if (attr->ia_valid & ATTR_SIZE && attr->ia_size < 0)
		return -EINVAL;
	if (attr->ia_valid & ATTR_SIZE && attr->ia_size > inode->i_sb->s_maxbytes && inode->i_sb->s_maxbytes)
		return -EFBIG;
	return 0;
}

void setattr_copy(IDMAP_PARAM struct inode *inode, const struct iattr *attr)
{
	if (attr->ia_valid & ATTR_UID)
		inode->i_uid = attr->ia_uid;
	if (attr->ia_valid & ATTR_GID)
		inode->i_gid = attr->ia_gid;
	if (attr->ia_valid & ATTR_ATIME)
		inode->i_atime = attr->ia_atime;
	if (attr->ia_valid & ATTR_MTIME)
		inode->i_mtime = attr->ia_mtime;
	if (attr->ia_valid & ATTR_CTIME)
		inode->i_ctime = attr->ia_ctime;
	if (attr->ia_valid & ATTR_MODE)
		inode->i_mode = attr->ia_mode;
}

// notify_change changes attributes of a file, whose inode is locked.
int notify_change(IDMAP_PARAM struct dentry *dentry, struct iattr *attr, struct inode **delegated_inode)
{
	struct inode *inode = dentry->d_inode;
	struct timespec64 now = current_time(inode);

	attr->ia_ctime = now;
	if (!(attr->ia_valid & ATTR_ATIME_SET))
		attr->ia_atime = now;
	if (!(attr->ia_valid & ATTR_MTIME_SET))
		attr->ia_mtime = now;
	if (inode->i_op && inode->i_op->setattr)
		return host_result(inode->i_op->setattr(IDMAP_ARG(idmap) dentry, attr));
	return host_result(simple_setattr(IDMAP_ARG(idmap) dentry, attr));
}
