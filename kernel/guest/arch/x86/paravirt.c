/*
 * paravirt.c: operations that a hypervisor could replace. Modules call them through
 * pv_ops; all registers except the result's are preserved. On bare metal the loader
 * replaces calls that have an alternative. Operations that no module uses are 0.
 */
#include <linux/kernel.h>

unsigned long native_save_fl(void);
void pv_native_irq_disable(void);
void pv_native_irq_enable(void);
void pv_native_safe_halt(void);
void native_halt(void);
unsigned long pv_native_read_cr2(void);
unsigned long __native_read_cr3(void);

#define __PV_FUNC(section, name, insns) \
	__asm__(".pushsection " section ",\"ax\"\n.balign 16,0xcc\n.globl " #name "\n.type " #name ",@function\n" \
		#name ":\n\t.cfi_startproc\n\t" insns "\n\tret\n\t.cfi_endproc\n.size " #name ", . - " #name "\n.popsection\n")
#define PV_FUNC(name, insns) __PV_FUNC(".noinstr.text", name, insns)
PV_FUNC(pv_native_irq_disable, "cli");
PV_FUNC(pv_native_irq_enable, "sti");
PV_FUNC(pv_native_safe_halt, "sti\n\thlt");
PV_FUNC(native_halt, "hlt");
PV_FUNC(pv_native_read_cr2, "mov %cr2, %rax");
__PV_FUNC(".text", __native_read_cr3, "mov %cr3, %rax");

/* 6.1's struct paravirt_patch_template. */
struct {
	void *cpu[30];
	struct {
		void *save_fl, *irq_disable, *irq_enable, *safe_halt, *halt;
	} irq;
	struct {
		void *flushes[7], *read_cr2, *write_cr2, *read_cr3, *rest[34];
	} mmu;
	void *lock[5];
} pv_ops = {
	.irq = { native_save_fl, pv_native_irq_disable, pv_native_irq_enable, pv_native_safe_halt, native_halt },
	.mmu = { .read_cr2 = pv_native_read_cr2, .read_cr3 = __native_read_cr3 },
};
static_assert(sizeof(pv_ops) == 672, "pv_ops");
EXPORT_SYMBOL(pv_ops);
