// What the processor says about itself, for code that looks into boot_cpu_data.
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/export.h>

struct cpuinfo_x86 {
	u8 x86, x86_vendor, x86_model, x86_stepping; // x86 is the family
	char __before_virt_bits[28 - 4];
	u8 x86_virt_bits, x86_phys_bits;
	char __before_level[36 - 30];
	int cpuid_level;
	u32 x86_capability[24];
	char x86_vendor_id[16], x86_model_id[64];
	unsigned int x86_cache_size;
	int x86_cache_alignment;
	char __before_cores[256 - 224];
	u16 x86_max_cores, apicid, initial_apicid, x86_clflush_size;
	char __tail[288 - 264];
} __aligned(64);
static_assert(offsetof(struct cpuinfo_x86, x86_virt_bits) == 28, "struct cpuinfo_x86");
static_assert(offsetof(struct cpuinfo_x86, x86_vendor_id) == 136, "struct cpuinfo_x86");
static_assert(offsetof(struct cpuinfo_x86, x86_clflush_size) == 262, "struct cpuinfo_x86");

struct cpuinfo_x86 boot_cpu_data;
EXPORT_SYMBOL(boot_cpu_data);

struct leaf {
	u32 eax, ebx, ecx, edx;
};

static struct leaf cpuid(u32 op)
{
	struct leaf l = { .eax = op };

	__asm__ __volatile__("cpuid" : "+a"(l.eax), "=b"(l.ebx), "+c"(l.ecx), "=d"(l.edx));
	return l;
}

static void __init identify_family(struct cpuinfo_x86 *c)
{
	struct leaf l = cpuid(1);

	c->x86 = (l.eax >> 8) & 15;
	if (c->x86 == 15)
		c->x86 += (l.eax >> 20) & 255;
	c->x86_model = (l.eax >> 4) & 15;
	if (c->x86 >= 6)
		c->x86_model += ((l.eax >> 16) & 15) << 4;
	c->x86_stepping = l.eax & 15;
	c->x86_capability[0] = l.edx;
	c->x86_capability[4] = l.ecx;
	c->x86_clflush_size = ((l.ebx >> 8) & 255) * 8;
	c->x86_cache_alignment = c->x86_clflush_size;
}

// identify_boot_cpu fills in what cpuid tells.
void __init identify_boot_cpu(void)
{
	struct cpuinfo_x86 *c = &boot_cpu_data;
	struct leaf l = cpuid(0);
	u32 i;

	c->cpuid_level = l.eax;
	memcpy(c->x86_vendor_id, (u32[]){ l.ebx, l.edx, l.ecx }, 12);
	c->x86_vendor = !strcmp(c->x86_vendor_id, "GenuineIntel") ? 0 : !strcmp(c->x86_vendor_id, "AuthenticAMD") ? 2 : 255;
	identify_family(c);
	c->x86_max_cores = 1;
	c->x86_virt_bits = 48;
	c->x86_phys_bits = 36;
	l = cpuid(0x80000000);
	if (l.eax >= 0x80000001)
		c->x86_capability[1] = cpuid(0x80000001).edx;
	if (l.eax >= 0x80000004)
		for (i = 0; i < 3; i++)
			*(struct leaf *)(c->x86_model_id + 16 * i) = cpuid(0x80000002 + i);
	if (l.eax >= 0x80000008) {
		u32 bits = cpuid(0x80000008).eax;

		c->x86_phys_bits = bits & 255;
		c->x86_virt_bits = (bits >> 8) & 255;
	}
}
