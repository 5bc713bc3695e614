// SPDX-License-Identifier: MIT
/* formats prints with each conversion of printk, and what a call of vsnprintf returned. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/blk_types.h>
#include <linux/blkdev.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/fwnode.h>
#include <linux/ioport.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/rtc.h>
#include <linux/slab.h>
#include <linux/uuid.h>
#include <linux/in.h>
#include <linux/in6.h>

/* No attribute says that this is a format, so that the compiler does not check it. */
static noinline void say(const char *fmt, ...)
{
	char buf[300];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(buf, sizeof(buf), fmt, args);
	va_end(args);
	pr_info("%s [%s] %d\n", fmt, buf, n);
}

/* shown is snprintf, without the check too. */
static noinline int shown(char *buf, size_t size, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vscnprintf(buf, size, fmt, args);
	va_end(args);
	return n;
}

static noinline void nested(const char *fmt, ...)
{
	struct va_format vaf;
	va_list args;

	va_start(args, fmt);
	vaf.fmt = fmt;
	vaf.va = &args;
	say("<%pV>", &vaf);
	say("<%pV> %d", &vaf, 1);
	say("<%40pV>", &vaf);
	va_end(args);
}

static void numbers(void)
{
	static const char *const forms[] = {
		"%d", "%i", "%u", "%x", "%X", "%o", "%#x", "%#X", "%#o", "%#d", "%+d", "% d", "%+u", "% u", "%+ d", "% x",
		"%8d", "%-8d", "%08d", "%-08d", "%+08d", "% 08d", "%.4d", "%8.4d", "%-8.4d", "%08.4d", "%.0d", "%.d", "%8.d",
		"%#8x", "%#08x", "%#-8x", "%#.4x", "%#10.4x", "%#010.4x", "%#8o", "%#08o", "%#.4o", "%#-8X",
		"%hhd", "%hd", "%ld", "%lld", "%Ld", "%zd", "%td", "%hhu", "%hu", "%hhx", "%hx", "%Lx", "%zx", "%tx", "%#Lo", "%hhi",
	};
	static const long values[] = { 0, 1, -1, 42, -1234, 0x1ff, 0x12345, 0x7fffffff, LONG_MIN, LONG_MAX };
	int i, j;

	for (i = 0; i < ARRAY_SIZE(forms); i++) {
		char line[300];
		int at = 0;

		for (j = 0; j < ARRAY_SIZE(values); j++) {
			at += shown(line + at, sizeof(line) - at, forms[i], values[j]);
			at += scnprintf(line + at, sizeof(line) - at, "|");
		}
		pr_info("%s [%s]\n", forms[i], line);
	}
}

static void strings(void)
{
	static const char unended[3] = { 'a', 'b', 'c' };

	say("%s", "text");
	say("%8s|%-8s|%08s|%2s|", "text", "text", "text", "text");
	say("%.2s|%8.2s|%-8.2s|%.0s|%.s|%.9s", "text", "text", "text", "text", "text", "text");
	say("%*s|%*s|%.*s|%.*s|%-*s|", 6, "text", -6, "text", 2, "text", -2, "text", -6, "text");
	say("%*.*s|", 9, 3, "text");
	say("%.3s", unended);
	say("%s %10s %-10s| %.3s %.0s", NULL, NULL, NULL, NULL, NULL);
	say("%s %12s|%.4s", (void *)8, (void *)8, (void *)8);
	say("%s %s", ERR_PTR(-EINVAL), (void *)4095);
	say("%ls", "text");
	say("%c|%3c|%-3c|%03c|%c", 'a', 'b', 'c', 'd', 0x163);
	say("%%|%5%|%-5%|%.3%|");
	say("%5.3%%d", 7);
	say("");
	say("%");
	say("plain%");
	say("a%5");
	say("a%l");
	say("a%.");
	say("100%%");
	say("%lc%hs", 'x', "y");
	say("%0*d|%-*d|%0-*d", 6, 42, 6, 42, -6, 42);
	say("%+.3d % .3d %+.0d", 7, 7, 0);
}

