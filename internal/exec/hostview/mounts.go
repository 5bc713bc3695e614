package hostview

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// The file systems of Linux that files of ours are in, by their names in /proc/filesystems.
const (
	TraceFS = "tracefs"
	DebugFS = "debugfs"
	ProcFS  = "proc"
	SysFS   = "sysfs"
	BPFFS   = "bpf"
	devFS   = "devtmpfs"
)

// Magics are their numbers in struct statfs.
var Magics = map[string]uint32{
	TraceFS: unix.TRACEFS_MAGIC, DebugFS: unix.DEBUGFS_MAGIC, ProcFS: unix.PROC_SUPER_MAGIC,
	SysFS: unix.SYSFS_MAGIC, BPFFS: unix.BPF_FS_MAGIC, devFS: unix.TMPFS_MAGIC,
}

// FuseType is the type of our mounts on the host.
const FuseType = "fuse.kprobefs"

// treeSource is the source of a mount of the whole tree; the source of a mount of a part is the
// file system's name.
const treeSource = "kprobefs"

// Mount is a line of /proc/PID/mountinfo.
type Mount struct {
	Line                           string
	ID, Parent                     uint64
	Root, Point                    string // escaped: a blank is \040
	Options, Optional, Kind, super string
	source                         string
}

// parseMount parses a line of mountinfo. It returns false if it is not one.
func parseMount(line string) (m Mount, ok bool) {
	head, tail, _ := strings.Cut(line, " - ")
	f, g := strings.Fields(head), strings.Fields(tail)
	if len(f) < 6 || len(g) < 3 {
		return m, false
	}
	id, err := strconv.ParseUint(f[0], 10, 64)
	parent, perr := strconv.ParseUint(f[1], 10, 64)
	return Mount{line, id, parent, f[3], f[4], f[5], strings.Join(f[6:], " "), g[0], strings.Join(g[2:], " "), g[1]}, err == nil && perr == nil
}

// Unescape returns a path of mountinfo as it is.
func Unescape(p string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(p)
}

// Escape returns a path as mountinfo shows it.
func Escape(p string) string {
	return strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(p)
}

// File says which file system of Linux a file is in whose path below the mount point is
// rel, and its path there. It returns "" if the mount is not one of ours, or the file not
// one of Linux.
func (m *Mount) File(rel string) (name, inner string) {
	if m.Kind != FuseType {
		return "", ""
	}
	at := path.Join("/", Unescape(m.Root), rel)
	switch m.source {
	case TraceFS:
		return TraceFS, at
	case DebugFS:
	case treeSource:
		if rest, ok := cutDir(at, "/tracing"); ok {
			return TraceFS, rest
		}
		if rest, ok := cutDir(at, "/"+BPFFS); ok {
			return BPFFS, rest
		}
		rest, ok := cutDir(at, "/debugfs")
		if !ok && Below(at, []string{"/kprobes"}) {
			rest, ok = at, true
		}
		if !ok {
			return m.bound(at), at
		}
		at = rest
	default:
		return "", ""
	}
	if rest, ok := cutDir(at, "/tracing"); ok {
		return TraceFS, rest
	}
	return DebugFS, at
}

// bound returns the file system that a file of the tree is mounted over, or stands for.
func (m *Mount) bound(at string) string {
	point := ""
	if m.Root != "/" {
		point = Unescape(m.Point)
	}
	switch {
	case Below(point, []string{"/proc"}):
		return ProcFS
	case Below(point, []string{"/sys"}): // in the tree that is /proc/sys, too
		return SysFS
	case Below(point, []string{"/dev"}), Below(at, []string{"/dev"}):
		return devFS
	case Below(at, []string{"/proc"}):
		return ProcFS
	}
	return ""
}

// cutDir returns the path below a directory.
func cutDir(at, dir string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(at, dir)
	return path.Join("/", rest), ok && (rest == "" || rest[0] == '/')
}

// Mounts returns the mounts that a thread sees.
func Mounts(tid int) ([]Mount, error) {
	text, err := os.ReadFile(proc.Path(tid, "mountinfo"))
	if err != nil {
		return nil, err
	}
	var all []Mount
	for line := range strings.Lines(string(text)) {
		if m, ok := parseMount(strings.TrimSuffix(line, "\n")); ok {
			all = append(all, m)
		}
	}
	return all, nil
}

