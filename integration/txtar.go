package integration

import "strings"

// part is one file of a txtar archive: a line "-- name --" and the lines after it.
type part struct{ name, data string }

// parseTxtar splits a txtar archive into the comment before its first part, and the parts.
func parseTxtar(text string) (comment string, parts []part) {
	into := &comment
	for _, line := range strings.SplitAfter(text, "\n") {
		if name, ok := partName(line); ok {
			parts = append(parts, part{name: name})
			into = &parts[len(parts)-1].data
			continue
		}
		*into += line
	}
	return comment, parts
}

func partName(line string) (string, bool) {
	line = strings.TrimSuffix(line, "\n")
	name, ok := strings.CutPrefix(line, "-- ")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(name, " --")
}

// formatTxtar formats an archive. Each text ends with a newline or is empty.
func formatTxtar(comment string, parts []part) string {
	var b strings.Builder
	b.WriteString(comment)
	for _, p := range parts {
		b.WriteString("-- " + p.name + " --\n" + p.data)
	}
	return b.String()
}
