// The names of flags, as printk shows them (%pG). What has more bits comes first.
#include <linux/types.h>
#include <linux/mmflags.h>

#define BIT_OF(n) (1UL << (n))

const struct trace_print_flags pageflag_names[] = {
	{ BIT_OF(0), "locked" }, { BIT_OF(7), "waiters" }, { BIT_OF(8), "error" }, { BIT_OF(1), "referenced" },
	{ BIT_OF(2), "uptodate" }, { BIT_OF(3), "dirty" }, { BIT_OF(4), "lru" }, { BIT_OF(5), "active" },
	{ BIT_OF(6), "workingset" }, { BIT_OF(9), "slab" }, { BIT_OF(10), "owner_priv_1" }, { BIT_OF(11), "arch_1" },
	{ BIT_OF(12), "reserved" }, { BIT_OF(13), "private" }, { BIT_OF(14), "private_2" }, { BIT_OF(15), "writeback" },
	{ BIT_OF(16), "head" }, { BIT_OF(17), "mappedtodisk" }, { BIT_OF(18), "reclaim" }, { BIT_OF(19), "swapbacked" },
	{ BIT_OF(20), "unevictable" }, { BIT_OF(21), "mlocked" }, { BIT_OF(22), "uncached" }, { BIT_OF(23), "hwpoison" },
	{ BIT_OF(24), "arch_2" }, { 0 },
};

const struct trace_print_flags vmaflag_names[] = {
	{ BIT_OF(0), "read" }, { BIT_OF(1), "write" }, { BIT_OF(2), "exec" }, { BIT_OF(3), "shared" },
	{ BIT_OF(4), "mayread" }, { BIT_OF(5), "maywrite" }, { BIT_OF(6), "mayexec" }, { BIT_OF(7), "mayshare" },
	{ BIT_OF(8), "growsdown" }, { BIT_OF(9), "uffd_missing" }, { BIT_OF(37), "uffd_minor" }, { BIT_OF(10), "pfnmap" },
	{ BIT_OF(12), "uffd_wp" }, { BIT_OF(13), "locked" }, { BIT_OF(14), "io" }, { BIT_OF(15), "seqread" },
	{ BIT_OF(16), "randread" }, { BIT_OF(17), "dontcopy" }, { BIT_OF(18), "dontexpand" }, { BIT_OF(19), "lockonfault" },
	{ BIT_OF(20), "account" }, { BIT_OF(21), "noreserve" }, { BIT_OF(22), "hugetlb" }, { BIT_OF(23), "sync" },
	{ BIT_OF(24), "pat" }, { BIT_OF(25), "wipeonfork" }, { BIT_OF(26), "dontdump" }, { BIT_OF(27), "softdirty" },
	{ BIT_OF(28), "mixedmap" }, { BIT_OF(29), "hugepage" }, { BIT_OF(30), "nohugepage" }, { BIT_OF(31), "mergeable" },
	{ 0 },
};

const struct trace_print_flags gfpflag_names[] = {
	{ 0x1c24ca, "GFP_TRANSHUGE" }, { 0x1c20ca, "GFP_TRANSHUGE_LIGHT" }, { 0x100cca, "GFP_HIGHUSER_MOVABLE" },
	{ 0x100cc2, "GFP_HIGHUSER" }, { 0x100cc0, "GFP_USER" }, { 0x400cc0, "GFP_KERNEL_ACCOUNT" }, { 0xcc0, "GFP_KERNEL" },
	{ 0xc40, "GFP_NOFS" }, { 0xa20, "GFP_ATOMIC" }, { 0xc00, "GFP_NOIO" }, { 0x800, "GFP_NOWAIT" }, { 1, "GFP_DMA" },
	{ 2, "__GFP_HIGHMEM" }, { 4, "GFP_DMA32" }, { 0x20, "__GFP_HIGH" }, { 0x200, "__GFP_ATOMIC" }, { 0x40, "__GFP_IO" },
	{ 0x80, "__GFP_FS" }, { 0x2000, "__GFP_NOWARN" }, { 0x4000, "__GFP_RETRY_MAYFAIL" }, { 0x8000, "__GFP_NOFAIL" },
	{ 0x10000, "__GFP_NORETRY" }, { 0x40000, "__GFP_COMP" }, { 0x100, "__GFP_ZERO" }, { 0x80000, "__GFP_NOMEMALLOC" },
	{ 0x20000, "__GFP_MEMALLOC" }, { 0x100000, "__GFP_HARDWALL" }, { 0x200000, "__GFP_THISNODE" },
	{ 0x10, "__GFP_RECLAIMABLE" }, { 8, "__GFP_MOVABLE" }, { 0x400000, "__GFP_ACCOUNT" }, { 0x1000, "__GFP_WRITE" },
	{ 0xc00, "__GFP_RECLAIM" }, { 0x400, "__GFP_DIRECT_RECLAIM" }, { 0x800, "__GFP_KSWAPD_RECLAIM" },
	{ 0x800000, "__GFP_ZEROTAGS" }, { 0 },
};
