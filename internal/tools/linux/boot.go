package linux

import (
	"bufio"
	"bytes"
	"context"
	_ "embed" // init.sh
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed init.sh
var initScript []byte

// bootTimeout and scriptTimeout limit the time of a boot with its scripts.
const (
	bootTimeout   = 2 * time.Minute
	scriptTimeout = 15 * time.Second
)

// Script is one shell script for busybox sh.
type Script struct {
	Name, Text string
	Files      map[string][]byte // executable files beside it, by path
	Host       []string          // files and folders of this machine that it finds in the same places
	Limit      time.Duration     // time limit, 0 for three minutes
	Disk       bool              // it finds an empty disk of 4 MB as /dev/vda, as others of the same boot do
}

func (s Script) limit() time.Duration {
	if s.Limit == 0 {
		return 3 * time.Minute
	}
	return s.Limit
}

// Result is the result of a script.
type Result struct {
	Name   string
	Output string // standard output and error, as one pipe
	Status int    // exit status; 137 after the limit
	Left   string // changes that the script left in the kernel's files, as diff prints them
}

// Run boots the kernel and runs the scripts in order. lib is stored beside each
// script as lib.sh, and the given programs of this machine in /usr/bin. What is an ELF
// program, there and among a script's files, has its libraries in their places.
func (k *Kernel) Run(ctx context.Context, lib string, scripts []Script, programs ...string) ([]Result, error) {
	dir, err := os.MkdirTemp("", "kprobefs-linux")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	rd, err := initrd(lib, scripts, programs)
	if err != nil {
		return nil, err
	}
	hasDisk := func(s Script) bool { return s.Disk }
	if slices.ContainsFunc(scripts, hasDisk) {
		if err := k.addDisk(ctx, rd, filepath.Join(dir, diskFile)); err != nil {
			return nil, err
		}
	}
	archive, err := rd.cpio()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "initrd"), archive, 0o644); err != nil {
		return nil, err
	}
	timeout := bootTimeout
	for _, s := range scripts {
		timeout += scriptTimeout + s.Limit
	}
	out, bootErr := k.bootUp(ctx, dir, timeout)
	results, err := parse(out)
	if err = errors.Join(bootErr, err); err != nil {
		console, _ := os.ReadFile(filepath.Join(dir, "console"))
		return results, fmt.Errorf("%w; the console's end:\n%s", err, tail(console, 40))
	}
	return results, nil
}

func initrd(lib string, scripts []Script, programs []string) (tree, error) {
	t := tree{}
	for _, dir := range []string{"proc", "sys", "dev", "tmp", "etc"} {
		t[dir] = node{mode: dirMode}
	}
	if err := t.addBusybox(); err != nil {
		return nil, err
	}
	for _, tool := range gnuTools {
		if err := t.addHost(tool); err != nil {
			return nil, err
		}
	}
	for _, path := range programs {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := t.addFile("/usr/bin/"+filepath.Base(path), data, execMode); err != nil {
			return nil, err
		}
	}
	t.add("etc/passwd", fileMode, []byte("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"))
	t.add("etc/group", fileMode, []byte("root:x:0:\nnogroup:x:65534:\n"))
	t.add("init", execMode, initScript)
	t.add("lib.sh", fileMode, []byte(lib))
	var order strings.Builder
	for _, s := range scripts {
		t.add("scripts/"+s.Name, fileMode, []byte(s.Text))
		for path, data := range s.Files {
			if err := t.addFile("files/"+s.Name+"/"+path, data, execMode); err != nil {
				return nil, err
			}
		}
		for _, path := range s.Host {
			if err := t.addHost(path); err != nil {
				return nil, err
			}
		}
		fmt.Fprintln(&order, s.Name, int(s.limit().Seconds()))
	}
	t.add("order", fileMode, []byte(order.String()))
	return t, nil
}

// diskFile is the disk's file, in a boot's directory.
const diskFile = "disk"

// addDisk makes an empty disk, and has the initrd load what makes it /dev/vda. Linux needs not
// flush it: what is written is in the file.
func (k *Kernel) addDisk(ctx context.Context, rd tree, file string) error {
	modules, err := k.diskModules(ctx)
	if err != nil {
		return err
	}
	for i, m := range modules {
		rd.add(fmt.Sprintf("disk/%d.ko", i), fileMode, m)
	}
	return os.WriteFile(file, make([]byte, 4<<20), 0o600)
}

// boots is how often a boot is tried. On a busy machine Linux sometimes dies under
// QEMU before it runs a script.
const boots = 3

// bootUp is boot with retries. It returns what init.sh has sent.
func (k *Kernel) bootUp(ctx context.Context, dir string, timeout time.Duration) (out []byte, err error) {
	for range boots {
		err = k.boot(ctx, dir, timeout)
		var readErr error
		if out, readErr = os.ReadFile(filepath.Join(dir, "out")); len(out) > 0 || ctx.Err() != nil {
			return out, errors.Join(err, readErr)
		}
	}
	return out, err
}

// boot runs QEMU until the guest powers off. Both vCPUs run in one thread: otherwise
// QEMU 7.2 sometimes executes stale code after a text_poke, and Linux locks up.
// no_timer_check: Linux's check of the timer may fail on a busy machine.
func (k *Kernel) boot(ctx context.Context, dir string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var disk []string
	if file := filepath.Join(dir, diskFile); exists(file) {
		disk = []string{"-drive", "format=raw,if=virtio,cache=writethrough,file=" + file}
	}
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", append(disk, "-m", memory(dir), "-smp", "2", "-accel", "tcg,thread=single",
		"-display", "none", "-no-reboot", "-nic", "none", "-monitor", "none",
		"-kernel", k.Image, "-initrd", filepath.Join(dir, "initrd"),
		"-append", "console=ttyS0 nokaslr quiet panic=-1 no_timer_check",
		"-serial", "file:"+filepath.Join(dir, "console"), "-serial", "file:"+filepath.Join(dir, "out"))...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("qemu: %w\n%s", errors.Join(err, ctx.Err()), out)
	}
	return nil
}

// memory is how much memory the guest gets, in MiB: enough for twice its initrd, which lies there packed and unpacked.
func memory(dir string) string {
	const usual = 1024
	info, err := os.Stat(filepath.Join(dir, "initrd"))
	if err != nil {
		return strconv.Itoa(usual)
	}
	return strconv.FormatInt(max(usual, usual/2+2*info.Size()>>20), 10)
}

// parse parses what init.sh has sent.
func parse(out []byte) ([]Result, error) {
	r := bufio.NewReader(bytes.NewReader(out))
	var results []Result
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return results, fmt.Errorf("the kernel died after %d scripts: %w", len(results), err)
		}
		if line == "=end\n" {
			return results, nil
		}
		var kind, name string
		var status, size int
		if _, err := fmt.Sscanf(line, "=%s %s %d %d\n", &kind, &name, &status, &size); err != nil || size < 0 {
			return results, fmt.Errorf("after %d scripts Linux sent %q", len(results), line)
		}
		data, err := io.ReadAll(io.LimitReader(r, int64(size)))
		if err != nil || len(data) < size {
			return results, fmt.Errorf("the kernel died after %d scripts: %w", len(results), errors.Join(err, io.ErrUnexpectedEOF))
		}
		switch {
		case kind == "script":
			results = append(results, Result{Name: name, Output: string(data), Status: status})
		case kind == "left" && len(results) > 0:
			results[len(results)-1].Left = string(data)
		}
	}
}

// tail returns the last n lines.
func tail(b []byte, n int) string {
	lines := strings.Split(string(b), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
