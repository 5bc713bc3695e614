package tour

// Step is a row of the lesson.
type Step struct {
	Chapter string
	Name    string // by which it is chosen
	Title   string
	Says    string // what the reader has to know, in a few sentences
	// Do changes something, or is empty, and See shows it: commands for sh in the tree's directory.
	// INSIDE stands for a place inside of vfs_read at which a jump can be, as vfs_read+5, INSIDEHEX
	// for its name in machine/probes, and INSIDE_NEXT for the instruction behind it.
	Do, See string
	// Shows is a regular expression. Until the output of See has it, for some seconds, See is
	// executed again: the kernel takes its time for jumps.
	Shows string
	Look  string // what to see in the output
}

// The chapters, in the order of Linux's document.
const (
	chapterConcepts  = "What a kprobe is"
	chapterHow       = "How a kprobe works"
	chapterReturn    = "Return probes"
	chapterJump      = "Jump optimization"
	chapterBlacklist = "What may not be probed"
	chapterFiles     = "The files of debugfs"
	chapterSysctl    = "The sysctl"
	chapterEvents    = "Events: kprobe_events"
)

// Steps is the lesson. Each chapter begins without the lesson's probes, and a step may use what the
// steps before it in its chapter have set up. All probes are events of the group tour, so that they
// are told from others, and are removed at the end.
var Steps = []Step{
	{
		Chapter: chapterConcepts, Name: "kernel", Title: "A kernel to look into",
		Says: `A kprobe is a hook at an instruction of a running kernel: when a processor comes to it, a function of yours is called, sees the registers, and the kernel goes on as if nothing had been. The kernel here is an emulated one, and its files are below this directory. On a Linux of your own, kprobes/ is /sys/kernel/debug/kprobes, tracing/ is /sys/kernel/tracing, and sys/ and proc/sys are in /proc.`,
		See:  `cut -d' ' -f1-3 proc/version; ls kprobes`, Shows: `(?s)Linux version .*blacklist\nenabled\nlist`,
		Look: `Three files are all that debugfs has of kprobes. Setting probes is done elsewhere: by a module, by perf, or by tracing/kprobe_events.`,
	},
	{
		Chapter: chapterConcepts, Name: "nothing", Title: "Before the first probe",
		Says: `kprobes/list has a line for each probe of the kernel, whoever has registered it. Nobody has, unless you use a machine of your own: then what is there was yours before.`,
		See:  `wc -l < kprobes/list; grep -w vfs_read proc/kallsyms`, Shows: `(?m) [tT] vfs_read$`,
		Look: `vfs_read is a function that every read passes. Its address is where a probe on it would be; zeros mean that you may not see addresses.`,
	},
	{
		Chapter: chapterConcepts, Name: "define", Title: "A probe is defined",
		Says: `Writing a line to tracing/kprobe_events makes an event out of a place in the text: p means a probe, then the group and name of the event, then the symbol. The kernel looks the symbol up, decides whether a probe may be there, and registers it. It is disabled until somebody wants the event.`,
		Do:   `echo 'p:tour/read vfs_read' >> tracing/kprobe_events`,
		See:  `cat kprobes/list`, Shows: `vfs_read\+0x\d.*\[DISABLED\]`,
		Look: `k is a kprobe (r is a return probe). [DISABLED] says that its handler is not called. [FTRACE] says that it will be called by ftrace, for which the compiler has left room at the start of the function, and not by a breakpoint.`,
	},
	{
		Chapter: chapterConcepts, Name: "hit", Title: "A hit",
		Says: `Enabling the event arms the probe. From then on each read of any task of this kernel is a hit, also the one by which you look at the trace. A handler ran for each of them, wrote a line into the ring buffer, and let the kernel go on.`,
		Do:   `echo 1 > tracing/events/tour/read/enable; cat kprobes/enabled > /dev/null`,
		See:  `grep -m3 read: tracing/trace`, Shows: `read: \(vfs_read\+0x`,
		Look: `The task and its process id, the processor in brackets, the time since boot, the event, and the place with the function's length.`,
	},
	{
		Chapter: chapterConcepts, Name: "count", Title: "Hits and misses",
		Says: `A kprobe has a counter of the hits that were missed: while a handler runs, a hit on the same processor cannot be handled a second time, so it is only counted. tracing/kprobe_profile has hits and misses of each event.`,
		See:  `cat tracing/kprobe_profile`, Shows: `read +[1-9]\d* +\d+`,
		Look: `The name, the hits, the misses. The hits include the read that you see.`,
	},
	{
		Chapter: chapterHow, Name: "inside", Title: "A probe inside of a function",
		Says: `Inside of a function there is no room for a call. There a probe replaces the first byte of an instruction by int3, an instruction of one byte that traps. What the instruction does must not be lost, so it is copied to a slot first.`,
		Do:   `echo 'p:tour/in INSIDE' >> tracing/kprobe_events`,
		See:  `grep -A1 -m1 ' slot$' machine/copies/vfs_read`, Shows: `slot\n  [0-9a-f]{16} `,
		Look: `machine/ is what Linux does not show. The slot has the copy already, though the probe is not armed.`,
	},
	{
		Chapter: chapterHow, Name: "breakpoint", Title: "The breakpoint",
		Says: `First we switch off jumps, which are a chapter of their own. Then the probe is armed: one byte of the function's text changes. A processor that comes there traps into the kernel's handler of int3, which finds the probe by the address, calls its pre-handler, steps the copy in the slot, calls the post-handler, and continues behind the original instruction.`,
		Do:   `echo 0 > sys/debug/kprobes-optimization; echo 1 > tracing/events/tour/in/enable`,
		See:  `grep '^[*]' machine/text/vfs_read`, Shows: `(?m)^\* .* cc .*int3.*# was: `,
		Look: `The line marked by a star begins with cc, which is int3. Behind "was" is what stood there, and what the slot executes.`,
	},
	{
		Chapter: chapterHow, Name: "step", Title: "Executed out of line",
		Says: `The original instruction is never put back for a hit: another processor could pass just then, and would miss the probe. So the copy is executed where it is, by a single step, or by a jump back behind it where that gives the same, or by emulating the instruction. What a copy does relative to its own address has been corrected for its new place.`,
		See:  `cat machine/probes/INSIDEHEX`, Shows: `(?s)armed: +yes.*carried out: .*slot: .*history: .*int3 is written`,
		Look: `"carried out" is the way that this machine has chosen for this instruction, "slot" is where its copy is, and the history says what has happened to the address and when.`,
	},
	{
		Chapter: chapterHow, Name: "disarm", Title: "The byte comes back",
		Says: `Disabling the event of the last handler at an address disarms it: the first byte of the instruction is written back. Other processors may be executing that text, so the kernel changes it by steps that leave no half-written instruction to be executed.`,
		Do:   `echo 0 > tracing/events/tour/in/enable`,
		See:  `grep -c '^[*]' machine/text/vfs_read; cat kprobes/list`, Shows: `(?m)^0\n.*\[DISABLED\]`,
		Look: `No line of the text is marked. The probe is still registered.`,
	},
	{
		Chapter: chapterReturn, Name: "return", Title: "A return probe",
		Says: `A return probe is called when a function returns. There is no instruction at which all returns meet, so the probe is at the entry: a hit there takes the return address from the stack, keeps it, and puts the address of a trampoline in its place. The function returns to the trampoline, the handler is called, and the trampoline goes to where the caller waits.`,
		Do:   `echo 'r:tour/back vfs_read $retval' >> tracing/kprobe_events; echo 1 > tracing/events/tour/back/enable; cat kprobes/enabled > /dev/null`,
		See:  `grep vfs_read kprobes/list; grep -m3 back: tracing/trace`, Shows: `(?s) r +vfs_read.*back: \(.* <- vfs_read\) arg1=`,
		Look: `r in the list. In the trace, the arrow points from the function that has returned to where it went, and arg1 is the value that it has returned: for vfs_read the number of bytes.`,
	},
	{
		Chapter: chapterReturn, Name: "maxactive", Title: "How many may be under way",
		Says: `Between entry and return, the kept address needs a place, and many tasks can be in the function at once. How many places there are is given at registration, as maxactive; a call that finds none is missed. In kprobe_events it is a number after r; without one, the kernel chooses by the number of processors.`,
		Do:   `echo 'r64:tour/many vfs_read' >> tracing/kprobe_events`,
		See:  `grep tour/many tracing/kprobe_events`, Shows: `r64:tour/many vfs_read`,
		Look: `The 64 is kept in the definition. The misses of return probes for want of a place are in the last column of kprobe_profile.`,
	},
	{
		Chapter: chapterReturn, Name: "entry", Title: "Entry and return together",
		Says: `A probe at the entry sees the arguments, one at the return sees the value. Two events of the same function, ordered by time, belong together where the task is the same. A module can do it in one: an entry handler of a return probe may keep data for the return, or refuse to see it.`,
		Do:   `echo 'p:tour/ask vfs_read bytes=$arg3' >> tracing/kprobe_events; echo 1 > tracing/events/tour/ask/enable; cat kprobes/enabled > /dev/null`,
		See:  `grep -m2 -A1 ask: tracing/trace`, Shows: `ask: \(vfs_read\+0x.*\) bytes=.*\n.* back: `,
		Look: `bytes is the third argument of vfs_read: how much the task has asked for. Below it is the return of the same call: how much it has got.`,
	},
	{
		Chapter: chapterJump, Name: "optimized", Title: "A jump instead of a trap",
		Says: `A trap costs much more than a jump. Some time after a breakpoint has been armed, the kernel replaces it by a jump of five bytes to a detour: code that saves the registers, calls the handlers, restores the registers, executes copies of the instructions that the jump covers, and jumps back behind them.`,
		Do:   `echo 'p:tour/in INSIDE' >> tracing/kprobe_events; echo 1 > tracing/events/tour/in/enable`,
		See:  `cat kprobes/list; grep '^[*]' machine/text/vfs_read`, Shows: `(?s)\[OPTIMIZED\].*\* .* e9 .*jmp`,
		Look: `[OPTIMIZED] in the list; e9 in the text, the first byte of a jump. All the instructions that it covers are behind "was".`,
	},
	{
		Chapter: chapterJump, Name: "detour", Title: "The detour",
		Says: `The detour is written for this one place. It makes what a trap would have made on the stack, so that a handler cannot tell the difference. At its end come the copied instructions: no step is needed, since the processor just runs through them.`,
		See:  `grep -A60 ' detour$' machine/copies/vfs_read | sed -n '1,4p;/call/p;/copied/,$p'`, Shows: `(?s)detour\n.*push.*call.*copied\n.*jmp`,
		Look: `Registers are pushed first (only the first lines are shown), the call goes to the kernel's function for optimized probes, and behind "copied" are the instructions and the jump back.`,
	},
	{
		Chapter: chapterJump, Name: "wait", Title: "Why it takes a moment",
		Says: `A task may have been interrupted in the middle of the bytes that the jump will cover; it would continue inside of the jump. So the kernel waits until every task has passed a point where that is not possible, and changes several probes at once. Going back to a breakpoint needs no such waiting, but is also done in batches.`,
		See:  `grep history machine/probes/INSIDEHEX`, Shows: `(?s)int3 is written.*queued for its jump.*the jump is written`,
		Look: `The time between "queued" and "written". Until then hits came by int3.`,
	},
	{
		Chapter: chapterJump, Name: "refused", Title: "Where no jump can be",
		Says: `The jump must fit: its five bytes have to lie in the function, no other probe may be in them, no jump of the function may lead into them, and each covered instruction has to be one that works at another address. A probe with a post-handler stays a breakpoint as well, since a detour has no moment for it. Where a rule is broken, the probe works as a breakpoint.`,
		Do:   `echo 'p:tour/near INSIDE_NEXT' >> tracing/kprobe_events; echo 1 > tracing/events/tour/near/enable`,
		See:  `cat kprobes/list; grep '^[*]' machine/text/vfs_read`, Shows: `(?s)^(.*\n)?\* [^\n]* cc [^\n]*int3`,
		Look: `A second probe stands in the bytes of the first one's jump. So the first had to become a breakpoint again: its line in the text has int3, and [OPTIMIZED] is no longer on its line of the list.`,
	},
	{
		Chapter: chapterBlacklist, Name: "blacklist", Title: "The blacklist",
		Says: `A probe in the code that handles probes would call itself without end. Such functions are marked in the kernel's source, and whole sections are left out, as the entry code. kprobes/blacklist lists the ranges.`,
		See:  `wc -l < kprobes/blacklist; grep -w -e kprobe_int3_handler -e exc_int3 -e do_int3 kprobes/blacklist`, Shows: `^\d+\n(0x[0-9a-f]+-0x[0-9a-f]+\t\w+\n)+`,
		Look: `First and last address of the range, and the symbol that is there.`,
	},
	{
		Chapter: chapterBlacklist, Name: "einval", Title: "Refused, with a reason",
		Says: `Registering a probe there fails, and so does one in the middle of an instruction: a byte that is written there would change the instruction before it. The error number is all that a module gets. For a definition, tracing/error_log says more.`,
		Do:   `echo 'p:tour/bad vfs_read+1' >> tracing/kprobe_events; echo 'p:tour/bad no_such_function' >> tracing/kprobe_events`,
		See:  `tail -n6 tracing/error_log`, Shows: `(?s)trace_kprobe: error: .*p:tour/bad`,
		Look: `Each entry has the time, a sentence, the line that was written, and a caret under the word that was wrong.`,
	},
	{
		Chapter: chapterFiles, Name: "list", Title: "kprobes/list",
		Says: `The file has an address, k or r, the symbol with an offset, and flags. [GONE] means that the code is no longer there, because its module has been unloaded; [DISABLED], that the probe has been switched off itself. [OPTIMIZED] and [FTRACE] you have met.`,
		Do:   `echo 'p:tour/one vfs_read' >> tracing/kprobe_events; echo 'p:tour/two vfs_write' >> tracing/kprobe_events; echo 1 > tracing/events/tour/one/enable`,
		See:  `cat kprobes/list`, Shows: `(?s)vfs_write\+0x\d.*\[DISABLED\]`,
		Look: `One of the two is disabled. The lines are in the order of a hash table, not of registration.`,
	},
	{
		Chapter: chapterFiles, Name: "enabled", Title: "kprobes/enabled",
		Says: `One switch arms or disarms all probes that are not disabled themselves. It changes the text, not the flags of the probes: when it is 1 again, each is as it was. A probe that is registered meanwhile waits for it.`,
		Do:   `echo 0 > kprobes/enabled`,
		See:  `cat kprobes/enabled kprobes/list; grep -c '^[*]' machine/text/vfs_read`, Shows: `^0\n(.*\n)*0\n$`,
		Look: `No instruction of vfs_read is patched, though the list has the same lines and no flag says so.`,
	},
	{
		Chapter: chapterFiles, Name: "log", Title: "What the kernel says",
		Says: `Switching all probes is written to the kernel's log, as is the state of the optimization at boot. Each record begins with its priority, number and time.`,
		Do:   `echo 1 > kprobes/enabled`,
		See:  `dd if=dev/kmsg bs=8192 iflag=nonblock 2>/dev/null | grep -i kprobe | cut -d';' -f2 | tail -n3`, Shows: `(?i)kprobes.*disabled\n.*enabled`,
		Look: `The last lines are of the switch that you have used, in this step and the one before.`,
	},
	{
		Chapter: chapterSysctl, Name: "sysctl", Title: "debug.kprobes-optimization",
		Says: `This sysctl, /proc/sys/debug/kprobes-optimization, allows jumps for all probes or forbids them. While it is 1, each breakpoint that can be a jump becomes one.`,
		Do:   `echo 'p:tour/in INSIDE' >> tracing/kprobe_events; echo 1 > tracing/events/tour/in/enable`,
		See:  `cat sys/debug/kprobes-optimization kprobes/list`, Shows: `^1\n(.*\n)*.*\[OPTIMIZED\]`,
		Look: `1 for the sysctl, and [OPTIMIZED] for the probe.`,
	},
	{
		Chapter: chapterSysctl, Name: "forbidden", Title: "Forbidden",
		Says: `Writing 0 makes every jump a breakpoint again, before the write returns. The switch is for measuring, and for finding out whether the optimization is to blame for something.`,
		Do:   `echo 0 > sys/debug/kprobes-optimization`,
		See:  `cat sys/debug/kprobes-optimization kprobes/list; grep '^[*]' machine/text/vfs_read`, Shows: `^0\n(.*\n)*\* .* cc .*int3`,
		Look: `The flag is gone, and the text has int3 where the jump was.`,
	},
	{
		Chapter: chapterSysctl, Name: "again", Title: "Allowed again",
		Says: `The probe gets its jump back after the usual delay, and no hit is lost meanwhile. As a breakpoint it works as well, only slower.`,
		Do:   `echo 1 > sys/debug/kprobes-optimization`,
		See:  `cat kprobes/list; grep history machine/probes/INSIDEHEX | tail -n4`, Shows: `(?s)\[OPTIMIZED\].*queued for its jump.*the jump is written`,
		Look: `The history says what the switch has done to this address.`,
	},
	{
		Chapter: chapterEvents, Name: "arguments", Title: "What an event fetches",
		Says: `A definition can name what to record at a hit: registers (%di), arguments of a function ($arg1), the return value ($retval), memory at a symbol or at a register plus an offset, and each with a type. ustring reads a string of user space.`,
		Do:   `echo 'p:tour/open do_sys_openat2 dfd=$arg1:s32 file=+0($arg2):ustring' >> tracing/kprobe_events; echo 1 > tracing/events/tour/open/enable; cat kprobes/list > /dev/null`,
		See:  `grep open: tracing/trace | tail -n3`, Shows: `open: \(do_sys_openat2\+0x.*\) dfd=-100 file="`,
		Look: `The name of each file that a task of this kernel opens. -100 is AT_FDCWD, the current directory.`,
	},
	{
		Chapter: chapterEvents, Name: "format", Title: "The fields of an event",
		Says: `Each event has a directory in tracing/events, with the switch, a filter, triggers, and the number of the event. The file format describes an entry in the ring buffer, by which perf and others read it in binary.`,
		See:  `ls tracing/events/tour/open; grep -e dfd -e file tracing/events/tour/open/format`, Shows: `(?s)enable\nfilter\n.*field:s32 dfd;.*field:__data_loc char\[\] file;`,
		Look: `dfd is a number of four bytes; file is a string of any length, of which the entry has offset and length.`,
	},
	{
		Chapter: chapterEvents, Name: "filter", Title: "A filter",
		Says: `A filter is an expression on these fields. It is checked at the hit, before anything is kept in the buffer.`,
		Do:   `echo 'file ~ "*enabled"' > tracing/events/tour/open/filter; cat kprobes/enabled kprobes/list > /dev/null`,
		See:  `grep open: tracing/trace | tail -n1`, Shows: `file=".*enabled"\n$`,
		Look: `The last entry belongs to kprobes/enabled. kprobes/list was opened after it, and so were the files that grep needs, but the filter kept them out.`,
	},
	{
		Chapter: chapterEvents, Name: "remove", Title: "Removing events",
		Says: `A line that begins with -: removes an event, and an empty write to kprobe_events removes all. An event that is enabled is busy, and the write fails; so it is disabled first.`,
		Do:   `echo 0 > tracing/events/tour/enable; echo '-:tour/open' >> tracing/kprobe_events`,
		See:  `grep -c tour/ tracing/kprobe_events; grep -c do_sys_openat2 kprobes/list`, Shows: `^0\n0\n`,
		Look: `The event is gone, and with it the probe. This is also what the lesson does at its end with what is left of it.`,
	},
}
