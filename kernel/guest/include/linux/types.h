/* types.h: the kernel's integer types and the smallest structures. */
#ifndef _LINUX_TYPES_H
#define _LINUX_TYPES_H
#include <linux/compiler.h>

typedef unsigned char u8, __u8, uint8_t;
typedef signed char s8, __s8, int8_t;
typedef unsigned short u16, __u16, uint16_t;
typedef short s16, __s16, int16_t;
typedef unsigned int u32, __u32, uint32_t;
typedef int s32, __s32, int32_t;
typedef unsigned long long u64, __u64, uint64_t;
typedef long long s64, __s64, int64_t;
typedef u16 __be16, __le16, __sum16;
typedef u32 __be32, __le32, __wsum;
typedef u64 __be64, __le64;
typedef u8 u_int8_t;
typedef u16 u_int16_t;
typedef u32 u_int32_t;
typedef u64 u_int64_t;
#define __aligned_u64 __u64 __attribute__((aligned(8)))
#define __aligned_be64 __be64 __attribute__((aligned(8)))
#define __aligned_le64 __le64 __attribute__((aligned(8)))
typedef unsigned long ulong, uintptr_t;
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar, unchar;
typedef unsigned long size_t, __kernel_size_t, __kernel_ulong_t;
typedef long ssize_t, ptrdiff_t, intptr_t, __kernel_long_t;
typedef long long loff_t;
typedef s64 time64_t, ktime_t;
typedef long clock_t;
typedef int clockid_t;
typedef int pid_t;
typedef u32 dev_t;
typedef unsigned short umode_t;
typedef unsigned int fmode_t;
typedef unsigned int gfp_t;
typedef unsigned int slab_flags_t;
typedef unsigned int uid_t, gid_t;
typedef struct { uid_t val; } kuid_t;
typedef struct { gid_t val; } kgid_t;
typedef unsigned long ino_t;
typedef u32 nlink_t;
typedef u64 sector_t, blkcnt_t;
typedef u32 errseq_t;
typedef unsigned int vm_fault_t;
typedef u64 phys_addr_t;
typedef struct { unsigned long pgprot; } pgprot_t;
typedef unsigned long pgoff_t;
typedef u16 wchar_t_kernel;
typedef _Bool bool;
#define true	1
#define false	0
#ifndef NULL
#define NULL	((void *)0)
#endif

typedef struct { int counter; } atomic_t;
typedef struct { s64 counter; } atomic64_t;
typedef atomic64_t atomic_long_t;
typedef struct { atomic_t refs; } refcount_t;

struct list_head { struct list_head *next, *prev; };
struct hlist_node { struct hlist_node *next, **pprev; };
struct hlist_head { struct hlist_node *first; };
struct callback_head {
	struct callback_head *next;
	void (*func)(struct callback_head *head);
};
#define rcu_head callback_head
typedef void (*rcu_callback_t)(struct callback_head *head);

#define U8_MAX	((u8)~0U)
#define S8_MAX	((s8)(U8_MAX >> 1))
#define U16_MAX	((u16)~0U)
#define S16_MAX	((s16)(U16_MAX >> 1))
#define U32_MAX	((u32)~0U)
#define S32_MAX	((s32)(U32_MAX >> 1))
#define U64_MAX	((u64)~0ULL)
#define S64_MAX	((s64)(U64_MAX >> 1))
#define S64_MIN	((s64)(-S64_MAX - 1))
#define INT_MAX	((int)(~0U >> 1))
#define INT_MIN	(-INT_MAX - 1)
#define UINT_MAX (~0U)
#define LONG_MAX ((long)(~0UL >> 1))
#define LONG_MIN (-LONG_MAX - 1)
#define ULONG_MAX (~0UL)
#define LLONG_MAX ((long long)(~0ULL >> 1))
#define LLONG_MIN (-LLONG_MAX - 1)
#define ULLONG_MAX (~0ULL)
#define SIZE_MAX (~(size_t)0)
#define PTR_MAX	ULONG_MAX

#define BITS_PER_LONG	64
#define BITS_PER_BYTE	8
#define BITS_TO_LONGS(n) (((n) + 63) / 64)
#define DECLARE_BITMAP(name, bits) unsigned long name[BITS_TO_LONGS(bits)]

#endif
