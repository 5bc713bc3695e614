package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// panicStatus is the exit status of exec and mount whose kernel has panicked.
const panicStatus = 119

// daemon is a kprobefs mount in a mount namespace of its own.
type daemon struct {
	t   *testing.T
	cmd *exec.Cmd
	dir string // the mount as seen by the tests
	err *lockedBuffer
}

// lockedBuffer collects a process's output, which another goroutine reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func mountDaemon(t *testing.T, flags ...string) *daemon {
	t.Helper()
	needFUSE(t)
	if os.Getuid() != 0 {
		t.Skip("only root can see another namespace's files")
	}
	dir := t.TempDir()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	args := append([]string{"-m", filepath.Join(built, "kprobefs"), "mount", "--ready-fd", "3"}, flags...)
	d := &daemon{t: t, cmd: exec.Command("unshare", append(args, dir)...), err: &lockedBuffer{}}
	d.cmd.Stderr, d.cmd.ExtraFiles = d.err, []*os.File{w}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	_ = w.Close()
	if _, err := r.Read(make([]byte, 10)); err != nil {
		t.Fatalf("no mount: %v %s", err, d.err)
	}
	d.dir = fmt.Sprintf("/proc/%d/root%s", d.cmd.Process.Pid, dir)
	return d
}

// end ends the daemon and returns its exit status.
func (d *daemon) end() int {
	d.t.Helper()
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(20*time.Second, func() { _ = d.cmd.Process.Kill() })
	defer late.Stop()
	_ = d.cmd.Wait()
	return d.cmd.ProcessState.ExitCode()
}

// readPatience is the time allowed for a read after the panic. It is answered without
// the guest in milliseconds; the rest allows for a busy host. A read that waited for
// the guest would wait forever.
const readPatience = 20 * time.Second

// read returns a file's content, of dev/kmsg the records that exist. It takes at most
// readPatience.
func (d *daemon) read(name string) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		fd, err := syscall.Open(filepath.Join(d.dir, name), syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			done <- result{"", err}
			return
		}
		defer syscall.Close(fd)
		var text strings.Builder
		for buf := make([]byte, 65536); ; {
			n, err := syscall.Read(fd, buf)
			if n <= 0 || err != nil {
				if errors.Is(err, syscall.EAGAIN) {
					err = nil
				}
				done <- result{text.String(), err}
				return
			}
			text.Write(buf[:n])
		}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-time.After(readPatience):
		return "", fmt.Errorf("no answer in %v", readPatience)
	}
}

func (d *daemon) write(name, text string) error {
	return os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0)
}

// ticks returns the CPU time that the daemon has used, in hundredths of a second.
func (d *daemon) ticks() int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	user, _ := strconv.Atoi(f[11])
	sys, _ := strconv.Atoi(f[12])
	return user + sys
}

// midInstruction sets a probe in the middle of an instruction of the idle task, which
// 2.6.25 does not refuse. The idle task dies.
func (d *daemon) midInstruction() {
	d.t.Helper()
	text, err := d.read("machine/text/do_idle")
	m := regexp.MustCompile(`\+0x([0-9a-f]+) .*mov +%gs:`).FindStringSubmatch(text)
	if err != nil || m == nil {
		d.t.Fatalf("%v, do_idle is\n%s", err, text)
	}
	at, _ := strconv.ParseUint(m[1], 16, 64)
	if err := d.write("tracing/kprobe_events", fmt.Sprintf("p:m do_idle+%d\n", at+1)); err != nil {
		d.t.Fatal(err)
	}
	_ = d.write("tracing/events/kprobes/m/enable", "1") // EIO if the machine is dead already
}

