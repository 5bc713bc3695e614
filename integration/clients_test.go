package integration

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// copyVar tells the test binary that it runs inside "kprobefs exec" as a client
// that copies a file with io.Copy, which tries copy_file_range(2), splice(2) and
// sendfile(2).
const copyVar = "KPROBEFS_INTEGRATION_COPY"

// copyFile is that client.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = io.Copy(out, in)
	return err
}

// clients are commands that copy "$1" to "$2". needs is the program that must be
// installed.
var clients = []struct{ name, needs, script string }{
	{"busybox cat (sendfile)", "busybox", `busybox cat "$1" > "$2"`},
	{"busybox cp (sendfile)", "busybox", `busybox cp "$1" "$2"`},
	{"busybox cat to a pipe", "busybox", `busybox cat "$1" | busybox cat > "$2"`},
	{"cat (copy_file_range)", "cat", `cat "$1" > "$2"`},
	{"cp (copy_file_range, SEEK_DATA)", "cp", `cp "$1" "$2"`},
	{"dd of single bytes", "dd", `head -c 300 "$1" > "$2.head"; dd if="$1" bs=1 count=300 2>/dev/null | cmp - "$2.head" && cat "$1" > "$2"`},
	{"tail (fstat, lseek)", "tail", `tail -n +1 "$1" > "$2"`},
	{"shutil.copyfile (sendfile)", "python3", `python3 -c 'import shutil,sys; shutil.copyfile(*sys.argv[1:])' "$1" "$2"`},
	{"os.splice", "python3", `python3 -c '
import os, sys
r, w = os.pipe()
f = os.open(sys.argv[1], os.O_RDONLY)
try:
    os.splice(f, w, 10)
except OSError:
    pass # EINVAL, as on debugfs
open(sys.argv[2], "wb").write(os.pread(f, 1, 0) + open(f, "rb").read()[1:])' "$1" "$2"`},
	{"mmap, or else read", "python3", `python3 -c '
import mmap, sys
f = open(sys.argv[1], "rb")
try:
    data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)[:]
except (OSError, ValueError):
    data = f.read()
open(sys.argv[2], "wb").write(data)' "$1" "$2"`},
	{"fstat, then read", "python3", `python3 -c '
import os, sys
f = open(sys.argv[1], "rb")
assert os.fstat(f.fileno()).st_size == 0
open(sys.argv[2], "wb").write(f.read())' "$1" "$2"`},
	{"perl", "perl", `perl -0777 -pe1 "$1" > "$2"`},
	{"uutils cat (splice)", "uu-cat", `uu-cat "$1" > "$2"`},
	{"io.Copy", "sh", copyVar + `=1 "$TESTBIN" "$1" "$2"`},
}

// TestClients has each client copy files of size 0, and compares with what read(2)
// returns.
func TestClients(t *testing.T) {
	needFUSE(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.needs); err != nil {
				t.Skipf("%s is missing", c.needs)
			}
			dir := publicDir(t)
			put(t, dir, "client", c.script)
			script := `for f in /sys/kernel/debug/kprobes/blacklist /sys/kernel/tracing/README /proc/kallsyms; do
	name=${f##*/}
	[ -s $f ] && echo $f has a size
	dd if=$f bs=4096 of=want-$name status=none
	sh ./client $f got-$name || echo status $?
	[ -s $f ] && echo $f has a size now
done`
			out, status := asUser(nil).kprobefs(t, dir, []string{"TESTBIN=" + self}, 1, "sh", "-c", script)
			if status > 1 || out != "" {
				t.Errorf("status %d: %s", status, out)
			}
			for _, name := range []string{"blacklist", "README", "kallsyms"} {
				if err := sameFiles(filepath.Join(dir, "want-"+name), filepath.Join(dir, "got-"+name)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// sameFiles compares a copy with what read(2) returned, which must not be empty.
func sameFiles(want, got string) error {
	a, err := os.ReadFile(want)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(got)
	if err != nil {
		return err
	}
	if len(a) < 1000 || !bytes.Equal(a, b) {
		return fmt.Errorf("%s: %d bytes, of %d", got, len(b), len(a))
	}
	return nil
}
