/* internal.h: what the machine knows about a module that it has put in place. */
#include <linux/module.h>

/* The parts of a module's memory, in the order in which they lie. */
enum { CORE_TEXT, CORE_RODATA, CORE_RO_AFTER_INIT, CORE_DATA, CORE_SYMBOLS,
	INIT_TEXT, INIT_RODATA, INIT_RO_AFTER_INIT, INIT_DATA, INIT_SYMBOLS, NR_AREAS };

/* All members have eight bytes: kernel/module/info.go fills them in. */
struct load_info {
	struct module *mod;
	const Elf_Shdr *sechdrs;	/* with the addresses of sections that are loaded */
	unsigned long num_sections;
	const char *secstrings;
	const char *args;
	const char *version;	/* may be NULL, as the next */
	const char *srcversion;
	unsigned long taints;
	void *percpu;
	unsigned long percpu_size;
	struct mod_kallsyms *kallsyms;	/* all symbols, among what is freed after init */
	struct mod_kallsyms core_kallsyms;
	struct module **uses;
	unsigned long num_uses;
	struct { unsigned long base, size; } areas[NR_AREAS];
};

int mod_sysfs_setup(struct module *mod, const struct load_info *info);
void mod_sysfs_teardown(struct module *mod);
