/*
 * machine: what a processor does with privileged instructions. A kernel for
 * QEMU that executes the jobs of its first multiboot module one by one, each
 * with TF set, and writes results to the debug console (port 0xe9). See package
 * record for the stage; order and size of the structures are known to main.go.
 */
#include <stdint.h>

#define CODE_ADDR 0x20000100UL
#define PAGE_ADDR 0x10000000UL
#define WINDOW 64
#define FILLER 0xa5
#define TF 0x100

enum { CR0, CR2, CR3, CR4, CR8, FS_BASE, GS_BASE, KERNEL_GS_BASE, LSTAR, STAR, SFMASK, GDT_BASE, GDT_LIMIT, IDT_BASE, IDT_LIMIT,
       ES, CS, SS, DS, FS, GS, NSYS };

struct state {
	uint64_t r[16], rip, flags;
	uint8_t mem[WINDOW];
	uint64_t sys[NSYS];
};

struct job {
	uint8_t code[16];
	uint64_t window;
	struct state s;
};

struct result {
	uint64_t vector, error;
	struct state s;
};

struct pointer {
	uint16_t limit;
	uint64_t base;
} __attribute__((packed));

extern uint64_t gdt[512], out[18], out_vector, out_error, out_cs, out_ss;
extern uint8_t data_page[4096], code_page[4096], stubs[], trap_stack_top[];
void enter(const struct state *s);

/* Copies of each table, so that lgdt and lidt have something to load; at 0x180000. */
static uint64_t gdts[4][512] __attribute__((section(".gdts,\"aw\",@nobits#")));
static uint64_t idts[4][512] __attribute__((section(".idts,\"aw\",@nobits#")));
static uint32_t tss[26];

void *memcpy(void *to, const void *from, unsigned long n)
{
	asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
	return to;
}

void *memset(void *to, int c, unsigned long n)
{
	asm volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(c) : "memory");
	return to;
}

static uint64_t rdmsr(uint32_t n)
{
	uint32_t lo, hi;

	asm volatile("rdmsr" : "=a"(lo), "=d"(hi) : "c"(n));
	return lo | (uint64_t)hi << 32;
}

static void wrmsr(uint32_t n, uint64_t v)
{
	asm volatile("wrmsr" ::"a"((uint32_t)v), "d"((uint32_t)(v >> 32)), "c"(n));
}

static const uint32_t msrs[] = { [FS_BASE] = 0xc0000100, [GS_BASE] = 0xc0000101, [KERNEL_GS_BASE] = 0xc0000102,
				 [LSTAR] = 0xc0000082, [STAR] = 0xc0000081, [SFMASK] = 0xc0000084 };

#define GET(reg) ({ uint64_t v_; asm volatile("mov %%" #reg ", %0" : "=r"(v_)); v_; })
#define SET(reg, v) asm volatile("mov %0, %%" #reg ::"r"((uint64_t)(v)) : "memory")

static void get(uint64_t *s)
{
	struct pointer p;

	s[CR0] = GET(cr0);
	s[CR2] = GET(cr2);
	s[CR3] = GET(cr3);
	s[CR4] = GET(cr4);
	s[CR8] = GET(cr8);
	for (int i = FS_BASE; i <= SFMASK; i++)
		s[i] = rdmsr(msrs[i]);
	asm volatile("sgdt %0" : "=m"(p));
	s[GDT_BASE] = p.base;
	s[GDT_LIMIT] = p.limit;
	asm volatile("sidt %0" : "=m"(p));
	s[IDT_BASE] = p.base;
	s[IDT_LIMIT] = p.limit;
	s[ES] = GET(es);
	s[DS] = GET(ds);
	s[FS] = GET(fs);
	s[GS] = GET(gs);
}

static void put(const uint64_t *s)
{
	struct pointer p;

	SET(cr0, s[CR0]);
	SET(cr2, s[CR2]);
	SET(cr3, s[CR3]);
	SET(cr4, s[CR4]);
	SET(cr8, s[CR8]);
	p.base = s[GDT_BASE], p.limit = s[GDT_LIMIT];
	asm volatile("lgdt %0" ::"m"(p));
	p.base = s[IDT_BASE], p.limit = s[IDT_LIMIT];
	asm volatile("lidt %0" ::"m"(p));
	asm volatile("mov %0, %%es; mov %1, %%ds; mov %2, %%fs; mov %3, %%gs" ::"r"((uint32_t)s[ES]), "r"((uint32_t)s[DS]),
		     "r"((uint32_t)s[FS]), "r"((uint32_t)s[GS]));
	for (int i = FS_BASE; i <= SFMASK; i++)
		wrmsr(msrs[i], s[i]);
}

