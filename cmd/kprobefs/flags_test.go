package main

import (
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/internal/cli"
)

// TestFlagValues: a value that a flag does not have is a wrong usage, and the error names the
// values. An empty value, most often from a variable that is not set, is one, too.
func TestFlagValues(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ flag, value, says string }{
		{"--release", "7.0", "6.12, 6.1, 5.10, 4.15, 2.6.32 and 2.6.25"},
		{"--release", "", "6.12, 6.1, 5.10, 4.15, 2.6.32 and 2.6.25"},
		{"--engine", "jit", "auto, native and interp"},
		{"--panic", "halt", "stop and reboot"},
		{"--lockdown", "full", "none, integrity and confidentiality"},
		{"--lockdown", "", "none, integrity and confidentiality"},
		{"--log-level", "loud", "error, warning, info and debug"},
		{"--log-level", "", "error, warning, info and debug"},
		{"--log-format", "xml", "text and json"},
		{"--config", "CONFIG_OPTPROBES=bad", "the values of CONFIG_OPTPROBES are y and n"},
		{"--config", "CONFIG_PREEMPT", "the values of CONFIG_PREEMPT are y and n"},
		{"--config", "NR_CPUS=0", "the values of NR_CPUS are the numbers from 1 to 8192"},
		{"--config", "FOO=n", "the known names are CONFIG_KALLSYMS_ALL, "},
		{"--config", "", "the value is empty"},
		{"--cpus", "many", "a number from 1 to 64"},
		{"--cpus", "65", "1 to 64"},
		{"--memory", "much", "a number of bytes, or a number with K, M or G"},
		{"--memory", "1K", "at least"},
		{"--memory", "", "the value is empty"},
		{"--module", "", "the value is empty"},
		{"--log-file", "", "the value is empty"},
		{"--watchdog", "bark", "kill, panic, warn, off"},
		{"--watchdog", "kill:", "from 1 to 60"},
		{"--watchdog", "kill:0", "from 1 to 60"},
		{"--watchdog", "kill:61", "from 1 to 60"},
		{"--watchdog", "panic:x", "from 1 to 60"},
		{"--watchdog", "", "the value is empty"},
	} {
		for _, args := range [][]string{{"mount", c.flag, c.value, dir}, {"exec", c.flag, c.value, "true"}} {
			wantUsage(t, args, strings.TrimLeft(c.flag, "-"), c.says)
		}
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"exec", "--mirror", "some", "true"}, "all, stops, changes and none"},
		{[]string{"exec", "--uname", "ours", "true"}, "release and host"},
		{[]string{"exec", "--uname", "", "true"}, "release and host"},
		{[]string{"exec", "--attach", "", "true"}, "the value is empty"},
		{[]string{"exec", "--keep=", "true"}, "the value is empty"},
		{[]string{"headers", "--release", "", dir}, "6.12, 6.1, "},
		{[]string{"lsmod", "--at", ""}, "the value is empty"},
	} {
		wantUsage(t, c.args, c.says)
	}
}

// wantUsage checks that a call is a wrong usage, whose error has these words.
func wantUsage(t *testing.T, args []string, says ...string) {
	t.Helper()
	out, st := output(t, args...)
	if st.ExitCode() != cli.UsageStatus {
		t.Errorf("%q: status %d, want %d: %q", args, st.ExitCode(), cli.UsageStatus, out)
	}
	for _, words := range says {
		if !strings.Contains(out, words) {
			t.Errorf("%q: %q; want %q", args, out, words)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out, st := output(t, "completion", shell); !st.Success() || !strings.Contains(out, "kprobefs") {
			t.Errorf("%s: %v, %d bytes", shell, st, len(out))
		}
	}
	const noFiles, noSpace, ko, dirs = ":4", ":6", ":8", ":16"
	for _, c := range []struct{ args, want string }{
		{"m", "mount mounted " + noFiles},
		{"mount ", dirs},
		{"--log-format ", "text json " + noFiles},
		{"--log-level ", "error warning info debug " + noFiles},
		{"exec --release ", "6.12 6.1 5.10 4.15 2.6.32 2.6.25 " + noFiles},
		{"mount --release=6.", "6.12 6.1 " + noFiles},
		{"headers --release 2", "2.6.32 2.6.25 " + noFiles},
		{"exec --mirror ", "all stops changes none " + noFiles},
		{"exec --engine ", "auto native interp " + noFiles},
		{"mount --panic ", "stop reboot " + noFiles},
		{"exec --lockdown ", "none integrity confidentiality " + noFiles},
		{"exec --uname ", "release host " + noFiles},
		{"exec --watchdog ", "kill panic warn off " + noFiles},
		{"exec --config CONFIG_O", "CONFIG_OPTPROBES=n CONFIG_OPTPROBES=y " + noFiles},
		{"exec --config CONFIG_OPTPROBES=y", "CONFIG_OPTPROBES=y " + noFiles},
		{"exec --config N", "NR_CPUS= " + noSpace},
		{"mount --gdb u", "unix: " + noSpace},
		{"exec --cpus ", noFiles},
		{"exec --module ", "ko " + ko},
		{"exec --attach ", dirs},
		{"lsmod --at ", dirs},
		{"list --at ", dirs},
		{"trace --event ", noFiles},
	} {
		cmd := runProgram(append([]string{"__completeNoDesc"}, strings.Split(c.args, " ")...)...)
		out, err := cmd.Output() // the rest is on standard error
		if got := strings.Join(strings.Fields(string(out)), " "); got != c.want || err != nil {
			t.Errorf("%q: %q, %v; want %q", c.args, got, err, c.want)
		}
	}
}