// handlerDies makes a module's handler write to unmapped memory during a breakpoint.
func (d *daemon) handlerDies() {
	d.t.Helper()
	ko, err := os.ReadFile("../kernel/guest/modules/kprobe_oops_handler.ko")
	if err == nil {
		err = os.WriteFile(filepath.Join(d.dir, "machine/modules/kprobe_oops_handler.ko"), ko, 0o600)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	_ = d.write("machine/load/call", "kernel_clone 1")
}

// panics are ways to cause a panic, with the expected messages.
var panics = []struct {
	name  string
	flags []string
	do    func(*daemon)
	says  []string
}{
	{"mid_instruction", []string{"--release", "2.6.25", "--cpus", "4"}, (*daemon).midInstruction, []string{
		"BUG: unable to handle kernel NULL pointer dereference at ", ", comm: swapper/", "Kernel panic - not syncing: Attempted to kill the idle task!",
	}},
	{"handler", []string{"--cpus", "4"}, (*daemon).handlerDies, []string{
		"BUG: kernel NULL pointer dereference, address: 0000000000000008", "RIP: 0010:before+", " Comm: ", " kernel_clone+0x",
		"Kernel panic - not syncing: Fatal exception in interrupt",
	}},
}

// says waits until the messages of the panic are on standard error.
func (d *daemon) says(want []string) {
	d.t.Helper()
	want = append([]string{"the emulated kernel has panicked", "RIP: 0010:", "Code: ", "RAX: ", "Call Trace:", "---[ end Kernel panic - not syncing: "}, want...)
	for _, w := range want {
		for end := time.Now().Add(5 * time.Second); !strings.Contains(d.err.String(), w); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				d.t.Fatalf("standard error lacks %q:\n%s", w, d.err)
			}
		}
	}
}

// TestPanicStop: a panic is reported on standard error. The log, machine/ and all
// names can still be read, other files return EIO at once, and the machine uses no
// CPU time.
func TestPanicStop(t *testing.T) {
	for _, p := range panics {
		t.Run(p.name, func(t *testing.T) {
			d := mountDaemon(t, p.flags...)
			follow := exec.Command("cat", filepath.Join(d.dir, "tracing/trace_pipe")) // waits
			if err := follow.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
			p.do(d)
			d.says(p.says)
			for _, name := range []string{"kprobes/list", "tracing/trace", "tracing/kprobe_events", "proc/kallsyms", "sys/kernel/kptr_restrict"} {
				if text, err := d.read(name); !errors.Is(err, syscall.EIO) {
					t.Errorf("%s: %q, %v", name, text, err)
				}
			}
			if err := d.write("tracing/kprobe_events", "p vfs_read\n"); !errors.Is(err, syscall.EIO) {
				t.Errorf("a definition: %v", err)
			}
			for name, want := range map[string]string{
				"dev/kmsg": p.says[len(p.says)-1], "machine/kernel": "\npanic ", "machine/text/vfs_read": "vfs_read:\n",
			} {
				if text, err := d.read(name); err != nil || !strings.Contains(text, want) {
					t.Errorf("%s: no %q, %v in\n%s", name, want, err, text)
				}
			}
			for dir, want := range map[string]string{".": "tracing", "kprobes": "list", "machine/probes": "+0x"} {
				names, err := os.ReadDir(filepath.Join(d.dir, dir))
				if err != nil || !strings.Contains(fmt.Sprint(names), want) {
					t.Errorf("%s lists %v, %v", dir, names, err)
				}
			}
			late := time.AfterFunc(readPatience, func() { _ = follow.Process.Kill() })
			if err := follow.Wait(); !late.Stop() || err == nil {
				t.Errorf("a reader of trace_pipe that waited: %v", err)
			}
			before := d.ticks()
			time.Sleep(time.Second)
			if used := d.ticks() - before; used > 5 {
				t.Errorf("the dead machine uses %d ms of CPU a second", 10*used)
			}
			if status := d.end(); status != panicStatus {
				t.Errorf("exit status %d, want %d", status, panicStatus)
			}
		})
	}
}