static void outb(uint16_t port, uint8_t v) { asm volatile("outb %0, %1" ::"a"(v), "Nd"(port)); }

static void put_bytes(const void *p, unsigned long n)
{
	asm volatile("rep outsb" : "+S"(p), "+c"(n) : "d"((uint16_t)0xe9) : "memory");
}

static void tables(void)
{
	for (int v = 0; v < 32; v++) {
		uint64_t f = (uint64_t)(stubs + 16 * v);

		idts[0][2 * v] = (f & 0xffff) | 0x10 << 16 | 1UL << 32 | 0x8eUL << 40 | (f >> 16 & 0xffff) << 48;
		idts[0][2 * v + 1] = f >> 32;
	}
	uint64_t ist1 = (uint64_t)trap_stack_top;

	memcpy(&tss[9], &ist1, 8);
	uint64_t t = (uint64_t)tss;
	gdt[8] = (sizeof tss - 1) | (t & 0xffffff) << 16 | 0x89UL << 40 | (t >> 24 & 0xff) << 56;
	gdt[9] = t >> 32;
	for (int i = 0; i < 4; i++) {
		memcpy(gdts[i], gdt, sizeof gdts[i]);
		memcpy(idts[i], idts[0], sizeof idts[i]);
	}
	struct pointer p = { 4095, (uint64_t)gdts[0] };
	asm volatile("lgdt %0" ::"m"(p));
	asm volatile("ltr %0" ::"r"((uint16_t)0x40));
	for (int i = 0; i < 4; i++)
		memcpy(gdts[i], gdts[0], sizeof gdts[i]);
	p.base = (uint64_t)idts[0];
	asm volatile("lidt %0" ::"m"(p));
	outb(0x21, 0xff);
	outb(0xa1, 0xff);
}

/* do_job: sys values 0..3 of a table's base mean one of its copies. */
static void do_job(struct job *j, const uint64_t *normal)
{
	static struct result r;
	static struct state s;
	uint64_t offset = j->window - PAGE_ADDR;

	s = j->s;
	s.flags |= TF;
	memset(data_page, FILLER, sizeof data_page);
	memcpy(data_page + offset, s.mem, WINDOW);
	memset(code_page, 0xf4, sizeof code_page);
	memcpy(code_page + (CODE_ADDR & 4095), j->code, sizeof j->code);
	s.sys[CR0] = normal[CR0] ^ s.sys[CR0];
	s.sys[CR3] = normal[CR3];
	s.sys[CR4] = normal[CR4] ^ s.sys[CR4];
	s.sys[GDT_BASE] = (uint64_t)gdts[s.sys[GDT_BASE] & 3];
	s.sys[IDT_BASE] = (uint64_t)idts[s.sys[IDT_BASE] & 3];
	put(s.sys);
	get(s.sys);
	s.sys[CS] = 0x10;
	s.sys[SS] = 0x18;
	put_bytes(&s, sizeof s); /* as it is now */
	enter(&s);
	r.vector = out_vector;
	r.error = out_error;
	memcpy(r.s.r, out, sizeof out);
	get(r.s.sys);
	r.s.sys[CS] = out_cs;
	r.s.sys[SS] = out_ss;
	memcpy(r.s.mem, data_page + offset, WINDOW);
	put(normal);
	put_bytes(&r, sizeof r);
}

void main(const uint32_t *info)
{
	static uint64_t normal[NSYS];
	const uint32_t *module = (const uint32_t *)(uint64_t)info[6];

	tables();
	get(normal);
	uint64_t where[2] = { (uint64_t)gdts, (uint64_t)idts };
	put_bytes(where, sizeof where);
	for (struct job *j = (struct job *)(uint64_t)module[0]; (uint64_t)(j + 1) <= module[1]; j++)
		do_job(j, normal);
	put_bytes("done", 4);
	outb(0xf4, 0); /* isa-debug-exit */
	for (;;)
		asm volatile("hlt");
}