static void truncated(void)
{
	char buf[12];
	int i;

	for (i = 0; i <= 8; i++) {
		int n;

		memset(buf, '#', sizeof(buf));
		buf[11] = 0;
		n = snprintf(buf, i, "%d-%s", 12, "xyz");
		pr_info("snprintf %d: %d %*pE\n", i, n, 11, buf);
		memset(buf, '#', 11);
		n = scnprintf(buf, i, "%5d|%pI4", 12, "\1\2\3\4");
		pr_info("scnprintf %d: %d %*pE\n", i, n, 11, buf);
		memset(buf, '#', 11);
		n = snprintf(buf, i, "%*ph%pE", 3, "\1\2\3", "\n");
		pr_info("bytes %d: %d %*pE\n", i, n, 11, buf);
		memset(buf, '#', 11);
		n = snprintf(buf, i, "%.2s%5s", "abc", "d");
		pr_info("strings %d: %d %*pE\n", i, n, 11, buf);
	}
	pr_info("no buffer: %d\n", snprintf(NULL, 0, "%s %pM %5d", "text", "abcdef", 3));
	pr_info("kasprintf: %s\n", kasprintf(GFP_KERNEL, "%s-%03d", "name", 7));
}

static void bytes(void)
{
	static const u8 b[70] = { 0, 1, 0x23, 0xff, 0x80, 0x7f, 0xab, 0xcd, 0xef, 9, 10, 11, 12, 13, 14, 15, 16 };
	static const u8 mac[] = { 0, 0x1a, 0x2b, 0x3c, 0x4d, 0xfe };
	static const u8 uuid[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff };
	static const char text[] = "a\n\t\"\\\e\a\0\x7f\xff z?'";
	static const char *const escapes[] = {
		"%*pE", "%*pEa", "%*pEc", "%*pEh", "%*pEn", "%*pEo", "%*pEp", "%*pEs", "%*pEhp", "%*pEcn", "%*pEos", "%*pEnp", "%*pEachnops", "%*pEz",
	};
	static const char *const forms[] = {
		"%*ph", "%*phC", "%*phD", "%*phN", "%*phX",
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(forms); i++) {
		say(forms[i], 6, b);
		say(forms[i], 1, b + 3);
		say(forms[i], 0, b);
		say(forms[i], -3, b);
		say(forms[i], 66, b);
		say(forms[i], 6, NULL);
	}
	say("%ph|%3ph|%-3ph|%phN", b, b, b, b + 2);
	for (i = 0; i < ARRAY_SIZE(escapes); i++)
		say(escapes[i], (int)sizeof(text), text);
	say("%pE|%3pE|%0pE|%*pE", text, text, text, 0, text);
	say("%*pE %pE", 3, NULL, (void *)1);
	say("%pM %pMR %pMF %pm %pmR %pMX", mac, mac, mac, mac, mac, mac);
	say("%20pM|%-20pM|%.5pM|%20pm|", mac, mac, mac, mac);
	say("%pM %pm", NULL, (void *)2);
	say("%pUb", uuid);
	say("%pUB", uuid);
	say("%pUl", uuid);
	say("%pUL", uuid);
	say("%pU %pUx", uuid, uuid);
	say("%40pUb|%-40pUB|%.8pU|", uuid, uuid, uuid);
	say("%pU", NULL);
}

