package anoninode

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

// number returns the value of a line of /proc/PID/fdinfo/FD.
func number(text, field string) (uint64, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			return strconv.ParseUint(strings.TrimSpace(rest), 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s: %w", field, syscall.ENOENT)
}
