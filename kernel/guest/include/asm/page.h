// page.h: PAGE_SIZE and its kin.
#ifndef _KPROBEFS_ASM_PAGE_H
#define _KPROBEFS_ASM_PAGE_H

#include <linux/mm.h>

#endif
