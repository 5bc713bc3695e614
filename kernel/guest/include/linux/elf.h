/* elf.h: entries of ELF files, in which modules come. */
#ifndef _LINUX_ELF_H
#define _LINUX_ELF_H
#include <linux/types.h>

typedef u64 Elf64_Addr;
typedef u16 Elf64_Half;
typedef u64 Elf64_Off;
typedef u32 Elf64_Word;
typedef u64 Elf64_Xword;

typedef struct elf64_sym {
	Elf64_Word st_name;
	unsigned char st_info;
	unsigned char st_other;
	Elf64_Half st_shndx;
	Elf64_Addr st_value;
	Elf64_Xword st_size;
} Elf64_Sym;

typedef struct elf64_shdr {
	Elf64_Word sh_name;
	Elf64_Word sh_type;
	Elf64_Xword sh_flags;
	Elf64_Addr sh_addr;
	Elf64_Off sh_offset;
	Elf64_Xword sh_size;
	Elf64_Word sh_link;
	Elf64_Word sh_info;
	Elf64_Xword sh_addralign;
	Elf64_Xword sh_entsize;
} Elf64_Shdr;

#define Elf_Sym		Elf64_Sym
#define Elf_Shdr	Elf64_Shdr
#define Elf_Addr	Elf64_Addr

#define SHF_WRITE	1
#define SHF_ALLOC	2
#define SHF_EXECINSTR	4
#define SHT_NOTE	7

#define ELF_ST_BIND(x)	((x) >> 4)
#define ELF_ST_TYPE(x)	((x) & 0xf)
#define STB_LOCAL	0
#define STB_GLOBAL	1
#define STB_WEAK	2
#define STT_NOTYPE	0
#define STT_OBJECT	1
#define STT_FUNC	2
#define STT_SECTION	3
#define STT_FILE	4
#define SHN_UNDEF	0
#define SHN_ABS		0xfff1
#define SHN_COMMON	0xfff2
#endif
