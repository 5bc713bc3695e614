/* setup.c: from the first stack to start_kernel. */
#include <linux/sched.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <asm/traps.h>
#include <asm/host.h>

const char *boot_params;
char saved_command_line[256];
void start_kernel(void);
void prefill_possible_map(unsigned int cpus);

unsigned long page_offset_base = PAGE_OFFSET, vmalloc_base = VMALLOC_START, vmemmap_base, phys_base;
EXPORT_SYMBOL(page_offset_base);
EXPORT_SYMBOL(vmalloc_base);
EXPORT_SYMBOL(vmemmap_base);
EXPORT_SYMBOL(phys_base);

unsigned long __phys_addr(unsigned long x)
{
	if (x >= __START_KERNEL_map)
		return x - __START_KERNEL_map;
	return x - PAGE_OFFSET;
}

bool __virt_addr_valid(unsigned long x)
{
	if (x < PAGE_OFFSET)
		return false;
	if (x < __START_KERNEL_map && x >= PAGE_OFFSET + (max_pfn << PAGE_SHIFT))
		return false;
	return (__phys_addr(x) >> PAGE_SHIFT) < max_pfn;
}
EXPORT_SYMBOL(__virt_addr_valid);

/* The end of the direct map. */
void *high_memory;
EXPORT_SYMBOL(high_memory);

void identify_boot_cpu(void);

void __init setup_arch(void)
{
	identify_boot_cpu();
	memblock_init(boot_u64(BOOT_RAM));
	high_memory = (void *)(PAGE_OFFSET + (max_pfn << PAGE_SHIFT));
	prefill_possible_map(boot_u64(BOOT_CPUS));
	strscpy(saved_command_line, boot_params + BOOT_CMDLINE, sizeof(saved_command_line));
}

void __init x86_64_start_kernel(char *real_mode_data)
{
	boot_params = real_mode_data;
	idt_setup_traps();
	if (boot_u64(BOOT_MAGIC) != BOOT_MAGIC_VALUE)
		panic("boot_params have the wrong magic");
	start_kernel();
}
