package tracing

import "strings"

// maxNameLen is MAX_EVENT_NAME_LEN: the size of a name with its NUL.
const maxNameLen = 64

// parseEventName is traceprobe_parse_event_name: "EVENT", "GROUP/EVENT",
// "GROUP.EVENT" or "GROUP/", which leaves the event's name to be made up.
// offset is where s begins in the command's first word.
func (f Features) parseEventName(s string, offset int) (group, event string, err *definitionError) {
	fail := func(e probeError) (string, string, *definitionError) {
		return "", "", &definitionError{e, 0, offset}
	}
	slash := strings.IndexByte(s, '/')
	if slash < 0 && !f.PlainNames {
		slash = strings.IndexByte(s, '.')
	}
	if slash >= 0 {
		group = s[:slash]
		switch {
		case group == "":
			return fail(errNoGroupName)
		case len(group)+1 > maxNameLen:
			return fail(errGroupTooLong)
		case !goodName(group, !f.PlainNames):
			return fail(errBadGroupName)
		}
		s, offset = s[slash+1:], offset+slash+1
	}
	switch {
	case s == "" && slash >= 0 && !f.PlainNames:
		return group, "", nil
	case s == "":
		return fail(errNoEventName)
	case len(s) > maxNameLen || len(s) == maxNameLen && !f.PlainNames:
		return fail(errEventTooLong)
	case !goodName(s, false):
		return fail(errBadEventName)
	}
	return group, s, nil
}

// goodName is is_good_name, C's rule for identifiers, and with dash
// is_good_system_name, which lets groups have '-' as well.
func goodName(s string, dash bool) bool {
	for i := range len(s) {
		c := s[i]
		letter := isAlpha(c) || c == '_' || dash && c == '-'
		if !letter && (i == 0 || c < '0' || '9' < c) {
			return false
		}
	}
	return s != ""
}

// splitSymbolOffset is traceprobe_split_symbol_offset: SYM, SYM+N or SYM-N.
func splitSymbolOffset(s string) (symbol string, offset int64, err error) {
	i := strings.IndexAny(s, "+-")
	if i < 0 {
		return s, 0, nil
	}
	offset, err = parseInt(s[i:], 0)
	return s[:i], offset, err
}

// sanitizeEventName makes a name of a symbol that has ':' or '.'.
func sanitizeEventName(s string) string {
	return strings.NewReplacer(":", "_", ".", "_").Replace(s)
}