// FileSystem says which file system of Linux a file is in that this process has opened,
// and its path there.
func FileSystem(fd int, mounts []Mount) (name, inner string) {
	m, inner := MountOf(fd, mounts)
	if m == nil {
		return "", ""
	}
	return m.File(inner)
}

// MountOf returns the mount of a file that this process has opened, or nil, and the
// file's path below the mount point.
func MountOf(fd int, mounts []Mount) (m *Mount, inner string) {
	_, _, id := Fdinfo(os.Getpid(), fd)
	at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return nil, ""
	}
	for i := range mounts {
		if mounts[i].ID == id {
			return &mounts[i], strings.TrimPrefix(at, Unescape(mounts[i].Point))
		}
	}
	return nil, ""
}

// HostFS says which of the file systems of magics the host has at a path, or "".
func HostFS(at string) string {
	for _, f := range []struct{ dir, name string }{{ProcDir, ProcFS}, {SysDir, SysFS}, {"/dev", devFS}} {
		if Below(at, []string{f.dir}) {
			return f.name
		}
	}
	return ""
}

// MountList says of which thread and which of the lists a path is, or "". self is a
// thread's own process.
func MountList(tid int, at string) (of int, list string) {
	if at == "/etc/mtab" {
		target, err := os.Readlink(at)
		if err != nil {
			return 0, ""
		}
		at = target
		if !filepath.IsAbs(at) {
			at = filepath.Join("/etc", at)
		}
	}
	parts := strings.Split(strings.TrimPrefix(at, ProcDir+"/"), "/")
	list = parts[len(parts)-1]
	switch {
	case !strings.HasPrefix(at, ProcDir+"/") || list != "mounts" && list != "mountinfo" && list != "mountstats":
		return 0, ""
	case len(parts) == 1 && list == "mounts", len(parts) == 2 && (parts[0] == "self" || parts[0] == "thread-self"):
		return tid, list
	case len(parts) == 2, len(parts) == 4 && parts[1] == "task":
		of, err := strconv.Atoi(parts[len(parts)-2])
		if err != nil || !SameSpace(tid, "pid") {
			return 0, ""
		}
		return of, list
	}
	return 0, ""
}

// MayRead reports whether a thread may read such files of another one.
func MayRead(tid, of int) bool {
	uid := FSID(tid, "Uid")
	return tid == of || uid == 0 || uid == FSID(of, "Uid")
}

// Fdinfo returns the position, the flags and the mount of an open file.
func Fdinfo(tid, fd int) (pos int64, flags, mount uint64) {
	pos, flags, mount = fdinfo(tid, fd)
	return pos, flags &^ unix.O_CLOEXEC, mount
}

// CloseOnExec returns O_CLOEXEC if a descriptor of a thread is closed by execve(2), or 0.
func CloseOnExec(tid, fd int) uint32 {
	_, flags, _ := fdinfo(tid, fd)
	return uint32(flags) & unix.O_CLOEXEC
}

// fdinfo is Fdinfo with O_CLOEXEC.
func fdinfo(tid, fd int) (pos int64, flags, mount uint64) {
	in, err := unix.Open(proc.Path(tid, "fdinfo/"+strconv.Itoa(fd)), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, 0
	}
	defer unix.Close(in)
	var b [512]byte
	n, _ := unix.Read(in, b[:])
	for line := range bytes.Lines(b[:max(n, 0)]) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
		text := string(bytes.TrimSpace(value))
		switch string(name) {
		case "pos":
			pos, _ = strconv.ParseInt(text, 10, 64)
		case "flags":
			flags, _ = strconv.ParseUint(text, 8, 64)
		case "mnt_id":
			mount, _ = strconv.ParseUint(text, 10, 64)
		}
	}
	return pos, flags, mount
}

// The paths of the files on Linux.
const (
	DebugfsDir = "/sys/kernel/debug"
	TracefsDir = "/sys/kernel/tracing"
	BPFFSDir   = "/sys/fs/bpf"
)

// ProcDir is the directory that cannot be covered.
const ProcDir = "/proc"

// SysDir is where sysfs is.
const SysDir = "/sys"
