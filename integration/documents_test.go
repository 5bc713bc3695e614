package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// documentsVar is the environment variable with the folder of the documents that
// kprobefs implements. They are Linux's documentation, under the GPL, and not part of
// this repository: without them the test of their examples is skipped.
const documentsVar = "KPROBEFS_DOCUMENTS"

// listing is a text with line numbers at the margin, some of whose lines were lost.
type listing struct {
	lines []string
	depth int  // of braces
	init  bool // the outermost brace opened an initializer
	note  bool // in a comment
}

var numbered = regexp.MustCompile(`^\s*(\d+)(?: (.*))?$`)

// restore returns the source of a listing: numbers at the margin go, no-break spaces
// become spaces, and lines of which the numbers show that they are missing come back:
// those that held a brace, the beginning of a comment, or nothing.
func restore(text string) (string, error) {
	l := &listing{}
	last := 0
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\u00a0", " ")
		m := numbered.FindStringSubmatch(line)
		if m == nil {
			return "", fmt.Errorf("a line without a number: %q", line)
		}
		n, _ := strconv.Atoi(m[1])
		if last != 0 && n <= last {
			return "", fmt.Errorf("line %d comes after line %d", n, last)
		}
		if last != 0 && n-last > 1 {
			l.lost(n-last-1, m[2])
		}
		l.add(m[2])
		last = n
	}
	if l.depth > 0 {
		l.lost(1, "")
	}
	return strings.Join(l.lines, "\n") + "\n", nil
}

// add appends a line.
func (l *listing) add(line string) {
	l.lines = append(l.lines, line)
	code := line
	if l.note {
		_, rest, ended := strings.Cut(code, "*/")
		if !ended {
			return
		}
		l.note, code = false, rest
	}
	for {
		before, after, begun := strings.Cut(code, "/*")
		if l.depth == 0 && strings.HasSuffix(strings.TrimSpace(before), "{") {
			l.init = strings.Contains(before, "=")
		}
		l.depth += strings.Count(before, "{") - strings.Count(before, "}")
		if !begun {
			return
		}
		_, rest, ended := strings.Cut(after, "*/")
		if !ended {
			l.note = true
			return
		}
		code = rest
	}
}

// lost appends n lines that were lost before next.
func (l *listing) lost(n int, next string) {
	var prev string
	if len(l.lines) > 0 {
		prev = strings.TrimSpace(l.lines[len(l.lines)-1])
	}
	lines := make([]string, n)
	switch {
	case l.depth == 0 && strings.HasSuffix(prev, ")") && !strings.HasPrefix(prev, "module_"):
		lines[0] = "{"
	case l.depth == 1 && l.init && !strings.HasPrefix(next, " ") && !strings.HasPrefix(next, "\t"):
		lines[0] = "};"
	case l.depth == 1 && !strings.HasPrefix(next, " ") && !strings.HasPrefix(next, "\t"),
		l.depth == 1 && strings.HasPrefix(next, " * "):
		lines[0] = "}"
	}
	if !l.note && strings.HasPrefix(next, " * ") {
		lines[n-1] = "/*"
	}
	for _, line := range lines {
		l.add(line)
	}
}

func TestRestore(t *testing.T) {
	const text = "10 /* one */\n11 int one(int a,\n12\u00a0\u00a0\u00a0int b)\n14 \tif (a) {\n15   b++;\n16   }\n18   return b;\n" +
		"22  * two\n23  */\n24 struct s two = {\n25   .a = 1\n28 three(x)\n29 end();\n"
	const want = "/* one */\nint one(int a,\n  int b)\n{\n\tif (a) {\n  b++;\n  }\n\n  return b;\n" +
		"}\n\n/*\n * two\n */\nstruct s two = {\n  .a = 1\n};\n\nthree(x)\nend();\n"
	got, err := restore(text)
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, diff(want, got))
	}
	for _, bad := range []string{"no number\n", "2 a\n1 b\n"} {
		if _, err := restore(bad); err == nil {
			t.Errorf("%q is not refused", bad)
		}
	}
}

// cutOut returns the texts between the marks of a document, without the lines of the marks.
func cutOut(document string) []string {
	document = strings.ReplaceAll(document, "\u00a0", " ")
	mark := regexp.MustCompile(`(?m)^\d+ -+ cut here -+\n`)
	var texts []string
	parts := mark.Split(document, -1)
	for i := 1; i < len(parts); i += 2 {
		texts = append(texts, parts[i])
	}
	return texts
}

