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

// defaultMost is the highest default limit.
const defaultMost = 1 << 30

// Default returns the default limit in bytes: half of the cgroup's limit or of the
// RAM, whichever is less, but at most 1 GiB.
func Default() int64 {
	allowed := min(cgroupMax("/proc/self/cgroup", "/sys/fs/cgroup"), ram("/proc/meminfo"))
	return max(min(allowed/2, defaultMost), Minimum)
}

// cgroupMax returns the lowest limit of the process's cgroup and its ancestors, for
// cgroup v1 and v2.
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

// ram returns MemTotal of /proc/meminfo in bytes.
func ram(meminfo string) int64 {
	b, err := os.ReadFile(meminfo)
	var kb int64
	if _, serr := fmt.Sscanf(string(b), "MemTotal: %d kB", &kb); err != nil || serr != nil {
		return math.MaxInt64
	}
	return kb << 10
}

// Parse parses a size in bytes, or in KiB, MiB or GiB with the suffix K, M or G. It
// returns EINVAL if s is not a size or is less than Minimum.
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
		return 0, fmt.Errorf("%q is not a size (a number of bytes, or a number with K, M or G): %w", s, syscall.EINVAL)
	case v<<shift < Minimum:
		return 0, fmt.Errorf("%s is too small, at least %dM are needed: %w", s, Minimum>>20, syscall.EINVAL)
	}
	return v << shift, nil
}
