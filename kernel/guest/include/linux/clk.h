// clk.h: as much of a clock as its name needs.
#ifndef _LINUX_CLK_H
#define _LINUX_CLK_H

struct clk_core {
	const char *name;
};

struct clk {
	struct clk_core *core;
};

#endif
