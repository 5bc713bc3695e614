/* LOCK_PREFIX: a lock prefix with an entry in .smp_locks. */
#ifndef _ASM_ALTERNATIVE_H
#define _ASM_ALTERNATIVE_H
#define LOCK_PREFIX \
	".pushsection .smp_locks,\"a\"\n.balign 4\n.long 671f - .\n.popsection\n671:\n\tlock; "
#endif
