package release

// Values of kprobes.
var (
	// DebugfsDir is where programs of the time expect debugfs to be mounted.
	DebugfsDir = Value[string]{
		Subject: files, What: "where debugfs is expected", Source: "document 002: `kprobefs.TestOldFiles`",
		By: []At[string]{{Linux2_6_25, "/debug", 0}, {Linux2_6_32, "/sys/kernel/debug", 0}},
	}
	// Trampoline is the function that hooked calls return to.
	Trampoline = Value[string]{
		Subject: names, What: "the function that hooked calls return to", Source: "`5.10/stack_option.txtar`",
		By: []At[string]{{Linux5_10, "kretprobe_trampoline", 0}, {Linux6_1, "arch_rethook_trampoline", linux5_18}},
	}
	// SyscallPrefix begins the names of the functions of system calls.
	SyscallPrefix = Value[string]{
		Subject: names, What: "what the names of system calls' functions begin with", Source: "document 002: `kprobefs.TestNamesOfEach`",
		By: []At[string]{{Linux2_6_25, "sys_", 0}, {Linux5_10, "__x64_sys_", linux4_17}},
	}
)

// FunctionNames are functions that have had other names in older kernels.
var FunctionNames = []*Value[string]{
	&Trampoline,
	{
		Subject: names, What: "what the trampoline calls", Source: "`5.10/stack_option.txtar`",
		By: []At[string]{{Linux5_10, "trampoline_handler", 0}, {Linux6_1, "arch_rethook_trampoline_callback", linux5_18}},
	},
	{
		Subject: names, What: "what calls the return handlers", Source: "`5.10/stack_handlers.txtar`",
		By: []At[string]{{Linux5_10, "__kretprobe_trampoline_handler", 0}, {Linux6_1, "rethook_trampoline_handler", linux5_18}},
	},
	{
		Subject: names, What: "what execve calls", Source: "document 002: `kprobefs.TestNamesOfEach`",
		By: []At[string]{{Linux2_6_25, "do_execve", 0}, {Linux5_10, "do_execveat_common.constprop.0.isra.0", 0}},
	},
	{
		Subject: names, What: "the handler of page faults", Source: "document 002: `kprobefs.TestNamesOfEach`",
		By: []At[string]{{Linux2_6_25, "do_page_fault", 0}, {Linux5_10, "exc_page_fault", linux5_8}},
	},
	{
		Subject: names, What: "the function printk", Source: "`kprobefs.TestNamesOfEach`",
		By: []At[string]{{Linux2_6_25, "printk", 0}, {Linux6_1, "_printk", linux5_15}},
	},
}

// Rename maps the names that FunctionNames have in Default to those in a version. Names
// that are the same are left out.
func Rename(v Version) map[string]string {
	names := map[string]string{}
	for _, x := range FunctionNames {
		if from, to := x.Of(Default), x.Of(v); from != to {
			names[from] = to
		}
	}
	return names
}

// Values returns all values.
func Values() []ValueRow {
	rows := []ValueRow{DebugfsDir.Row(), SyscallPrefix.Row()}
	for _, x := range FunctionNames {
		rows = append(rows, x.Row())
	}
	return rows
}