static void addresses(void)
{
	static const u8 ip4[] = { 127, 0, 10, 255 };
	static const u8 ip6[][16] = {
		{ 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 },
		{ 0 },
		{ [15] = 1 },
		{ [10] = 0xff, 0xff, 192, 168, 0, 1 },
		{ 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0x5e, 0xfe, 10, 0, 0, 1 },
		{ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 },
		{ 0x20, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1 },
		{ 0x20, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0 },
		{ 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4 },
	};
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(12345) };
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(80), .sin6_flowinfo = htonl(0xfff12345), .sin6_scope_id = 1234,
	};
	struct sockaddr other = { .sa_family = AF_UNIX };
	static const char *const sockets[] = {
		"%pIS", "%piS", "%pISp", "%pISc", "%pISpc", "%pISpfc", "%pISpfs", "%pISpfsc", "%pISs", "%pISf", "%piSp", "%piSpc", "%pISh", "%pISpn", "%pISl", "%pISb", "%7pISp|", "%-7pISp|", "%.5pISc",
	};
	int i;

	say("%pI4 %pi4 %pI4h %pI4n %pI4b %pI4l %pi4h", ip4, ip4, ip4, ip4, ip4, ip4, ip4);
	say("%18pI4|%-18pI4|%.3pI4|", ip4, ip4, ip4);
	for (i = 0; i < ARRAY_SIZE(ip6); i++) {
		say("%pI6", ip6[i]);
		say("%pi6", ip6[i]);
		say("%pI6c", ip6[i]);
		say("%pi6c", ip6[i]);
	}
	say("%45pI6c|%-45pI6|%.4pI6", ip6[0], ip6[0], ip6[0]);
	memcpy(&in.sin_addr, ip4, 4);
	memcpy(&in6.sin6_addr, ip6[0], 16);
	for (i = 0; i < ARRAY_SIZE(sockets); i++) {
		say(sockets[i], &in);
		say(sockets[i], &in6);
		say(sockets[i], &other);
	}
	say("%pI4 %pI6 %pIS %pi4", NULL, NULL, NULL, (void *)5);
	say("%pI %pI5 %pi %pI6x", ip4, ip4, ip4, ip6[0]);
	say("%20pI|", ip4);
}

static void bitmaps(void)
{
	static unsigned long bits[4] = { 0x8000000100000f01UL, 0xffffffff00000000UL, 1, 0 };
	static const int sizes[] = { 0, 1, 4, 8, 9, 12, 31, 32, 33, 36, 63, 64, 65, 96, 128, 130, 256, -3 };
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		say("%*pb", sizes[i], bits);
		say("%*pbl", sizes[i], bits);
	}
	say("%pb|%pbl|%12pb|%-12pbl", bits, bits, bits, bits);
	say("%*pb %*pbl", 12, NULL, 12, (void *)9);
	say("%*pbl|", 64, bits + 3);
}

static void times(void)
{
	struct rtc_time tm = { .tm_year = 118, .tm_mon = 10, .tm_mday = 26, .tm_hour = 5, .tm_min = 35, .tm_sec = 43 };
	struct rtc_time odd = { .tm_year = 12000, .tm_mon = 99, .tm_mday = 0, .tm_hour = -1, .tm_min = 60, .tm_sec = 100 };
	time64_t t = 1546615943, before = -1, far = 253402300800LL;

	say("%ptR", &tm);
	say("%ptRd %ptRt %ptRr %ptRdr %ptRtr %ptRs %ptRsr %ptRrs %ptRds %ptRx", &tm, &tm, &tm, &tm, &tm, &tm, &tm, &tm, &tm, &tm);
	say("%ptR %ptRr", &odd, &odd);
	say("%ptT %ptTd %ptTt %ptTs %ptTr %ptTdr", &t, &t, &t, &t, &t, &t);
	say("%ptT %ptT", &before, &far);
	say("%pt %ptX %30ptT|%-30ptR|", &t, &t, &t, &tm);
	say("%ptR %ptT", NULL, (void *)3);
}

static void resources(void)
{
	static const struct resource r[] = {
		{ .start = 0x3f8, .end = 0x3ff, .flags = IORESOURCE_IO },
		{ .start = 0xc0000000, .end = 0xcfffffff, .flags = IORESOURCE_MEM },
		{ .start = 0x380000000000, .end = 0x3800ffffffff, .flags = IORESOURCE_MEM | IORESOURCE_MEM_64 | IORESOURCE_PREFETCH },
		{ .start = 0, .end = 0xffff, .flags = IORESOURCE_IO | IORESOURCE_WINDOW | IORESOURCE_DISABLED },
		{ .start = 0, .end = 0xfff, .flags = IORESOURCE_MEM | IORESOURCE_UNSET },
		{ .start = 9, .end = 9, .flags = IORESOURCE_IRQ },
		{ .start = 2, .end = 3, .flags = IORESOURCE_DMA },
		{ .start = 0, .end = 255, .flags = IORESOURCE_BUS },
		{ .start = 1, .end = 2, .flags = 0 },
		{ .start = 5, .end = 5, .flags = IORESOURCE_MEM },
		{ .start = 0, .end = 7, .flags = IORESOURCE_IO | IORESOURCE_UNSET | IORESOURCE_PREFETCH | IORESOURCE_MEM_64 | IORESOURCE_WINDOW },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(r); i++) {
		say("%pR", &r[i]);
		say("%pr", &r[i]);
	}
	say("%40pR|%-40pr|%.5pR|", &r[0], &r[0], &r[0]);
	say("%pR %pr", NULL, (void *)7);
}

