// Command records writes the structures of events' records, kernel/guest/kernel/trace/records-RELEASE.h, which
// BPF programs read by CO-RE: struct trace_event_raw_CLASS has the fields of the format files that
// kprobes/tracing/formats-RELEASE.txt has recorded. It is run from the module's root, and by "make guest".
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/release"
)

// releases are those whose guests have BTF.
var releases = release.RecordedNames(func(d release.Debian) bool { return d.Types })

// classes has the class of each event that shares one with others (DECLARE_EVENT_CLASS): names in Linux's BTF.
var classes = map[string]string{
	"net:net_dev_queue":                      "net_dev_template",
	"net:netif_receive_skb":                  "net_dev_template",
	"net:netif_rx":                           "net_dev_template",
	"tcp:tcp_retransmit_skb":                 "tcp_event_sk_skb",
	"block:block_touch_buffer":               "block_buffer",
	"block:block_dirty_buffer":               "block_buffer",
	"block:block_rq_complete":                "block_rq_completion",
	"block:block_rq_insert":                  "block_rq",
	"block:block_rq_issue":                   "block_rq",
	"block:block_bio_backmerge":              "block_bio",
	"block:block_bio_queue":                  "block_bio",
	"block:block_getrq":                      "block_bio",
	"writeback:writeback_start":              "writeback_work_class",
	"writeback:writeback_written":            "writeback_work_class",
	"power:cpu_idle":                         "cpu",
	"power:cpu_frequency":                    "cpu",
	"timer:timer_init":                       "timer_class",
	"timer:timer_expire_exit":                "timer_class",
	"timer:timer_cancel":                     "timer_class",
	"timer:hrtimer_expire_exit":              "hrtimer_class",
	"timer:hrtimer_cancel":                   "hrtimer_class",
	"sched:sched_waking":                     "sched_wakeup_template",
	"sched:sched_wakeup":                     "sched_wakeup_template",
	"sched:sched_wakeup_new":                 "sched_wakeup_template",
	"sched:sched_process_free":               "sched_process_template",
	"sched:sched_process_exit":               "sched_process_template",
	"sched:sched_wait_task":                  "sched_process_template",
	"sched:sched_stat_wait":                  "sched_stat_template",
	"sched:sched_stat_sleep":                 "sched_stat_template",
	"sched:sched_stat_iowait":                "sched_stat_template",
	"sched:sched_stat_blocked":               "sched_stat_template",
	"irq:softirq_entry":                      "softirq",
	"irq:softirq_exit":                       "softirq",
	"irq:softirq_raise":                      "softirq",
	"exceptions:page_fault_user":             "x86_exceptions",
	"exceptions:page_fault_kernel":           "x86_exceptions",
	"irq_vectors:local_timer_entry":          "x86_irq_vector",
	"irq_vectors:local_timer_exit":           "x86_irq_vector",
	"irq_vectors:reschedule_entry":           "x86_irq_vector",
	"irq_vectors:reschedule_exit":            "x86_irq_vector",
	"irq_vectors:call_function_single_entry": "x86_irq_vector",
	"irq_vectors:call_function_single_exit":  "x86_irq_vector",
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "records:", err)
		os.Exit(1)
	}
}

func run() error {
	for _, release := range releases {
		text, err := header(".", release)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path(".", release), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func path(root, release string) string {
	return filepath.Join(root, "kernel", "guest", "kernel", "trace", "records-"+release+".h")
}

var (
	event = regexp.MustCompile(`^(\w+):(\w+) \d+$`)
	field = regexp.MustCompile(`^\tfield:(.*);\toffset:(\d+);\tsize:(\d+);`)
	last  = regexp.MustCompile(`\w+(\[\d+\])?$`) // the name in a declaration
)

// header returns the header of a release, of the module in a folder.
func header(root, release string) ([]byte, error) {
	formats, err := os.ReadFile(filepath.Join(root, "kprobes", "tracing", "formats-"+release+".txt"))
	if err != nil {
		return nil, err
	}
	var b, asserts bytes.Buffer
	fmt.Fprintf(&b, "/* Written by internal/tools/records from kprobes/tracing/formats-%s.txt. */\n", release)
	done := map[string]bool{}
	open := "" // the structure that is being written
	end := func() {
		if open != "" {
			b.WriteString("\tchar __data[];\n};\n")
		}
		open = ""
	}
	for line := range strings.Lines(string(formats)) {
		line = strings.TrimRight(line, "\n")
		if m := event.FindStringSubmatch(line); m != nil {
			end()
			class := m[2]
			if shared, ok := classes[m[1]+":"+m[2]]; ok {
				class = shared
			}
			// The records of system calls and of the tracers themselves have other structures.
			if m[1] == "syscalls" || m[1] == "ftrace" || done[class] {
				continue
			}
			done[class], open = true, "trace_event_raw_"+class
			fmt.Fprintf(&b, "\nstruct %s {\n\tstruct trace_entry ent;\n", open)
			continue
		}
		m := field.FindStringSubmatch(line)
		if m == nil || open == "" {
			continue
		}
		name, text := member(m[1])
		fmt.Fprintf(&b, "\t%s;\n", text)
		fmt.Fprintf(&asserts, "TRACE_FIELD(%s, %s, %s, %s)\n", open, name, m[2], m[3])
	}
	end()
	b.WriteString("\n")
	asserts.WriteTo(&b)
	return b.Bytes(), nil
}

// member returns the name of a field's member, and its declaration.
func member(decl string) (name, text string) {
	for _, kind := range []string{"__data_loc", "__rel_loc"} {
		if rest, is := strings.CutPrefix(decl, kind+" "); is {
			name = kind + "_" + rest[strings.LastIndex(rest, " ")+1:]
			return name, "u32 " + name
		}
	}
	name, _, _ = strings.Cut(last.FindString(decl), "[")
	return name, decl
}
