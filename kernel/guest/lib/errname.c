// Names of the errnos.
#include <linux/types.h>
#include <linux/errname.h>

static const char *const names[] = {
#define E(n, name) [n] = "-" #name
	E(1, EPERM), E(2, ENOENT), E(3, ESRCH), E(4, EINTR), E(5, EIO), E(6, ENXIO), E(7, E2BIG), E(8, ENOEXEC),
	E(9, EBADF), E(10, ECHILD), E(11, EAGAIN), E(12, ENOMEM), E(13, EACCES), E(14, EFAULT), E(15, ENOTBLK),
	E(16, EBUSY), E(17, EEXIST), E(18, EXDEV), E(19, ENODEV), E(20, ENOTDIR), E(21, EISDIR), E(22, EINVAL),
	E(23, ENFILE), E(24, EMFILE), E(25, ENOTTY), E(26, ETXTBSY), E(27, EFBIG), E(28, ENOSPC), E(29, ESPIPE),
	E(30, EROFS), E(31, EMLINK), E(32, EPIPE), E(33, EDOM), E(34, ERANGE), E(35, EDEADLK), E(36, ENAMETOOLONG),
	E(37, ENOLCK), E(38, ENOSYS), E(39, ENOTEMPTY), E(40, ELOOP), E(42, ENOMSG), E(61, ENODATA), E(62, ETIME),
	E(71, EPROTO), E(74, EBADMSG), E(75, EOVERFLOW), E(84, EILSEQ), E(88, ENOTSOCK), E(89, EDESTADDRREQ),
	E(90, EMSGSIZE), E(92, ENOPROTOOPT), E(93, EPROTONOSUPPORT), E(94, ESOCKTNOSUPPORT), E(95, EOPNOTSUPP),
	E(97, EAFNOSUPPORT), E(98, EADDRINUSE), E(99, EADDRNOTAVAIL), E(100, ENETDOWN), E(101, ENETUNREACH),
	E(103, ECONNABORTED), E(104, ECONNRESET), E(105, ENOBUFS), E(106, EISCONN), E(107, ENOTCONN),
	E(110, ETIMEDOUT), E(111, ECONNREFUSED), E(113, EHOSTUNREACH), E(114, EALREADY), E(115, EINPROGRESS),
	E(125, ECANCELED),
#undef E
};

const char *errname(int err)
{
	unsigned int n = err < 0 ? -err : err;

	if (n >= sizeof(names) / sizeof(names[0]) || !names[n])
		return NULL;
	return err < 0 ? names[n] : names[n] + 1;
}