static void flags(void)
{
	static const unsigned long vm[] = { 0, VM_READ, VM_READ | VM_EXEC | VM_MAYWRITE, ~0UL, VM_WRITE | VM_SHARED | VM_DONTEXPAND, 1UL << 52 };
	static const gfp_t gfp[] = {
		0, GFP_KERNEL, GFP_ATOMIC, GFP_USER, GFP_KERNEL | __GFP_ZERO, GFP_TRANSHUGE, GFP_NOWAIT, GFP_NOIO, GFP_NOFS, GFP_DMA, GFP_DMA32,
		GFP_HIGHUSER_MOVABLE, GFP_HIGHUSER, GFP_KERNEL_ACCOUNT, __GFP_HIGH, __GFP_HIGHMEM, __GFP_NOWARN | __GFP_COMP, (__force gfp_t)~0U, (__force gfp_t)(1u << 31), __GFP_ATOMIC,
	};
	unsigned long page = 0, bit;
	int i;

	for (i = 0; i < ARRAY_SIZE(vm); i++)
		say("%pGv", &vm[i]);
	for (bit = 1; bit; bit <<= 1)
		say("%pGv", &bit);
	for (i = 0; i < ARRAY_SIZE(gfp); i++)
		say("%pGg", &gfp[i]);
	for (bit = 1; bit < 1UL << 32; bit <<= 1) {
		gfp_t one = (__force gfp_t)bit;

		say("%pGg", &one);
	}
	say("%pGp", &page);
	for (bit = 1; bit; bit <<= 1)
		say("%pGp", &bit);
	page = ~0UL;
	say("%pGp", &page);
	page = 0x17ffffc0010200;
	say("%pGp", &page);
	page = 1UL << PG_uptodate | 1UL << PG_lru | 1UL << PG_active;
	say("%pGp", &page);
	say("%pG %pGx %pGv %pGp", &page, &page, NULL, NULL);
	say("%40pGv|%-40pGg|%.3pGg|", &vm[1], &gfp[1], &gfp[1]);
}

static void files(void)
{
	static struct dentry names[5];
	static const char *const text[] = { "/", "one", "two", "three", "four" };
	static struct file file;
	int i;

	for (i = 0; i < 5; i++) {
		names[i].d_name.name = text[i];
		names[i].d_name.len = strlen(text[i]);
		names[i].d_parent = &names[i ? i - 1 : 0];
	}
	file.f_path.dentry = &names[4];
	for (i = 0; i < 5; i++) {
		say("%pd|%pd2|%pd3|%pd4|%pd5|%pdx", &names[i], &names[i], &names[i], &names[i], &names[i], &names[i]);
		say("%12pd3|%-12pd2|%.3pd2|%.0pd|%8.3pd", &names[i], &names[i], &names[i], &names[i], &names[i]);
	}
	say("%pD|%pD1|%pD2|%pD3|%pD4|%.6pD4|%16pD2|", &file, &file, &file, &file, &file, &file, &file);
	file.f_path.dentry = NULL;
	say("%pd %pD %pD2 %pd", NULL, NULL, &file, ERR_PTR(-ENOENT));
	names[2].d_parent = NULL;
	say("%pd3 %pd4", &names[3], &names[4]);
}

