package look

import (
	"strconv"
	"strings"
)

// Write is a write to a file of the tree.
type Write struct {
	At     float64 `json:"at"` // seconds since boot
	PID    int     `json:"pid"`
	UID    int     `json:"uid"`
	Result string  `json:"result"` // bytes, or the name of an errno
	File   string  `json:"file"`   // its path in the kernel
	Comm   string  `json:"comm"`
	Text   string  `json:"text"` // its beginning
}

// Writes reads machine/writes: the last writes, the oldest first.
func Writes(read ReadFile) ([]Write, error) {
	b, err := read("machine/writes")
	if err != nil {
		return nil, err
	}
	all := []Write{}
	for line := range strings.Lines(string(b)) {
		if w, ok := parseWrite(strings.TrimSuffix(line, "\n")); ok {
			all = append(all, w)
		}
	}
	return all, nil
}

func parseWrite(line string) (w Write, ok bool) {
	fields := strings.SplitN(line, " ", 5)
	if len(fields) < 5 || fields[0] == "#" {
		return w, false
	}
	var errs [3]error
	w.At, errs[0] = strconv.ParseFloat(fields[0], 64)
	w.PID, errs[1] = strconv.Atoi(fields[1])
	w.UID, errs[2] = strconv.Atoi(fields[2])
	w.Result = fields[3]
	rest := fields[4]
	for _, to := range []*string{&w.File, &w.Comm, &w.Text} {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return w, false
		}
		*to, _ = strconv.Unquote(quoted)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	return w, errs == [3]error{} && rest == ""
}
