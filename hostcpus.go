package kprobefs

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// perfCPUs returns the numbers of the host's CPUs that stand for the vCPUs.
func perfCPUs(vcpus int) []int {
	text, _ := os.ReadFile("/sys/devices/system/cpu/online")
	online := parseCPUList(strings.TrimSpace(string(text)))
	cpus := make([]int, vcpus)
	for i := range cpus {
		cpus[i] = i
		if len(online) > 0 {
			cpus[i] = online[i%len(online)]
		}
	}
	return cpus
}

// parseCPUList parses "0-3,8". Of what is wrong it returns what stands before it.
func parseCPUList(text string) (cpus []int) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to := from
		if ranged && err == nil {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 0 || to > 1<<16 {
			return cpus
		}
		for ; from <= to; from++ {
			cpus = append(cpus, from)
		}
	}
	return cpus
}

// perfClock reads a clock of the host.
func perfClock(id int32) int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(id, &t)
	return t.Nano()
}

// possibleCPUs returns how many CPUs programs take to be possible, as sysfs tells them.
func possibleCPUs() int {
	text, _ := os.ReadFile("/sys/devices/system/cpu/possible")
	return len(parseCPUList(strings.TrimSpace(string(text))))
}
