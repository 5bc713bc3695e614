/*
 * run: let this processor execute instructions and say what it did.
 *
 * Reads a struct job from standard input, writes a struct result, and so on until
 * there are no more. A job's state is loaded by returning from a signal handler
 * with TF set, so that the processor stops after each instruction with #DB, or
 * earlier with the fault that it caused. A job without steps is one instruction (a
 * REP instruction goes on until it is over), or so many bytes of instructions. One
 * with steps is executed as long as it goes where the steps say; after each step
 * some flags are set as the step says, which are those that the instruction leaves
 * undefined. See package record for the stage.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define CODE_ADDR 0x20000100UL
#define CODE_PAGE (CODE_ADDR & ~4095UL)
#define PAGE_ADDR 0x10000000UL
#define GS_BASE 0x08000000UL
#define WINDOW 64
#define FILLER 0xa5
#define HLT 0xf4
#define STEPS 64
#define TF 0x100
#define STATUS 0xcd5 /* CF PF AF ZF SF DF OF */

struct state {
	uint64_t r[16], rip, flags;
	uint8_t mem[WINDOW];
};

struct step {
	uint64_t rip;
	uint16_t mask, flags; /* of the flags after it, those in mask are to be these */
	uint8_t rep, pad[3];  /* a string instruction that may trap after each element */
};

static struct job {
	uint8_t code[256];
	uint64_t sequence; /* bytes of several instructions; 0: one instruction */
	uint64_t window;
	struct state s;
	uint64_t nsteps;
	struct step steps[STEPS];
} job;

static struct result {
	uint64_t vector, error, cr2;
	uint64_t steps; /* that have been made, in a job with steps */
	struct state s;
	uint8_t page[4096];
} result;

/* Our order of registers in the kernel's. */
static const int greg[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
			      REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };

static int started;
static uint64_t step;
static uint8_t *code; /* a second, writable mapping of the code's page */

static void die(const char *why)
{
	dprintf(2, "run: %s\n", why);
	_exit(1);
}

static void set_gs(uint64_t base)
{
	if (syscall(SYS_arch_prctl, ARCH_SET_GS, base))
		die("arch_prctl");
}

/* move reads or writes n bytes; 0 is the end of the input. */
static int move(ssize_t (*call)(int, void *, size_t), int fd, void *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t got = call(fd, (char *)p + done, n - done);

		if (got < 0 || (!got && done))
			die("pipe");
		if (!got)
			return 0;
		done += got;
	}
	return 1;
}

static void load(ucontext_t *u)
{
	memset((void *)PAGE_ADDR, FILLER, 4096);
	memcpy((void *)job.window, job.s.mem, WINDOW);
	memcpy(code + (CODE_ADDR - CODE_PAGE), job.code, sizeof job.code);
	for (int i = 0; i < 16; i++)
		u->uc_mcontext.gregs[greg[i]] = job.s.r[i];
	u->uc_mcontext.gregs[REG_RIP] = CODE_ADDR;
	u->uc_mcontext.gregs[REG_EFL] = (job.s.flags & STATUS) | 0x202 | TF;
	step = 0;
}

static void save(ucontext_t *u)
{
	uint64_t trap = u->uc_mcontext.gregs[REG_TRAPNO];

	result.vector = trap == 1 ? 0xff : trap;
	result.error = u->uc_mcontext.gregs[REG_ERR];
	result.cr2 = u->uc_mcontext.gregs[REG_CR2];
	result.steps = step;
	for (int i = 0; i < 16; i++)
		result.s.r[i] = u->uc_mcontext.gregs[greg[i]];
	result.s.rip = u->uc_mcontext.gregs[REG_RIP];
	result.s.flags = u->uc_mcontext.gregs[REG_EFL];
	memcpy(result.page, (void *)PAGE_ADDR, sizeof result.page);
	memcpy(result.s.mem, (void *)job.window, WINDOW);
}

static int rep(const uint8_t *code)
{
	for (; *code == 0x66 || *code == 0x67 || *code == 0x65; code++)
		;
	return *code == 0xf2 || *code == 0xf3;
}

/* unfinished says, after an instruction, whether there is more to execute. */
static int unfinished(ucontext_t *u)
{
	uint64_t rip = u->uc_mcontext.gregs[REG_RIP];

	if (job.nsteps) {
		struct step *s = &job.steps[step];

		if (s->rep && rip == s->rip)
			return 1;
		u->uc_mcontext.gregs[REG_EFL] = (u->uc_mcontext.gregs[REG_EFL] & ~(uint64_t)s->mask) | (s->flags & s->mask);
		return ++step < job.nsteps && rip == job.steps[step].rip;
	}
	if (job.sequence)
		return rip - CODE_ADDR < job.sequence;
	return rip == CODE_ADDR && rep(job.code);
}

static void handler(int sig, siginfo_t *si, void *ctx)
{
	ucontext_t *u = ctx;

	(void)sig, (void)si;
	if (started) {
		if (u->uc_mcontext.gregs[REG_TRAPNO] == 1 && unfinished(u)) {
			u->uc_mcontext.gregs[REG_EFL] |= TF;
			return;
		}
		save(u);
		move((ssize_t (*)(int, void *, size_t))write, 1, &result, sizeof result);
	}
	started = 1;
	if (!move(read, 0, &job, sizeof job))
		_exit(0);
	if (job.nsteps > STEPS || job.window < PAGE_ADDR || job.window > PAGE_ADDR + 4096 - WINDOW)
		die("a job that cannot be");
	load(u);
}

int main(void)
{
	static char stack[1 << 16]; /* high, as the program is position-independent: no job's stack pointer is in it by chance */
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof stack };
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
	int fd = memfd_create("code", 0);

	if (fd < 0 || ftruncate(fd, 4096) ||
	    (code = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED ||
	    mmap((void *)CODE_PAGE, 4096, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) == MAP_FAILED ||
	    mmap((void *)PAGE_ADDR, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
		die("mmap");
	memset(code, HLT, 4096);
	set_gs(GS_BASE);
	sigaltstack(&ss, 0);
	int sigs[] = { SIGUSR1, SIGTRAP, SIGSEGV, SIGILL, SIGFPE, SIGBUS };
	for (unsigned i = 0; i < sizeof sigs / sizeof *sigs; i++)
		sigaction(sigs[i], &sa, 0);
	raise(SIGUSR1);
	return 1;
}