// TestPanicReboot: the machine boots again behind the same mount each time it panics.
// Files that were open return EIO.
func TestPanicReboot(t *testing.T) {
	for _, p := range panics {
		t.Run(p.name, func(t *testing.T) {
			d := mountDaemon(t, append([]string{"--panic", "reboot"}, p.flags...)...)
			for round := 1; round <= 2; round++ {
				old := map[string]*os.File{}
				for _, name := range []string{"kprobes/list", "machine/kernel", "dev/kmsg"} {
					f, err := os.Open(filepath.Join(d.dir, name))
					if err != nil {
						t.Fatal(err)
					}
					old[name] = f
				}
				p.do(d)
				d.says(p.says)
				for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
					text, err := d.read("kprobes/list")
					if err == nil && text == "" {
						break
					}
					if time.Now().After(end) {
						t.Fatalf("round %d: list is %q, %v; standard error:\n%s", round, text, err, d.err)
					}
				}
				for name, f := range old {
					if _, err := f.Read(make([]byte, 8192)); !errors.Is(err, syscall.EIO) {
						t.Errorf("round %d: %s of the old machine: %v", round, name, err)
					}
					_ = f.Close()
				}
				if text, err := d.read("tracing/kprobe_events"); text != "" || err != nil {
					t.Errorf("round %d: kprobe_events is %q, %v", round, text, err)
				}
				if text, err := d.read("proc/modules"); text != "" || err != nil {
					t.Errorf("round %d: modules are %q, %v", round, text, err)
				}
				if text, err := d.read("dev/kmsg"); strings.Contains(text, "panic") || !strings.Contains(text, "Linux version") || err != nil {
					t.Errorf("round %d: the log is %q, %v", round, text, err)
				}
				if got := strings.Count(d.err.String(), "it is booted again"); got != round {
					t.Errorf("round %d: %d messages that the machine is booted again", round, got)
				}
			}
			if err := d.write("tracing/kprobe_events", "p:again vfs_read\n"); err != nil {
				t.Error(err)
			}
			for _, on := range []string{"1", "0"} {
				if err := d.write("tracing/events/kprobes/again/enable", on); err != nil {
					t.Error(err)
				}
				_, _ = d.read("kprobes/enabled")
			}
			if text, err := d.read("tracing/trace"); !strings.Contains(text, "again: (vfs_read+0x0/") {
				t.Errorf("no hits: %v\n%s", err, text)
			}
			if status := d.end(); status != 0 {
				t.Errorf("exit status %d", status)
			}
		})
	}
}

// panicScript makes the machine below exec panic, and exits with 0.
const panicScript = `cd $KPROBEFS_MNT
cp $1/kprobe_oops_handler.ko machine/modules
echo "kernel_clone 1" > machine/load/call
sleep 0.5
cat kprobes/list
echo "p vfs_read" > /sys/kernel/tracing/kprobe_events && cat /sys/kernel/tracing/kprobe_events
true
`

// TestPanicExec: after a panic the exit status of exec is panicStatus instead of its
// command's, unless the machine was booted again.
func TestPanicExec(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	modules, err := filepath.Abs("../kernel/guest/modules")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flag   string
		status int
		list   string
	}{
		{"--panic=stop", panicStatus, "cat: can't open 'kprobes/list': Input/output error\n"},
		{"--panic=reboot", 0, "p:kprobes/p_vfs_read_0 vfs_read\n"},
	} {
		dir := publicDir(t)
		put(t, dir, "script", panicScript)
		out, status := asUser(nil).exec(t, dir, nil, []string{c.flag}, "busybox", "sh", "script", modules)
		if status != c.status || !strings.Contains(out, c.list) || strings.Count(out, "Kernel panic - not syncing: Fatal exception in interrupt") != 2 {
			t.Errorf("%s: status %d, it printed\n%s", c.flag, status, out)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(built, "kprobefs"), "exec", "--panic=halt", "true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "stop and reboot") {
		t.Errorf("--panic=halt: %v %s", err, out)
	}
}

