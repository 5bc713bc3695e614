package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kprobefs/kprobefs/integration"
	"github.com/kprobefs/kprobefs/internal/tools/linux"
)

// source is whose tools and lessons are counted.
type source struct {
	name  string         // in the table
	about string         // in the page
	pkg   string         // Debian's package, or nothing
	files *regexp.Regexp // of it, by their paths; a tool or a page each
}

var sources = []source{
	{"bcc", "bcc's tools, their manual pages and examples", "bpfcc-tools", regexp.MustCompile(`/usr/sbin/|/examples/(tracing|doc)/|/man8/`)},
	{"libbpf-tools", "the same tools as programs of their own", "libbpf-tools", regexp.MustCompile(`/usr/sbin/`)},
	{"bpftrace", "bpftrace's tools, their manual pages and examples", "bpftrace", regexp.MustCompile(`/usr/sbin/|/examples/|/man8/`)},
	{"perf-tools", "perf-tools, their manual pages and examples", "perf-tools-unstable", regexp.MustCompile(`/usr/sbin/|/examples/|/man8/`)},
	{"trace-cmd", "trace-cmd's manual pages", "trace-cmd", regexp.MustCompile(`/man[15]/`)},
	{"linux-doc", "Linux's Documentation", "linux-doc-6.1", regexp.MustCompile(`/Documentation/.*\.(rst|txt)(\.gz)?$`)},
	{"ftracetest", "the kernel's own tests of tracing", "", regexp.MustCompile(`/test\.d/.*\.tc$`)},
	{"ltp", "the tests of tracing of the Linux Test Project", "", nil},
	{"hooks", "modules that hook, audit or watch the kernel", "", nil},
}

// notSources are files of packages that name nothing: translations, and bcc's libraries.
var notSources = regexp.MustCompile(`/translations/|/ABI/`)

// unpack gets a package of Debian, and returns the folder with its files and its version.
func unpack(ctx context.Context, dir, pkg string) (root, version string, err error) {
	root = filepath.Join(dir, pkg)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", "", err
	}
	script := `cd "$1"; [ -e version ] && { cat version; exit; }; apt-get download -qq -o APT::Sandbox::User=root "$2" >&2; dpkg-deb -x *.deb .; dpkg-deb -f *.deb Version >version.new; rm *.deb; mv version.new version; cat version`
	cmd := exec.CommandContext(ctx, "sh", "-ec", script, "sh", root, pkg)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", "", fmt.Errorf("getting the package %s: %w", pkg, err)
	}
	return root, strings.TrimSpace(string(out)), nil
}

// texts calls see with the text of each file of a source.
func (s source) texts(root string, see func(text string)) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !s.files.MatchString(path) || notSources.MatchString(path) {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".gz") {
			z, err := gzip.NewReader(bytes.NewReader(b))
			if err != nil {
				return err
			}
			if b, err = io.ReadAll(z); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		if bytes.HasPrefix(b, []byte("\x7fELF")) {
			b = []byte(programText(b))
		}
		see(plain.Replace(string(b)))
		return nil
	})
}

// plain takes away what manual pages escape, and puts in what the kernel's tests have in a
// variable.
var plain = strings.NewReplacer(`\-`, `-`, `\&`, ``, `\'`, `'`, `\(aq`, `'`, `\e`, `\`,
	"$FUNCTION_FORK", "kernel_clone", "${FUNCTION_FORK}", "kernel_clone")

var (
	section = regexp.MustCompile(`(?:kprobe|kretprobe|fentry|fexit|tp_btf|raw_tp|raw_tracepoint|tracepoint|tp|ksyscall|kretsyscall)/\w[\w/]*`)
	fsNames = regexp.MustCompile(`\b(?:btrfs|ext4|f2fs|nfs4?|xfs)_(?:file_\w+|getattr|sync_file)\b`)
)

// programText returns what a program that carries BPF programs attaches to: the names of
// their sections, and those that it gives at run time. dummy_NAME is replaced by these.
func programText(b []byte) string {
	var lines []string
	for _, m := range section.FindAll(b, -1) {
		if !bytes.Contains(m, []byte("/dummy_")) {
			lines = append(lines, string(m))
		}
	}
	for _, m := range fsNames.FindAll(b, -1) {
		lines = append(lines, "kprobe/"+string(m))
	}
	return strings.Join(lines, "\n")
}

// linuxDump prints what Linux has, compressed: the console is slow.
const linuxDump = `cd /sys/kernel/tracing || exit
{ sed -n 's/^[0-9a-f]* [tTwW] \([^\t ]*\).*/f \1/p' /proc/kallsyms
for e in events/*/*/format; do echo "e ${e#events/}"; sed -n 's/^\tfield:[^;]*[ *]\([a-z_0-9A-Z]*\)\(\[[^;]*\]\)*;.*/m \1/p' "$e"; done; } | gzip | base64`

// getLinux asks Debian's kernel what it has, and reads the symbols of its modules. from
// says in which module a function is.
func getLinux(ctx context.Context, dir string) (l *Linux, from map[string]string, kernel string, err error) {
	k, err := linux.Newest(ctx, linux.Default)
	if err != nil {
		return nil, nil, "", err
	}
	results, err := k.Run(ctx, "", []linux.Script{{Name: "dump", Text: linuxDump}}, "/usr/bin/base64")
	if err != nil {
		return nil, nil, "", err
	}
	text, err := gunzip64(results[0].Output)
	if err != nil {
		return nil, nil, "", err
	}
	l, from = &Linux{Functions: map[string]bool{}, Events: map[string]map[string]bool{}}, map[string]string{}
	var event map[string]bool
	for _, line := range strings.Split(text, "\n") {
		switch what, name, _ := strings.Cut(line, " "); what {
		case "f":
			name, _, _ = strings.Cut(name, ".") // finish_task_switch.isra.0, for which tools look too
			l.Functions[name] = true
			from[name] = "kernel"
		case "e":
			f := strings.Split(name, "/")
			event = map[string]bool{}
			l.Events[f[0]+":"+f[1]] = event
		case "m":
			event[name] = true
		}
	}
	l.index()
	root, _, err := unpack(ctx, dir, k.Package)
	if err != nil {
		return nil, nil, "", err
	}
	return l, from, k.String(), l.addModules(root, from)
}

// addModules adds the functions of a package's modules.
func (l *Linux) addModules(root string, from map[string]string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".ko" {
			return err
		}
		f, err := elf.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		symbols, err := f.Symbols()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		module := strings.TrimSuffix(filepath.Base(path), ".ko")
		for _, s := range symbols {
			if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF && from[s.Name] == "" {
				l.Functions[s.Name] = true
				from[s.Name] = "module " + module
			}
		}
		return nil
	})
}

// suiteDir is where the kernel's tests of tracing are, which "ftracetest fetch" gets.
func suiteDir() (string, error) {
	source, err := integration.LinuxSource(linux.Default)
	return filepath.Join(source, "tools/testing/selftests/ftrace"), err
}
