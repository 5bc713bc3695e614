package probe

import (
	"strings"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// MaxNameLen is MAX_EVENT_NAME_LEN: the size of a name with its NUL.
const MaxNameLen = 64

// ParseEventName is traceprobe_parse_event_name: "EVENT", "GROUP/EVENT", "GROUP.EVENT"
// or "GROUP/", for which a name is generated. offset is the position of s in the
// command's first word.
func (c *Rules) ParseEventName(s string, offset int) (group, event string, err *Error) {
	fail := func(e Reason) (string, string, *Error) {
		return "", "", &Error{e, 0, offset}
	}
	slash := strings.IndexByte(s, '/')
	if slash < 0 && c.has[release.GroupNames] {
		slash = strings.IndexByte(s, '.')
	}
	if slash >= 0 {
		group = s[:slash]
		switch {
		case group == "":
			return fail(errNoGroupName)
		case len(group)+1 > MaxNameLen:
			return fail(errGroupTooLong)
		case !GoodName(group, c.has[release.GroupNames]):
			return fail(errBadGroupName)
		}
		s, offset = s[slash+1:], offset+slash+1
	}
	switch {
	case s == "" && slash >= 0 && c.has[release.GroupNames]:
		return group, "", nil
	case s == "":
		return fail(errNoEventName)
	case len(s) > MaxNameLen || len(s) == MaxNameLen && c.has[release.GroupNames]:
		return fail(errEventTooLong)
	case !GoodName(s, false):
		return fail(errBadEventName)
	}
	return group, s, nil
}

// GoodName is is_good_name, C's rule for identifiers, or, with dash,
// is_good_system_name, which also allows '-'.
func GoodName(s string, dash bool) bool {
	for i := range len(s) {
		c := s[i]
		letter := kstrtox.IsAlpha(c) || c == '_' || dash && c == '-'
		if !letter && (i == 0 || c < '0' || '9' < c) {
			return false
		}
	}
	return s != ""
}

// SplitSymbolOffset is traceprobe_split_symbol_offset: SYM, SYM+N or SYM-N.
func SplitSymbolOffset(s string) (symbol string, offset int64, err error) {
	i := strings.IndexAny(s, "+-")
	if i < 0 {
		return s, 0, nil
	}
	offset, err = kstrtox.ParseInt(s[i:], 0)
	return s[:i], offset, err
}

// SanitizeEventName makes a valid name of a symbol that contains ':' or '.', and, on
// releases with fprobes, of a pattern.
func (c *Rules) SanitizeEventName(s string) string {
	if s == "" {
		return s
	}
	rest := s[1:] // the first byte stays
	if c.has[release.Fprobes] {
		rest = strings.ReplaceAll(rest, "*", "_")
	}
	return s[:1] + strings.NewReplacer(":", "_", ".", "_").Replace(rest)
}

// Texts returns the arguments as the listing shows them, each after a blank.
func Texts(args []Arg) (text string) {
	for i := range args {
		text += " " + args[i].definition()
	}
	return text
}

// Matches is trace_kprobe_match and the like: it reports whether the words after the name in a
// deletion, if any, equal what the listing shows.
func Matches(argv []string, place string, args []Arg) bool {
	if len(argv) == 0 {
		return true
	}
	if argv[0] != place || len(argv)-1 > len(args) {
		return false
	}
	for i, word := range argv[1:] {
		if word != args[i].definition() {
			return false
		}
	}
	return true
}
