package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
)

var pageURL = regexp.MustCompile(`(http://127\.0\.0\.1:\d+/)\?token=([0-9a-f]+)`)

// fetch gets a path of a page with its token.
func fetch(t *testing.T, c *http.Client, base, path, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// outputAs runs the program in a role of TestMain.
func outputAs(t *testing.T, role string, args ...string) (string, *os.ProcessState) {
	t.Helper()
	needFuse(t)
	cmd := runProgram(args...)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState
}

// startPage starts a command with a page, whose tree may be mounted at a directory, and returns what it says.
func startPage(t *testing.T, at string, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := runProgram(args...)
	cmd.Env = append(os.Environ(), roleVar+"="+roleReal)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = fs.Detach(at) })
	return cmd, bufio.NewReader(stderr)
}

// firstPage returns the page's address and token, which the first line has.
func firstPage(t *testing.T, said *bufio.Reader) []string {
	t.Helper()
	line, err := said.ReadString('\n')
	m := pageURL.FindStringSubmatch(line)
	if err != nil || m == nil {
		t.Fatalf("%q, %v", line, err)
	}
	return m
}

// TestPage: mount --http prints where its page is, which shows the mounted machine and ends with it.
func TestPage(t *testing.T) {
	needFuse(t)
	dir := t.TempDir()
	cmd, said := startPage(t, dir, "mount", "--http", "127.0.0.1:0", dir)
	m := firstPage(t, said)
	client := &http.Client{Timeout: endLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	writeTree(t, filepath.Join(dir, "tracing/kprobe_events"), "p:mine vfs_read\n")
	if status, body := fetch(t, client, m[1], "api/probes", m[2]); status != http.StatusOK || !strings.Contains(body, "kprobes/mine") {
		t.Errorf("%d: %s", status, body)
	}
	if status, body := fetch(t, client, m[1], "readyz", ""); status != http.StatusOK {
		t.Errorf("%d: %s", status, body)
	}
	out, st := output(t, "mount", "--http", strings.TrimSuffix(strings.TrimPrefix(m[1], "http://"), "/"), t.TempDir())
	if st.ExitCode() != 1 || !strings.Contains(out, "another program has the port") {
		t.Errorf("a port that is taken: %v: %s", st, out)
	}
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	if err := within(t, endLimit, done, "the end"); err != nil {
		t.Error(err)
	}
	if _, err := client.Get(m[1] + "healthz"); err == nil {
		t.Error("the page is still there")
	}
}

// TestPageOfExec: exec has a page as well, until the command ends; with --keep as long as the tree.
func TestPageOfExec(t *testing.T) {
	needFuse(t)
	for _, keep := range []bool{false, true} {
		args := []string{"exec", "--http", "127.0.0.1:0", "--", "sleep", "60"}
		at := t.TempDir()
		if keep {
			args = slices.Insert(args, 1, "--keep="+at)
		}
		cmd, said := startPage(t, at, args...)
		var m []string
		for m == nil {
			line, err := said.ReadString('\n')
			if err != nil {
				t.Fatalf("%q, %v", line, err)
			}
			m = pageURL.FindStringSubmatch(line)
		}
		client := &http.Client{Timeout: endLimit, Transport: &http.Transport{DisableKeepAlives: true}}
		if status, body := fetch(t, client, m[1], "api/about", m[2]); status != http.StatusOK {
			t.Errorf("%d: %s", status, body)
		}
		if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		gone := func() bool { _, err := client.Get(m[1] + "healthz"); return err != nil }
		if keep && gone() {
			t.Error("the page of the tree that stays has ended")
		}
		if keep {
			if out, st := outputAs(t, roleReal, "umount", at); st.ExitCode() != 0 {
				t.Errorf("%v: %s", st, out)
			}
		}
		if !ends(gone) {
			t.Error("the page stays")
		}
	}
	out, st := output(t, "exec", "--attach", t.TempDir(), "--http", "127.0.0.1:0", "true")
	if st.ExitCode() == 0 {
		t.Errorf("with --attach: %s", out)
	}
}

// TestSourceOfModule: text and the page show the lines of C of a module that was built with -g, the page
// only sources in a directory that it was given.
func TestSourceOfModule(t *testing.T) {
	needFuse(t)
	for _, tool := range []string{"gcc", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("no " + tool)
		}
	}
	sources := t.TempDir()
	for name, text := range map[string]string{
		"Makefile": "obj-m := lines.o\nccflags-y := -g\n",
		"lines.c":  "#include <linux/module.h>\n\nnoinline int lines_twice(int x)\n{\n\treturn 2 * x;\n}\n\nstatic int __init lines_init(void)\n{\n\tpr_info(\"%d\\n\", lines_twice(21));\n\treturn 0;\n}\nmodule_init(lines_init);\nMODULE_LICENSE(\"GPL\");\n",
	} {
		writeTree(t, filepath.Join(sources, name), text)
	}
	if out, st := outputAs(t, roleReal, "exec", "--", "sh", "-c", "cd "+sources+" && make -s -C /lib/modules/$(uname -r)/build M=$PWD"); !st.Success() {
		t.Fatal(out)
	}
	for _, given := range []bool{true, false} {
		dir := t.TempDir()
		args := []string{"mount", "--http", "127.0.0.1:0", dir}
		if given {
			args = slices.Insert(args, 1, "--http-source", sources)
		}
		_, said := startPage(t, dir, args...)
		m := firstPage(t, said)
		if out, st := output(t, "insmod", "--at", dir, filepath.Join(sources, "lines.ko")); !st.Success() {
			t.Fatal(out)
		}
		if out, st := output(t, "text", "--at", dir, "lines_twice"); !st.Success() || !strings.Contains(out, "lines.c:5: return 2 * x;\n") {
			t.Errorf("%v: %s", st, out)
		}
		client := &http.Client{Timeout: endLimit, Transport: &http.Transport{DisableKeepAlives: true}}
		want := `/lines.c","line":5}`
		if given {
			want = `"source":{"file":"lines.c","line":5,"text":"return 2 * x;"}`
		}
		if status, body := fetch(t, client, m[1], "api/text?function=lines_twice", m[2]); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("with its directory: %t: %d: %s", given, status, body)
		}
		if out, st := output(t, "umount", dir); !st.Success() {
			t.Error(out)
		}
	}
}