static void blocks(void)
{
	struct block_device *b = kzalloc(sizeof(*b), GFP_KERNEL);
	struct gendisk *disk = kzalloc(sizeof(*disk), GFP_KERNEL);

	b->bd_disk = disk;
	strcpy(disk->disk_name, "sda");
	say("%pg|%8pg|%-8pg|%.2pg|", b, b, b, b);
	b->bd_partno = 3;
	say("%pg|%8pg|%-8pg|%.2pg|", b, b, b, b);
	strcpy(disk->disk_name, "nvme0n1");
	say("%pg|%12pg|", b, b);
	b->bd_partno = 0;
	say("%pg", b);
	say("%pg", NULL);
	kfree(disk);
	kfree(b);
}

static const char *node_name(const struct fwnode_handle *n)
{
	return n->secondary ? "child" : "root";
}

static const char *node_prefix(const struct fwnode_handle *n)
{
	return n->secondary ? "/" : "";
}

/* What is called secondary is used as the parent here. */
static struct fwnode_handle *node_parent(const struct fwnode_handle *n)
{
	return n->secondary;
}

static struct fwnode_handle *node_get(struct fwnode_handle *n)
{
	return n;
}

static void nodes(void)
{
	static const struct fwnode_operations ops = {
		.get = node_get, .get_name = node_name, .get_name_prefix = node_prefix, .get_parent = node_parent,
	};
	static struct fwnode_handle root = { .ops = &ops }, child = { .ops = &ops, .secondary = &root };
	struct { const char **core; } clock;
	const char *name = "clock-name";

	say("%pfw|%pfwf|%pfwP", &root, &root, &root);
	say("%pfw|%pfwf|%pfwP", &child, &child, &child);
	say("%12pfwP|%-12pfw|%.2pfwP|", &child, &child, &child);
	say("%pfw %pfwP %pf %pfx", NULL, (void *)1, &root, &root);
	clock.core = &name;
	say("%pC|%pCn|%12pC|%-12pCn|%.3pC|%pCx", &clock, &clock, &clock, &clock, &clock, &clock);
	say("%pC %pCn", NULL, (void *)2);
	say("%pO %pOF %pOFn %pOx %12pOF|", &root, &root, &root, &root, &root);
	say("%pOF", NULL);
}

static void others(void)
{
	static const u32 fourcc[] = { 0x3231564e, 0xb231564e, 0x10111213, 0x20304050, 0 };
	phys_addr_t phys = 0x123456789abULL;
	dma_addr_t dma = 0xfeedbeef;
	u64 features = 0x8000000000001003ULL;
	int i;

	for (i = 0; i < ARRAY_SIZE(fourcc); i++)
		say("%p4cc", &fourcc[i]);
	say("%p4cc|%p4|%p4c|%p4cx|%p4xc", NULL, &fourcc[0], &fourcc[0], &fourcc[0], &fourcc[0]);
	say("%40p4cc|%-40p4cc|%.4p4cc|", &fourcc[0], &fourcc[0], &fourcc[0]);
	say("%pa|%pap|%pad|%pax|%30pa|%-30pad|", &phys, &phys, &dma, &phys, &phys, &dma);
	say("%pa %pad", NULL, (void *)1);
	say("%pNF|%pN|%pNx|%30pNF|", &features, &features, &features, &features);
	say("%pNF", NULL);
	say("%pus|%pks|%pu|%pk|%pux|%8pus|%.2pks|", "text", "text", "text", "text", "text", "text", "text");
	say("%pus %pks", NULL, (void *)1);
	nested("%s %d %pI4", "text", 7, "\1\2\3\4");
	say("%pV %pV", NULL, (void *)1);
	say("%pe %pe %pe %pe %pe", ERR_PTR(-ENOENT), ERR_PTR(-EPROBE_DEFER), ERR_PTR(-4000), ERR_PTR(-EAGAIN), ERR_PTR(-EDEADLOCK));
	say("%12pe|%-12pe|%.4pe|%pe|%012pe|%+pe|", ERR_PTR(-ENOENT), ERR_PTR(-ENOENT), ERR_PTR(-ENOENT), NULL, ERR_PTR(-4000), ERR_PTR(-4000));
}

