/* idt.c: the interrupt descriptor table: one for all CPUs. */
#include <linux/kernel.h>
#include <asm/traps.h>
#include <asm/host.h>
#include <linux/irq.h>

struct gate_struct { u16 offset_low, segment, bits, offset_middle; u32 offset_high, reserved; };
struct desc_ptr { u16 size; unsigned long address; } __packed;
struct idt_data { unsigned int vector; void (*addr)(void); };

static struct gate_struct idt_table[256] __aligned(4096);
/* 64-bit code at 0x10 and data at 0x18, as the saved cs and ss say. */
static u64 gdt_page[16] __aligned(64) = { [2] = 0x00af9b000000ffffULL, [3] = 0x00cf93000000ffffULL };

#define DECLARE_ASM(f) extern void f(void);
DECLARE_ASM(asm_exc_divide_error) DECLARE_ASM(asm_exc_debug) DECLARE_ASM(asm_exc_nmi)
DECLARE_ASM(asm_exc_int3) DECLARE_ASM(asm_exc_overflow) DECLARE_ASM(asm_exc_bounds)
DECLARE_ASM(asm_exc_invalid_op) DECLARE_ASM(asm_exc_device_not_available)
DECLARE_ASM(asm_exc_double_fault) DECLARE_ASM(asm_exc_invalid_tss)
DECLARE_ASM(asm_exc_segment_not_present) DECLARE_ASM(asm_exc_stack_segment)
DECLARE_ASM(asm_exc_general_protection) DECLARE_ASM(asm_exc_page_fault)
DECLARE_ASM(asm_exc_alignment_check) DECLARE_ASM(asm_spurious_interrupt)
DECLARE_ASM(asm_sysvec_apic_timer_interrupt) DECLARE_ASM(asm_sysvec_reschedule_ipi)
DECLARE_ASM(asm_sysvec_call_function_single) DECLARE_ASM(asm_sysvec_kvm_asyncpf_interrupt)
DECLARE_ASM(asm_sysvec_reboot)
extern char irq_entries_start[];

static const struct idt_data def_idts[] = {
	{ 0, asm_exc_divide_error }, { 1, asm_exc_debug }, { 2, asm_exc_nmi }, { 3, asm_exc_int3 },
	{ 4, asm_exc_overflow }, { 5, asm_exc_bounds }, { 6, asm_exc_invalid_op },
	{ 7, asm_exc_device_not_available }, { 8, asm_exc_double_fault }, { 10, asm_exc_invalid_tss },
	{ 11, asm_exc_segment_not_present }, { 12, asm_exc_stack_segment },
	{ 13, asm_exc_general_protection }, { 14, asm_exc_page_fault }, { 17, asm_exc_alignment_check },
	{ LOCAL_TIMER_VECTOR, asm_sysvec_apic_timer_interrupt },
	{ HYPERVISOR_CALLBACK_VECTOR, asm_sysvec_kvm_asyncpf_interrupt },
	{ REBOOT_VECTOR, asm_sysvec_reboot },
	{ CALL_FUNCTION_SINGLE_VECTOR, asm_sysvec_call_function_single },
	{ RESCHEDULE_VECTOR, asm_sysvec_reschedule_ipi },
};

static void __init set_intr_gate(unsigned int n, void (*addr)(void))
{
	unsigned long a = (unsigned long)addr;

	idt_table[n] = (struct gate_struct){
		.offset_low = (u16)a, .segment = __KERNEL_CS, .bits = 0x8e00,
		.offset_middle = (u16)(a >> 16), .offset_high = (u32)(a >> 32),
	};
}

void load_idt_table(void)
{
	struct desc_ptr idt = { sizeof(idt_table) - 1, (unsigned long)idt_table };
	struct desc_ptr gdt = { sizeof(gdt_page) - 1, (unsigned long)gdt_page };

	__asm__ __volatile__("lgdt %0" : : "m"(gdt));
	__asm__ __volatile__("lidt %0" : : "m"(idt));
}

void __init idt_setup_traps(void)
{
	int i;

	for (i = 32; i < 256; i++)
		set_intr_gate(i, asm_spurious_interrupt);
	for (i = FIRST_EXTERNAL_VECTOR; i < ISA_IRQ_VECTOR(16); i++)
		if (vector_to_irq(i) >= 0)
			set_intr_gate(i, (void (*)(void))(irq_entries_start + 16 * (i - FIRST_EXTERNAL_VECTOR)));
	for (i = 0; i < ARRAY_SIZE(def_idts); i++)
		set_intr_gate(def_idts[i].vector, def_idts[i].addr);
	load_idt_table();
}
