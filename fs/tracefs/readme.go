package tracefs

import (
	"strings"

	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
)

// Replacements in readme: readmeBTF for kernels that know the arguments of functions,
// readmeFprobes for fprobes, readmeNoHitcount for histograms that can hide hitcount,
// readmeStacks for stacks as variables and members, and readmeMount for options of mount
// that are for all files.
var (
	readmeBTF = strings.NewReplacer(
		"$arg<N>,\n", "$arg<N>,\n\t           <argname>[->field[->field|.field...]],\n",
		"\t     type: s8/16/32/64, u8/16/32/64, x8/16/32/64, string,", "\t     kernel return probes support: $retval, $arg<N>, $comm\n"+
			"\t     type: s8/16/32/64, u8/16/32/64, x8/16/32/64, char, string,",
		"symstr, <type>", "symstr, %pd/%pD, <type>")
	readmeFprobes = strings.NewReplacer("\t           r[maxactive][:[<group>/][<event>]] <place> [<args>]\n",
		"\t           r[maxactive][:[<group>/][<event>]] <place> [<args>]\n"+
			"\t           f[:[<group>/][<event>]] <func-name>[%return] [<args>]\n"+
			"\t           t[:[<group>/][<event>]] <tracepoint> [<args>]\n")
	readmeTouched = strings.NewReplacer("  set_ftrace_filter	-",
		"  touched_functions	- those, and the ones that somebody has listened to\n  set_ftrace_filter	-")
	readmeNoHitcount = strings.NewReplacer("[:name=histname1]\n", "[:name=histname1]\n\t            [:nohitcount]\n")
	readmeStacks     = strings.NewReplacer(
		"hist:keys=<field1[,field2,...]>\n", "hist:keys=<field1[,field2,...]>, where a field can be any field, or the special string 'common_stacktrace'\n",
		"char name[]'", "char name[]; long[] stack'",
		".usecs .percent .graph", ".usecs .percent .graph .stacktrace")
	readmeMount = strings.NewReplacer("\n\n  tracing_on", "\n\n  mount -t tracefs [-o [gid=<gid>]] nodev /sys/kernel/tracing\n\t\t\t- the group is that of all files\n\n  tracing_on")
)

// readmeOf returns the text of the file README of a release, adapted to what the
// release has.
func readmeOf(t *tracing.Tracer) string {
	var out []string
	add := func(has bool, old, other string) {
		if !has {
			out = append(out, old, other)
		}
	}
	add(t.Has(release.HistTriggers), readmeHist, "")
	add(t.Has(release.HistTriggers), readmeSynth, "")
	add(t.Has(release.HistTriggers), readmeField, "")
	add(t.Has(release.HistTriggers), "      hist\t\t- the tables that its hist triggers fill\n", "")
	add(t.Has(release.HistTriggers), "\t           s:[synthetic/]<event> <field> [<field>]\n", "")
	add(t.Has(release.Eprobes), "\t           e[:[<group>/][<event>]] <attached-group>.<attached-event> [<args>] [if <filter>]\n", "")
	add(t.Has(release.Eprobes), "\t    efield: a field of the event that an event probe is attached to\n", "")
	add(t.Has(release.Eprobes), "(%<register>|$<efield>)", "%<register>")
	add(t.Has(release.GroupNames), "[<group>/][<event>]", "[<group>/]<event>")
	add(t.Has(release.Symstr), "symstr, <type>", "<type>")
	text := strings.NewReplacer(out...).Replace(readme)
	if t.HasBTF() {
		text = readmeBTF.Replace(text)
	}
	if t.Has(release.Fprobes) {
		text = readmeFprobes.Replace(text)
	}
	if t.Has(release.TouchedFunctions) {
		text = readmeTouched.Replace(text)
	}
	if t.Has(release.NoHitcount) {
		text = readmeNoHitcount.Replace(text)
	}
	if t.Has(release.CommonStacktrace) {
		text = readmeStacks.Replace(text)
	}
	if t.Has(release.MountOwner) {
		text = readmeMount.Replace(text)
	}
	return text
}