// modulePanicScript loads a module that makes the machine panic, and writes the log to
// the file log.
const modulePanicScript = `cd $KPROBEFS_MNT
echo "options panics how=$2" >machine/modprobe.conf
cp $1/panics.ko machine/modules/panics.ko && sleep 2
grep -q ^panic machine/kernel || echo no panic
/usr/bin/dd if=dev/kmsg iflag=nonblock bs=8192 2>/dev/null | cut -d';' -f2 >$1/log
`

// modulePanics are mistakes of testdata/modules/panics that end Linux, with lines of what
// Debian's 6.1 says of each, in this order. Left out are addresses, registers and places
// in functions of the kernel.
var modulePanics = map[string][]string{
	"panic": {
		"Kernel panic - not syncing: panics has 2 reasons", "CPU: ", " Comm: mistaken ", "Call Trace:", " dump_stack_lvl+", " panic+", " mistake", " kthread+",
		"---[ end Kernel panic - not syncing: panics has 2 reasons ]---",
	},
	"overflow": {
		"BUG: TASK stack guard page was hit at ", "stack guard page: 0000 [#1] PREEMPT SMP NOPTI", " Comm: mistaken ",
		"RIP: 0010:panics_deep+", "Call Trace:", " panics_deep+", " mistake+", " kthread+",
		"Modules linked in: panics(OE", "---[ end trace 0000000000000000 ]---", "Kernel panic - not syncing: Fatal exception in interrupt",
	},
	"timer": {
		"BUG: kernel NULL pointer dereference, address: 0000000000000000", "#PF: supervisor write access in kernel mode",
		"#PF: error_code(0x0002) - not-present page", "Oops: 0002 [#1] PREEMPT SMP NOPTI", "RIP: 0010:ticks+", "Call Trace:",
		" call_timer_fn+", " run_timer_softirq+", " sysvec_apic_timer_interrupt+", " asm_sysvec_apic_timer_interrupt+",
		"Kernel panic - not syncing: Fatal exception in interrupt",
	},
	"handler": {
		"BUG: kernel NULL pointer dereference, address: 0000000000000000", "Oops: 0002 [#1] PREEMPT SMP NOPTI", " Comm: mistaken ",
		"RIP: 0010:pre+", "Call Trace:", " aggr_pre_handler+", " mistake+", "Kernel panic - not syncing: Fatal exception in interrupt",
	},
	"handler_bug": {
		"kernel BUG at ", "panics.c:", "invalid opcode: 0000 [#1] PREEMPT SMP NOPTI", " Comm: mistaken ", "RIP: 0010:pre+", "Call Trace:",
		" aggr_pre_handler+", " mistake+", "Kernel panic - not syncing: Fatal exception in interrupt",
	},
}

// TestModulePanics: what a module does that ends Linux ends the machine, with Linux's
// words on standard error and in dev/kmsg, and exec has panicStatus.
func TestModulePanics(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	objects, err := BuildModules("testdata/modules/panics")
	if errors.Is(err, ErrNoHeaders) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for how, want := range modulePanics {
		t.Run(how, func(t *testing.T) {
			dir := publicDir(t)
			put(t, dir, "script", modulePanicScript)
			put(t, dir, "panics.ko", string(objects["panics.ko"]))
			out, status := asUser(nil).exec(t, dir, nil, []string{"--cpus", "2"}, "busybox", "sh", "script", dir, how)
			if status != panicStatus || strings.Contains(out, "no panic") {
				t.Errorf("status %d, want %d", status, panicStatus)
			}
			log, err := os.ReadFile(filepath.Join(dir, "log"))
			if err != nil {
				t.Fatal(err)
			}
			for place, text := range map[string]string{"standard error": out, "dev/kmsg": string(log)} {
				rest := text
				for _, w := range want {
					_, after, found := strings.Cut(rest, w)
					if !found {
						t.Errorf("%s lacks %q (or the order is another):\n%s", place, w, text)
						break
					}
					rest = after
				}
			}
		})
	}
}
