package grammar

import (
	"slices"
	"strings"
)

// wordsSetup defines the events that the small files act on.
const wordsSetup = "p:a vfs_read\np:b vfs_write\np:g/a vfs_open"

// wordFile is a file to which a word is written, with valid words. The operation is
// the file's path below tracing.
type wordFile struct {
	path  string
	words []string
}

var smallFiles = []wordFile{
	{"tracing_on", []string{"0", "1", "5", "0x1", "010", "4294967296"}},
	{"events/kprobes/a/enable", []string{"0", "1", "2", "01", "1x"}},
	{"events/kprobes/enable", []string{"0", "1", "2", "+1"}},
	{"events/enable", []string{"0", "2", "00"}},
	{"set_event", []string{
		"kprobes:a", "kprobes", "a", "g", "g:a", "*:a", "kprobes:*", "kprobes:", ":a", "*:b", "nosuch", "!a", "!kprobes:a", "!nosuch", "!kprobes:", "a b", "a nosuch b",
		"kprobes:a g:a", "kprobes:a\ng:a", "a,b", "kprobes:a:b", "kprobes:a*", "a*", "kprobe", "kprobes:A", "! a", "!!a", "a !a", "kprobes:nosuch", "nosuch:a", "kprobes::a", "g:*", "g: a", "kprobes/a",
	}},
	{"trace_clock", []string{"local", "global", "counter", "uptime", "perf", "mono", "mono_raw", "boot", "tai", "x86-tsc", "[local]", "local global", "loc", "localx", "LOCAL"}},
	{"current_tracer", []string{"nop", "nosuch", "nopx", "no", "NOP", "nop nop", "[nop]"}},
	{"buffer_size_kb", []string{"4", "8", "100", "0", "1408", "1", "0x10", "4k", "18446744073709551615", "18446744073709551616"}},
	{"trace", []string{"0", "x"}},
	{"error_log", []string{"0", "x"}},
}

// optionFiles are the files that configure tracing, with their valid words.
var optionFiles = []wordFile{
	{"trace_options", []string{"raw", "noraw", "no raw", "print-parent", "noprint-parent", "nosym-addr", "RAW", "raw hex", "raw,hex", "nonoraw", "sym_addr", "overwrite", "nooverwrite", "stacktracex", "irq", "no-raw", "none"}},
	{"options/raw", []string{"0", "1", "2", "01", "+1", "0x1"}},
	{"options/overwrite", []string{"0", "1", "10"}},
	{"tracing_cpumask", []string{"1", "2", "3", "0", "f", "F", "0x1", "00000003", "1,3", "00000000,00000001", "0-1", "g", "3,", ",3", "100000000"}},
	{"saved_cmdlines_size", []string{"1", "128", "200", "0", "32768", "32769", "0x80"}},
	{"buffer_percent", []string{"0", "1", "50", "100", "101", "1000"}},
	{"tracing_thresh", []string{"0", "1", "100", "18446744073709551615", "18446744073709552"}},
	{"set_event_pid", []string{"1", "1 2", "1 2 3", "0", "32768", "4194304", "4194305", "-1", "1,2", "01", "0x1", "1 x", "x 1", "1 1"}},
	{"set_event_notrace_pid", []string{"1", "1 2", "x"}},
}

// optionDefaults are written after each case that has written to optionFiles.
var optionDefaults = [...][2]string{
	{"trace_options", "noraw"},
	{"trace_options", "nohex"},
	{"trace_options", "print-parent"},
	{"trace_options", "nosym-addr"},
	{"trace_options", "overwrite"},
	{"tracing_cpumask", "3"},
	{"saved_cmdlines_size", "128"},
	{"buffer_percent", "50"},
	{"tracing_thresh", "0"},
}

// oddWords are written to all files.
var oddWords = []string{
	"", "\n", " ", "x", "-1", "+0", "00", " 0", "0 ", "0\n", "0\n\n", "0 x", "0\x00", "\x000", "0\t", "\t0", "0,1", "1e0", "0.0", "off", "on", "y", "N", "0x", "0xg", "08", "2147483648",
	"9223372036854775808", "18446744073709551616", "99999999999999999999999", "--0", "#", "!", "*", ":", "/", "é", "\xa0", "'0'", "\"0\"", "$x", "-",
	strings.Repeat("0", 62), strings.Repeat("0", 63), strings.Repeat("0", 64), strings.Repeat("0", 65), strings.Repeat("0", 66), strings.Repeat("0", 100),
	strings.Repeat("a", 98), strings.Repeat("a", 99), strings.Repeat("a", 100), strings.Repeat("a", 101), strings.Repeat("a", 126), strings.Repeat("a", 127), strings.Repeat("a", 128),
	strings.Repeat(" ", 70), strings.Repeat("x", 4095), strings.Repeat("x", 4096), strings.Repeat("x", 5000),
}

// blankWords are blanks and other characters around a word.
var blankWords = []string{" %", "% ", "%\n", "%\n\n", "\t%", "% %", "%\x00", "%\x00x", "%;", "%\r\n", "%#", "%\xa0", "\n%", "!%"}

// words returns cases of single writes to the small files, and of a few in sequence.
func words(g *gen) []Case {
	cases, add := g.wordCases(smallFiles)
	for range 60 { // combinations of files that switch events
		var steps []Step
		for range g.one2(3, 6) {
			f := smallFiles[g.one2(1, 4)]
			steps = append(steps, Step{Op: f.path, Data: g.one(f.words...)})
		}
		add(steps...)
	}
	return *cases
}

// options does the same for the files that configure tracing.
func options(g *gen) []Case {
	cases, _ := g.wordCases(optionFiles)
	return *cases
}

// wordCases returns cases for the words of each file, odd words, and words with
// blanks around; add adds another case.
func (g *gen) wordCases(files []wordFile) (cases *[]Case, add func(...Step)) {
	cases = new([]Case)
	add = func(steps ...Step) {
		*cases = append(*cases, Case{append([]Step{{Op: opSetup, Data: wordsSetup}}, steps...)})
	}
	for _, f := range files {
		for _, w := range slices.Concat(f.words, oddWords) {
			if f.path == "set_event" && w == ":" {
				continue // would enable all of Linux's events
			}
			add(Step{Op: f.path, Data: w})
		}
		for _, around := range blankWords {
			add(Step{Op: f.path, Data: strings.ReplaceAll(around, "%", g.one(f.words...))})
		}
		for range 12 {
			var steps []Step
			for range g.one2(2, 4) {
				steps = append(steps, Step{Op: f.path, Data: g.one(f.words...)})
			}
			add(steps...)
		}
	}
	return cases, add
}
