// mmflags.h: the names of the flags of pages, mappings and allocations.
#ifndef _LINUX_MMFLAGS_H
#define _LINUX_MMFLAGS_H

// A trace_print_flags is the name of bits that are all set.
struct trace_print_flags {
	unsigned long mask;
	const char *name;
};

extern const struct trace_print_flags pageflag_names[], vmaflag_names[], gfpflag_names[]; // up to a mask of 0

// Where a page's flags have other numbers.
#define NR_PAGEFLAGS 25
#define LAST_CPUPID_PGSHIFT 30
#define LAST_CPUPID_WIDTH 21
#define ZONES_PGSHIFT 51
#define ZONES_WIDTH 3
#define NODES_PGSHIFT 54
#define NODES_WIDTH 10

#endif