// readme is the text of the file README. Its grammar is Linux's, which tools look for;
// features that do not exist here are left out.
const readme = `tracing: what the files of this directory do

  tracing_on		- 0 stops the recording of events, any other number goes on
  trace			- the recorded events as text; reading takes nothing away.
			  Empty it with: echo > trace
  trace_pipe		- the same, but reading takes the events out of the buffer and
			  waits for more
  current_tracer	- the tracer; nop is none, function records each function that
			  is entered
  available_tracers	- the names that current_tracer takes
  error_log		- what was wrong with the last commands that failed
  buffer_size_kb	- room for events on each CPU
  buffer_total_size_kb  - room on all CPUs together
  buffer_percent	- how full a CPU's buffer is before poll of its files says so
  free_buffer		- closing it shrinks the buffer
  saved_cmdlines	- names of tasks that hit events, by pid
  saved_cmdlines_size	- room for names
  saved_tgids		- the processes of tasks, with the option record-tgid

  trace_clock		- what the times of events are taken from
       local:   nanoseconds since boot
      global:   the same, in one order on all CPUs
     counter:   1, 2, 3, ...
      uptime:   hundredths of a second since boot
        perf:   as local
     x86-tsc:   the time-stamp counter

  timestamp_mode	- view the mode used to timestamp events
       delta:   Delta difference against a buffer-wide timestamp

  trace_marker		- Writes into this file writes into the kernel buffer

  trace_marker_raw		- Writes into this file writes binary data into the kernel buffer
  tracing_cpumask	- Limit which CPUs to trace
  instances		- Make sub-buffers with: mkdir instances/foo
			  Remove sub-buffer with rmdir
  trace_options		- Set format or modify how tracing happens
			  Disable an option by prefixing 'no' to the
			  option name
  options/		- a file for each of them: 0 or 1
  per_cpu/		- trace, trace_pipe, stats and the like of each CPU, and
			  trace_pipe_raw: pages of entries in the kernel's binary format
  snapshot		- Like 'trace' but shows the content of the static
			  snapshot buffer. Read the contents for more
			  information

  dynamic_events	- Create/append/remove/show the generic dynamic events
  kprobe_events		- Create/append/remove/show the kernel dynamic events
	  accepts: event-definitions (one definition per line)
	   Format: p[:[<group>/][<event>]] <place> [<args>]
	           r[maxactive][:[<group>/][<event>]] <place> [<args>]
	           s:[synthetic/]<event> <field> [<field>]
	           e[:[<group>/][<event>]] <attached-group>.<attached-event> [<args>] [if <filter>]
	           -:[<group>/][<event>]
	    place: [<module>:]<symbol>[+<offset>]|<memaddr>
place (kretprobe): [<module>:]<symbol>[+<offset>]%return|<memaddr>
   place (uprobe): <path>:<offset>[%return][(ref_ctr_offset)]
	     args: <name>=fetcharg[:type]
	 fetcharg: (%<register>|$<efield>), @<address>, @<symbol>[+|-<offset>],
	           $stack<index>, $stack, $retval, $comm, $arg<N>,
	           +|-[u]<offset>(<fetcharg>), \imm-value, \"imm-string"
	     type: s8/16/32/64, u8/16/32/64, x8/16/32/64, string, symbol,
	           b<bit-width>@<bit-offset>/<container-size>, ustring,
	           symstr, <type>\[<array-size>\]
` + readmeField + `	    efield: a field of the event that an event probe is attached to
` + readmeSynth + `  uprobe_events		- definitions of probes in programs, which are listed and have
			  event directories; there are no hits of them
  kprobe_profile	- each probe with its hits and misses

  available_filter_functions - the functions that can be traced
  enabled_functions	- those that somebody listens to: how many, and what is called
  set_ftrace_filter	- the functions that the tracer function is for: names and
			  patterns, with ! in front to take them out
	    modules: [<function>]:mod:<module>, also before it is loaded
	     Format: <function>:<trigger>[:count]
	    trigger: traceon, traceoff, stacktrace, snapshot
		      dump, cpudump: what the buffer, or this CPU's, holds goes
		      to the kernel's log
		      enable_event:<system>:<event>
		      disable_event:<system>:<event>
  set_ftrace_notrace	- functions that it is not for
  set_ftrace_pid	- tasks that it is for
  set_ftrace_notrace_pid - tasks that it is not for
  set_graph_function	- the functions whose nested calls function_graph traces
  set_graph_notrace	- those whose nested calls it does not trace
  max_graph_depth	- how deep it traces nested calls; 0 means without limit
  stack_trace		- the deepest kernel stack that was seen while
			  kernel.stack_tracer_enabled is 1
  stack_max_size	- its bytes; what is written must be exceeded
  stack_trace_filter	- the functions at which it is looked for

  available_events	- all events
  set_event		- the events that are enabled; write names to enable
			  them, with ! in front to disable
  set_event_pid		- record hits of these tasks only
  set_event_notrace_pid	- record no hits of these tasks
  events/		- a directory for each group of events:
      enable		- 0 or 1 disables or enables all events
  events/<system>/
      enable		- the same for the group
      filter		- a filter for all events of the group
  events/<system>/<event>/
      enable		- the same for the event
      filter		- only hits that pass are recorded: fields of format, CPU and
			  COMM, with == != < <= > >= & and, for names, == != ~,
			  joined by && || ! ( ). 0 removes it
      trigger		- what is to be done at a hit, one command a write; ! in
			  front takes it away
	    Format: <trigger>[:count][if <filter>]
	   trigger: traceon, traceoff, snapshot, stacktrace
	            enable_event:<system>:<event>
	            disable_event:<system>:<event>
` + readmeHist + `      hist		- the tables that its hist triggers fill
      id		- its number in the buffer
      format		- what an entry of it holds
`

// The parts of readme about histograms and synthetic events.
const (
	readmeHist = `	            enable_hist:<system>:<event>
	            disable_hist:<system>:<event>
	            hist:keys=<field1[,field2,...]>
	            [:<var1>=<field|var_ref|numeric_literal>[,<var2>=...]]
	            [:values=<field1[,field2,...]>]
	            [:sort=<field1[,field2,...]>]
	            [:size=#entries]
	            [:pause][:continue][:clear]
	            [:name=histname1]
	            [:<handler>.<action>]
	  handler: onmatch(matching.event), onmax(var), onchange(var)
	   action: trace(<synthetic_event>,param list), save(field,...), snapshot()
	 modifier: .hex .sym .sym-offset .execname .syscall .log2
	           .buckets=size .usecs .percent .graph
`
	readmeSynth = `  synthetic_events	- Create/append/remove/show synthetic events, which the trace
			  action of a hist trigger hits
	     example: echo 'myevent u64 lat; char name[]' >> synthetic_events
`
	readmeField = `	    field: <stype> <name>;
	    stype: u8/u16/u32/u64, s8/s16/s32/s64, pid_t,
	           [unsigned] char/int/long
`
)