// TestPageInBackground: mount --daemon passes the flags on and prints where the page is, the token is
// in a file, and the page is at a socket.
func TestPageInBackground(t *testing.T) {
	dir, at := t.TempDir(), t.TempDir()
	socket, file := filepath.Join(dir, "page"), filepath.Join(dir, "token")
	out, st := outputAs(t, roleReal, "mount", "--daemon", "--http", "unix:"+socket, "--http-token-file", file, at)
	t.Cleanup(func() { _ = fs.Detach(at) })
	token, err := os.ReadFile(file)
	if err != nil || st.ExitCode() != 0 {
		t.Fatalf("%v, %v: %s", err, st, out)
	}
	known := strings.TrimSpace(string(token))
	if !strings.Contains(out, "kprobefs: the page: curl --unix-socket "+socket) || !strings.Contains(out, "token="+known) {
		t.Errorf("%s", out)
	}
	for _, path := range []string{socket, file} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	client := &http.Client{Timeout: endLimit, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	status, body := fetch(t, client, "http://localhost/", "api/about", known)
	var about struct{ Write bool }
	if err := json.Unmarshal([]byte(body), &about); err != nil || status != http.StatusOK || about.Write {
		t.Errorf("%d, %v: %s", status, err, body)
	}
	if out, st := outputAs(t, roleReal, "umount", at); st.ExitCode() != 0 {
		t.Errorf("%v: %s", st, out)
	}
	for end := time.Now().Add(endLimit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(socket); err != nil {
			return
		}
	}
	t.Error("the socket stays")
}

// TestHealth: mount --health answers whether the tree is served, in the background too, without a page.
func TestHealth(t *testing.T) {
	needFuse(t)
	top := t.TempDir()
	dir, socket := filepath.Join(top, "tree"), filepath.Join(top, "health")
	cmd := runProgram("mount", "--daemon", "--mkdir", "--health", "unix:"+socket, dir)
	cmd.Env = append(os.Environ(), roleVar+"="+roleReal)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "page") {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = fs.Detach(dir) })
	client := &http.Client{Timeout: endLimit, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	for path, want := range map[string]int{"healthz": 200, "readyz": 200, "api/probes": 404, "": 404} {
		if status, body := fetch(t, client, "http://pod/", path, ""); status != want {
			t.Errorf("%s: %d: %s", path, status, body)
		}
	}
	if out, st := output(t, "umount", dir); !st.Success() {
		t.Error(out)
	}
}

// TestPageFlags: what is wrong with the page's flags is said before anything is mounted.
func TestPageFlags(t *testing.T) {
	short := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(short, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--http-write"}, "give its address with --http"},
		{[]string{"--http-source", "vmlinux"}, "give its address with --http"},
		{[]string{"--http", "127.0.0.1:0", "--http-source", short}, "--http-source: " + short},
		{[]string{"--http", "127.0.0.1:0", "--http-source", filepath.Join(short, "nosuch")}, "not a directory"},
		{[]string{"--http", "127.0.0.1:0", "--http-token-file", "/no/such/token"}, "the directory /no/such is not there: make it"},
		{[]string{"--http", "unix:/no/such/socket"}, "the directory /no/such is not there: make it"},
		{[]string{"--gdb", "unix:/no/such/socket"}, "the directory /no/such is not there: make it"},
		{[]string{"--http", "0.0.0.0:8080"}, "can be reached from elsewhere"},
		{[]string{"--http", "8080"}, "write 127.0.0.1:PORT"},
		{[]string{"--health", "8080"}, "write :PORT, HOST:PORT"},
		{[]string{"--http", "127.0.0.1:0", "--http-token-file", short}, "has at least 16"},
	} {
		out, st := output(t, append(append([]string{"mount"}, c.args...), t.TempDir())...)
		if st.ExitCode() == 0 || !strings.Contains(out, c.says) {
			t.Errorf("%q: %v: %s", c.args, st, out)
		}
	}
}