// documentScript builds and loads the examples of a document of 2.6.
const documentScript = `make KDIR=/lib/modules/$(cat /proc/sys/kernel/osrelease)/build 2>&1 && ls *.ko
cd $KPROBEFS_MNT
for m in kprobe jprobe kretprobe; do
	cp $OLDPWD/$m-example.ko machine/modules || exit
	(busybox true)
	$OLDPWD/opens
	rm machine/modules/$m-example.ko
done
/usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | sed -n 's/^[^;]*;//p'
`

// documentLines are the messages of the examples, in the order of their coming. All but
// the last are printed more than once, or between others.
var documentLines = []string{
	`(?m)^kprobe registered$`,
	`(?m)^pre_handler: p->addr=0xffffffff[0-9a-f]{8}, eip=ffffffff[0-9a-f]{8}, eflags=0x[0-9a-f]+$`,
	`(?m)^ +(\[<[0-9a-f]+>\] )?do_fork\+0x[0-9a-f]+/0x[0-9a-f]+`,
	`(?m)^post_handler: p->addr=0xffffffff[0-9a-f]{8}, eflags=0x[0-9a-f]+$`,
	`(?m)^kprobe unregistered$`,
	`(?m)^Planted jprobe at ffffffff[0-9a-f]{8}, handler addr ffffffff[0-9a-f]{8}$`,
	`(?m)^jprobe: clone_flags=0x[0-9a-f]*11, stack_size=0x0, regs=0xffff[0-9a-f]{12}$`,
	`(?m)^jprobe unregistered$`,
	`(?m)^Planted return probe at ffffffff[0-9a-f]{8}$`,
	`(?m)^sys_open returns -2$`,
	`(?m)^kretprobe unregistered$`,
	`(?m)^Missed probing 0 instances of sys_open$`,
}

// TestDocumentExamples: the modules that a document has in full, restored from its
// text, build with its Makefile and print what it says. Of the five documents one has
// its examples in full; the others refer to Linux's samples.
func TestDocumentExamples(t *testing.T) {
	folder := os.Getenv(documentsVar)
	if folder == "" {
		t.Skipf("%s is not set: the documents are not part of this repository", documentsVar)
	}
	needFUSE(t)
	needBusybox(t)
	needTools(t)
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents in %s: %v", folder, err)
	}
	found := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if texts := cutOut(string(b)); len(texts) > 0 {
			found++
			t.Run(filepath.Base(file), func(t *testing.T) { playDocument(t, texts) })
		}
	}
	if found == 0 {
		t.Errorf("none of %q has examples", files)
	}
}

// playDocument builds and loads the examples of a document: the source of the first, its
// Makefile, and the sources of the others.
func playDocument(t *testing.T, texts []string) {
	if len(texts) != 4 {
		t.Fatalf("%d texts", len(texts))
	}
	dir := publicDir(t)
	for i, name := range []string{"kprobe-example.c", "Makefile", "jprobe-example.c", "kretprobe-example.c"} {
		text, err := restore(texts[i])
		if err != nil {
			t.Fatal(err)
		}
		if name == "Makefile" { // its tabs were lost, and it builds one module
			text = regexp.MustCompile(`(?m)^ {8}`).ReplaceAllString(text, "\t")
			text = strings.Replace(text, "kprobe-example.o", "kprobe-example.o jprobe-example.o kretprobe-example.o", 1)
		}
		put(t, dir, name, text)
	}
	put(t, dir, "opens.c", "#include <sys/syscall.h>\n#include <unistd.h>\nint main(void) { return syscall(SYS_open, \"/nofile\", 0) != -1; }\n")
	compile(t, dir, "opens")
	for _, release := range []string{"2.6.25", "2.6.32"} {
		t.Run(release, func(t *testing.T) {
			out, status := asUser(nil).exec(t, dir, nil, []string{"--cpus", "1", "--release", release}, "busybox", "sh", "-c", documentScript)
			if status != 0 {
				t.Fatalf("status %d:\n%s", status, out)
			}
			at := 0
			for _, line := range documentLines {
				where := regexp.MustCompile(line).FindStringIndex(out[at:])
				if where == nil {
					t.Fatalf("no line %s after %d bytes of\n%s", line, at, out)
				}
				at += where[1]
			}
			if strings.Contains(out, "warning:") {
				t.Errorf("the compiler warns:\n%s", out)
			}
		})
	}
}

// compile makes a program of a C file in dir.
func compile(t *testing.T, dir, name string) {
	t.Helper()
	out, err := exec.Command("gcc", "-o", filepath.Join(dir, name), filepath.Join(dir, name+".c")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
