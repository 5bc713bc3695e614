package integration

import (
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mappable reports whether rings can be mapped below exec: the host has SECCOMP_ADDFD_FLAG_SETFD, of Linux 5.9.
func Mappable() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	major, rest, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), ".")
	m, _ := strconv.Atoi(major)
	minor, _ := strconv.Atoi(regexp.MustCompile(`^\d*`).FindString(rest))
	return m > 5 || m == 5 && minor >= 9
}
