package bpf

import (
	"fmt"
	"strings"
)

// linkNames are the kinds of links as fdinfo says them.
var linkNames = map[uint32]string{linkRawTracepoint: "raw_tracepoint", linkTracing: "tracing", linkIter: "iter", linkPerfEvent: "perf", linkKprobeMulti: "kprobe_multi"}

// FDInfo returns what /proc/PID/fdinfo says of the descriptor of an object: bpf_map_show_fdinfo and its kin.
func (s *System) FDInfo(object any) string {
	var b strings.Builder
	line := func(name, format string, v any) { fmt.Fprintf(&b, "%s:\t"+format+"\n", name, v) }
	switch o := object.(type) {
	case *Map:
		line("map_type", "%d", o.kind)
		line("key_size", "%d", o.key)
		line("value_size", "%d", o.value)
		line("max_entries", "%d", o.entries)
		line("map_flags", "%#x", o.flags)
		line("map_extra", "%#x", o.extra)
		line("memlock", "%d", o.memlock())
		line("map_id", "%d", o.id)
		frozen := 0
		if o.frozen.Load() {
			frozen = 1
		}
		line("frozen", "%d", frozen)
	case *Prog:
		line("prog_type", "%d", o.kind)
		line("prog_jited", "%d", 0)
		line("prog_tag", "%x", o.tag)
		line("memlock", "%d", (len(o.raw)+pageSize-1)/pageSize*pageSize)
		line("prog_id", "%d", o.id)
		line("run_time_ns", "%d", o.time.Load())
		line("run_cnt", "%d", o.ran.Load())
		line("recursion_misses", "%d", 0)
		line("verified_insns", "%d", o.verified)
	case *Link:
		s.objects.Lock()
		p := o.prog
		s.objects.Unlock()
		line("link_type", "%s", linkNames[o.kind])
		line("link_id", "%d", o.id)
		line("prog_tag", "%x", p.tag)
		line("prog_id", "%d", p.id)
		switch o.kind {
		case linkRawTracepoint:
			line("tp_name", "%s", o.name)
		case linkIter:
			line("target_name", "%s", o.name)
			if o.iter.target.attach != nil {
				line("task_type", "%s", taskTypes[o.iter.tasks])
			}
			if o.iter.tasks != allTasks {
				line(strings.ToLower(taskTypes[o.iter.tasks]), "%d", o.iter.id)
			}
		case linkTracing:
			line("attach_type", "%d", p.attachType)
			line("target_obj_id", "%d", p.targetObject())
			line("target_btf_id", "%d", p.attachID)
		}
	case *BTF:
		line("btf_id", "%d", o.id)
	}
	return b.String()
}

// memlock is how much memory the map takes, bytes: its elements on whole pages.
func (m *Map) memlock() int {
	size := (m.key + m.stride*max(m.cpus, 1)) * m.entries
	return (size + pageSize - 1) / pageSize * pageSize
}
