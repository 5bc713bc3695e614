package sysfs

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// eventFormats say which bits of an event's config mean what, by device: /sys/bus/event_source.
var eventFormats = map[string]map[string]string{
	"kprobe": {"retprobe": "config:0"},
	"uprobe": {"retprobe": "config:0", "ref_ctr_offset": "config:32-63"},
}

// Bus is the directory /sys/bus. types are perf_event_open(2)'s, by device.
func Bus(types map[string]uint32) *seqfile.Row {
	devices := seqfile.Table{}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		formats := seqfile.Table{}
		for _, format := range slices.Sorted(maps.Keys(eventFormats[name])) {
			formats = append(formats, attr(format, eventFormats[name][format]+"\n"))
		}
		devices = append(devices, directory(name,
			directory("format", formats...), attr("type", fmt.Sprintf("%d\n", types[name])),
			&seqfile.Row{Name: "subsystem", Mode: 0o777, Link: "../../../event_source"}))
	}
	bus := directory("bus", directory("event_source", directory("devices", devices...)))
	bus.Kind = seqfile.Sysfs
	return bus
}

func directory(name string, rows ...*seqfile.Row) *seqfile.Row {
	return &seqfile.Row{Name: name, Mode: 0o755, Dir: seqfile.Table(rows)}
}