static void errnos(void)
{
	char buf[16], line[200];
	int i, at = 0;

	for (i = 0; i < 540; i++) {
		snprintf(buf, sizeof(buf), "%pe", ERR_PTR(-i));
		if (i && !isdigit(buf[1]))
			at += scnprintf(line + at, sizeof(line) - at, " %d%s", i, buf);
		if (at > 100 || i == 539) {
			pr_info("errnos%s\n", line);
			at = 0;
		}
	}
}

static void pointers(void)
{
	char a[20], b[20];
	void *p = &a;

	say("%p|%px|%pK", NULL, NULL, NULL);
	say("%p|%px", ERR_PTR(-EINVAL), ERR_PTR(-EINVAL));
	say("%px|%20px|%-20px|%020px|%#px|%5px|%.20px|%-5px|%+px|%#20px|", (void *)0x1234abcd, (void *)0x1234abcd, (void *)0x1234abcd,
	    (void *)0x1234abcd, (void *)0x1234abcd, (void *)0x1234abcd, (void *)0x1234abcd, (void *)0x1234abcd, (void *)0x1234abcd, (void *)0x1234abcd);
	say("%20p|%-20p|%020p|%#p|%5p|%0p|%.3p|%#20p|%.20p|", NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
	say("%hp|%lp|%zpx|%llp", NULL, NULL, (void *)1, NULL);
	say("%*px|%0*px|%-*px|%*px", 6, (void *)1, 6, (void *)1, 6, (void *)1, 0, (void *)1);
	snprintf(a, sizeof(a), "%p", p);
	snprintf(b, sizeof(b), "%p", p);
	pr_info("the same hash: %d\n", !strcmp(a, b));
	snprintf(b, sizeof(b), "%pK", p);
	pr_info("%%pK hashes too: %d\n", !strcmp(a, b));
	snprintf(b, sizeof(b), "%pz", p);
	pr_info("an unknown letter hashes too: %d\n", !strcmp(a, b));
	snprintf(b, sizeof(b), "%pe", p);
	pr_info("%%pe hashes too: %d\n", !strcmp(a, b));
}

static void symbols(void)
{
	void *f = (void *)vsnprintf;

	say("%ps|%pS|%pSR|%psR|%pSb|%pSRb", say, say, say, say, say, say);
	say("%30ps|%-30ps|%.3ps|%.3pS|", say, say, say, say);
	say("%ps", f);
	say("%pB|%pBb", say + 4, say + 4);
	say("%pF|%pf", NULL, NULL);
	say("%ps|%pS|%pB", NULL, (void *)1, (void *)0x1000);
	say("%ps %pS", (void *)-1, ERR_PTR(-EINVAL));
}

/* Widths and precisions that do not fit are cut, each with a warning at its first one. */
static void large(void)
{
	say("%.*d", 99, 7);
	say("%100000000d", 7);
	say("%.70000d", 7);
	say("%*d", 0x7fffffff, 7);
	say("%.*d", 0x7fffffff, 7);
	say("%-*d", INT_MIN, 7);
}

static void unsupported(void)
{
	int n = 0x55;

	say("a%nb%d", &n, 3);
	say("a%jd", 3L);
	say("a%f%d", 1, 2);
	say("a%qd", 1);
	say("a%5y|%d", 1, 2);
	say("a%LLd", 1);
	say("a%zzd", 1);
	say("a%hhhd", 1);
	say("a%Zd", 1);
	say("a%\n%d", 1);
	say("a%pA", &n);
	pr_info("n is %#x\n", n);
	pr_info("too large: %d\n", snprintf((char *)&n, (size_t)INT_MAX + 1, "%d", 1));
}

static int part = -1;
module_param(part, int, 0);

static void (*const parts[])(void) = {
	numbers, strings, truncated, bytes, addresses, bitmaps, times, resources, flags, files, blocks, nodes, others, errnos, pointers, symbols,
	large, unsupported,
};

static int __init formats_init(void)
{
	parts[clamp_t(int, part, 0, ARRAY_SIZE(parts) - 1)]();
	return 0;
}

static void __exit formats_exit(void)
{
}

module_init(formats_init);
module_exit(formats_exit);
MODULE_LICENSE("Dual MIT/GPL");
