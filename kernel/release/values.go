package release

import "github.com/kprobefs/kprobefs/kernel/trampoline"

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
		By: []At[string]{{Linux5_10, trampoline.Kretprobe, 0}, {Linux6_1, trampoline.Rethook, linux5_18}},
	}
	// SyscallPrefix begins the names of the functions of system calls.
	SyscallPrefix = Value[string]{
		Subject: names, What: "what the names of system calls' functions begin with", Source: "document 002: `kprobefs.TestNamesOfEach`",
		By: []At[string]{{Linux2_6_25, "sys_", 0}, {Linux5_10, "__x64_sys_", linux4_17}},
	}
)

// Values of tracing.
var (
	// StaticEvents is the release of Debian's kernel whose static events exist, with
	// their IDs, fields and print formats.
	StaticEvents = Value[Version]{
		Subject: trace, What: "whose static events exist, with IDs, fields and print formats", Source: "`5.10/static_formats.txtar`; `6.12/static_formats.txtar`",
		By: []At[Version]{{Linux5_10, Linux5_10, 0}, {Linux6_1, Linux6_1, 0}, {Linux6_12, Linux6_12, 0}},
	}
	// RawDataID is the ID of the event ftrace/raw_data.
	RawDataID = Value[uint16]{
		Subject: trace, What: "the ID of ftrace/raw_data", Source: "`5.10/trace_marker.txtar`",
		By: []At[uint16]{{Linux5_10, 16, 0}, {Linux6_1, 18, 0}},
	}
	// FirstEventID is the ID of the first event that is defined at run time: it follows the IDs of all static events of
	// Debian's kernel.
	FirstEventID = Value[uint16]{
		Subject: trace, What: "the ID of the first event that is defined at run time", Source: "the ID in the format file of a first probe: `tracing.TestFormat`",
		By: []At[uint16]{{Linux5_10, 1270, 0}, {Linux6_1, 1338, 0}, {Linux6_12, 1496, 0}},
	}
	// Kretprobed is the function whose addresses trace lines show as
	// "[unknown/kretprobe'd]". If it is empty, there is none.
	Kretprobed = Value[string]{
		Subject: trace, What: "the function that trace lines show as \"[unknown/kretprobe'd]\"", Source: "`5.10/stack_option.txtar`; `6.12/stack_option.txtar`",
		By: []At[string]{{Linux5_10, trampoline.Kretprobe, 0}, {Linux6_1, "", 0}, {Linux6_12, trampoline.Rethook, 0}},
	}
	// PIDMax is pid_max where set_event_pid and files like it refuse numbers from there
	// on (EINVAL). If it is 0, they refuse numbers from 2^30 on (EPERM).
	PIDMax = Value[uint64]{
		Subject: tracefs, What: "the number from which on set_event_pid refuses with EINVAL; with 0, it refuses from 2^30 on with EPERM", Source: "`5.10/set_event_pid.txtar`",
		By: []At[uint64]{{Linux5_10, 32768, 0}, {Linux6_1, 0, 0}},
	}
	// SymbolMax is KSYM_NAME_LEN: a symbol has fewer bytes.
	SymbolMax = Value[int]{
		Subject: names, What: "from how many bytes on the name of a function is refused by perf_event_open(2), with E2BIG", Source: "`5.10/mirror_perf_probes.txtar`",
		By: []At[int]{{Linux5_10, 128, 0}, {Linux6_1, 512, 0}},
	}
	// BadVariable is error_log's text for an unknown $-variable.
	BadVariable = Value[string]{
		Subject: errlog, What: "error_log's text for an unknown $-variable (6.1's until 6.1.176 was 5.10's)", Source: "`5.10/args_errors.txtar`",
		By: []At[string]{{Linux5_10, "Invalid $-valiable specified", 0}, {Linux6_1, "Invalid $-variable specified", 0}},
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
		Subject: names, What: "what calls a module's return handlers", Source: "documents 000, 001 and 002 (a probe at the trampoline): `integration.TestOldTraces`",
		By: []At[string]{{Linux2_6_25, "trampoline_probe_handler", 0}, {Linux5_10, "kretprobe_rethook_handler", 0}},
	},
	{
		Subject: names, What: "what execve calls", Source: "document 002: `kprobefs.TestNamesOfEach`",
		By: []At[string]{{Linux2_6_25, "do_execve", 0}, {Linux5_10, "do_execveat_common.isra.0", 0}},
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
	rows := []ValueRow{
		DebugfsDir.Row(), PIDMax.Row(), SymbolMax.Row(), BadVariable.Row(), StaticEvents.Row(), RawDataID.Row(), FirstEventID.Row(), Kretprobed.Row(), SyscallPrefix.Row(),
	}
	for _, x := range FunctionNames {
		rows = append(rows, x.Row())
	}
	return rows
}
