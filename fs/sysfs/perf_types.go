package sysfs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The devices of /sys/bus/event_source whose events make a probe of their own.
const (
	KprobePMU = "kprobe"
	UprobePMU = "uprobe"
)

// EventSources is where Linux shows the types of perf_event_open(2) by name.
const EventSources = "/sys/bus/event_source/devices"

// PerfTypes returns the types of KprobePMU and UprobePMU. Linux 6.1 gives them 6 and 7. A number
// that the host has given to another device (host: HostPerfTypes) is left to that.
func PerfTypes(host map[uint32]bool) map[string]uint32 {
	kprobe := uint32(6)
	for host[kprobe] {
		kprobe++
	}
	uprobe := max(7, kprobe+1)
	for host[uprobe] {
		uprobe++
	}
	return map[string]uint32{KprobePMU: kprobe, UprobePMU: uprobe}
}

// HostPerfTypes returns the types of perf_event_open(2) of the host's devices, which a directory
// like EventSources shows, but for KprobePMU and UprobePMU.
func HostPerfTypes(dir string) map[uint32]bool {
	types := map[uint32]bool{}
	files, _ := filepath.Glob(dir + "/*/type")
	for _, file := range files {
		if name := filepath.Base(filepath.Dir(file)); name == KprobePMU || name == UprobePMU {
			continue
		}
		text, _ := os.ReadFile(file)
		if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32); err == nil {
			types[uint32(n)] = true
		}
	}
	return types
}
