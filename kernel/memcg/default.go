package memcg

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// defaultMost is the most that a limit is which nobody has asked for.
const defaultMost = 1 << 30

// Default is half of what the cgroup allows, or of the RAM where that is less, but not
// more than a GiB.
func Default() int64 {
	allowed := min(cgroupMax("/proc/self/cgroup", "/sys/fs/cgroup"), ram("/proc/meminfo"))
	return max(min(allowed/2, defaultMost), Minimum)
}

// cgroupMax is the least of the limits of the process' cgroup and those above it, of
// either version.
func cgroupMax(self, root string) int64 {
	least := int64(math.MaxInt64)
	f, err := os.Open(self)
	if err != nil {
		return least
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.SplitN(lines.Text(), ":", 3)
		if len(fields) < 3 {
			continue
		}
		dir, file := root, "memory.max"
		switch {
		case fields[1] == "memory":
			dir, file = path.Join(root, "memory"), "memory.limit_in_bytes"
		case fields[1] != "":
			continue
		}
		for at := path.Clean("/" + fields[2]); ; at = path.Dir(at) {
			if b, err := os.ReadFile(path.Join(dir, at, file)); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil { // not "max"
					least = min(least, n)
				}
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}

// ram is MemTotal.
func ram(meminfo string) int64 {
	b, err := os.ReadFile(meminfo)
	var kb int64
	if _, serr := fmt.Sscanf(string(b), "MemTotal: %d kB", &kb); err != nil || serr != nil {
		return math.MaxInt64
	}
	return kb << 10
}

// Parse reads a size in bytes, or with K, M or G behind the number in KiB, MiB or GiB.
// EINVAL: it is none, or less than Minimum.
func Parse(s string) (int64, error) {
	shift := 0
	digits := s
	if n := len(s) - 1; n > 0 {
		if i := strings.IndexByte("KMG", s[n]&^0x20); i >= 0 {
			digits, shift = s[:n], 10*(i+1)
		}
	}
	v, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil || v < 0 || v > math.MaxInt64>>shift:
		return 0, fmt.Errorf("%q is no size: a number of bytes, or one with K, M or G behind it: %w", s, syscall.EINVAL)
	case v<<shift < Minimum:
		return 0, fmt.Errorf("%s is too little: at least %dM are needed: %w", s, Minimum>>20, syscall.EINVAL)
	}
	return v << shift, nil
}
