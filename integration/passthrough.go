package integration

import (
	"os"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Passthrough reports whether FUSE files can be mapped.
func Passthrough() bool {
	var u unix.Utsname
	if os.Geteuid() != 0 || unix.Uname(&u) != nil {
		return false
	}
	major, rest, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), ".")
	m, _ := strconv.Atoi(major)
	minor, _ := strconv.Atoi(regexp.MustCompile(`^\d*`).FindString(rest))
	return m > 6 || m == 6 && minor >= 9
}
