package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// privateMasks are the sed expressions by which scripts may change the compared
// output, as patterns, each with a reason. They are only for what the file masks,
// which applies to all scripts, cannot express. No mask may hide a flag, an errno, a
// count or an order.
var privateMasks = []struct{ like, why string }{
	{`^s/\^ *[ >]*/ *[ >]*/|^s/\^ \*//$|^s/  \*\$//$|^s/ \*\[\^ \]\*\$//$`, "blanks, with which a list is indented or padded"},
	{`^s/\.\*: //$|^s/\^\[\^:\]\*: //$|^s/:\.\*:/:/|^s/'|kprobe_events\[A-Za-z0-9\]`, "the name of a program or of its temporary file in an error message"},
	{`^s/\^\\\[\[\^\]\]\*\\\] //|^s/\.\*error: //p$`, "the time in error_log, where the script counts lines"},
	{` T [a-z_]+\$//p|\[dDbB\]|\[Tt\] \$1|^s/\.\* 0x//p|_\\\(0x\[0-9a-f\]\*\\\)|ptr=\\\(|vfs_read\+0x\\\(|forked:\.\*pid=\\\(|^s/\^SigCgt:`, "takes a number out of a file to use it"},
	{`^s/\^\[?[.e]|^s/\^\.:|^s/\^\\\(\[pr\]\\\)|^s/\^\.\\\(|^s/vfs_read/vfs_open/$|^s/\^ \*\\\(\.\*\[\^\]\]`, "edits a listed definition, to write it back or to delete it"},
	{`VFS_READ|NUMBER|_ADDRESS|ADDR|PTR|/hash/|/IP/|/AUTO/|TRAMP|\+FAR|/USER|CODE`, "an address in a form that masks does not have: decimal, in a name, hashed, of data"},
	{`OUTER|OFF|0x\./\+0x|\+0x0/0x|path_openat| ->\.\*`, "the offset or size of a function of another kernel"},
	{`^s/\.\* ?\$?[a-z0-9]*:? ?/?|^s/\^?\.\*: ?(\\\(|[a-z\\])|^s/\.\*\b(leave|fork|lat|n=|error|write|trigger)|^s/\.\*TIME: `, "the columns before an event, which trace_entry, trace_int3, trace_optimized and trace_return compare"},
	{`^s/\^ \*[\[b].*busybox_reader|^s/\^ \*\.\*-|^s/\^ \*\[\^ \]|busybox_reader|\[00\[01\]\]|\[01\]|TASK|PID|-\[0-9\]\*|^s/\^ \*\[0-9\]\* //|^s/\^ \*//;s/-|<\\\.\\\.\\\.>`, "a pid, a CPU or a time in a layout that masks does not have (latency, raw, hex, one column)"},
	{`SEQ,USEC|\^0,\[0-9\]|usec|us |DATE`, "the number and the time of a line of the log, a date"},
	{`pid=N|ret=FD|\(TGID\)|CPU:N|total|entries-in|COUNT|V/; |ID:`, "a number that another run has otherwise: of a process, a descriptor, a CPU, an event, a buffer's size"},
	{`^s/\^# \.\*/# `, "a command with more than a hundred arguments, which run shows"},
	{`_m\)-|(busybox|go)_(m|\.|\$1)-\[0-9\]|=1\[0-9\],(ret)?=SAVED`, "the columns before an event's values, which trace_entry compares; the descriptor in which a shell saves another"},
	{`tracefs\|debugfs`, "what a list of mounts says of a file system beside its type and its options: the source, ids, options of the host"},
	{`^s,.*/\.\*/,.*DIR/,|^s,\$KPROBEFS_MNT/,`, "the directory in which a script is played"},
	{`=\$p /=P`, "the port that the system has chosen, in both byte orders; a long name"},
	{`block_rq_complete`, "the columns before an event of a disk, which trace_entry compares, and the task behind it: a kworker's, or the one that the interrupt has met"},
	{`\(execveat\|returns`, "the columns before an event's values, which trace_entry compares"},
	{`^s/\^\(pkey_alloc`, "what the host answers to a call that depends on its processor, its configuration and the caller's rights; that the call is seen is compared"},
	{`\[kr\]`, "the address and the offset of a listed probe"},
	{`\[2-9\]/1|/all/`, "how often a symbol is listed, and how many symbols there are: docs/reference/differences.md"},
	{`\\\[\\?\(?\.\*|\.\*\\\[//|\\\]\.\*//|^s/=\[\^ \]\*/=|vfs_\[a-z\]|/\^ \*vfs_/d|/x/|Totals|s/\^entries: `, "one part of a line, where the script compares that part only"},
}

// substitution matches sed commands that replace something.
var substitution = regexp.MustCompile(`\bsed\b(?:\s+-\w+)*\s+(?:-e\s+)?(?:'((?:[^']|'\\'')*)'|\\?"((?:[^"\\]|\\.)*)"|(s/\S+))`)

// TestPrivateMasks: each sed expression in a script matches one of privateMasks, and
// each of privateMasks is used.
func TestPrivateMasks(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(more) == 0 {
		t.Fatal(err, len(more))
	}
	used := make([]int, len(privateMasks))
	for _, file := range append(files, more...) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, script, _ := strings.Cut(string(b), "-- script --\n")
		script, _, _ = strings.Cut(script, "-- want --\n")
		for _, m := range substitution.FindAllStringSubmatch(script, -1) {
			expr := m[1] + m[2] + m[3]
			if !strings.Contains(expr, "s/") && !strings.Contains(expr, "s,") {
				continue
			}
			found := false
			for i, mask := range privateMasks {
				if regexp.MustCompile(mask.like).MatchString(expr) {
					used[i]++
					found = true
					break
				}
			}
			if !found {
				t.Errorf("%s: sed %q matches none of privateMasks: what does it hide, and why?", file, expr)
			}
		}
	}
	for i, n := range used {
		if n == 0 {
			t.Errorf("no script uses this any more: %s", privateMasks[i].why)
		}
	}
}
