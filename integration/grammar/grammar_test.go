package grammar

import (
	"bytes"
	"strings"
	"testing"
)

func TestEscape(t *testing.T) {
	for _, text := range []string{
		"", "plain", "a\nb", `back\slash`, `\x41`, `\*20*a`, "\x00\xff\t", strings.Repeat("a", minRun-1), strings.Repeat("a", minRun),
		strings.Repeat("\\", 50) + strings.Repeat("\n", 50) + strings.Repeat("\x00", 5000) + "end",
	} {
		line := escape(text)
		if strings.ContainsAny(line, "\n\t\x00") {
			t.Errorf("%q: not a line: %q", text, line)
		}
		if got, err := unescape(line); err != nil || got != text {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
	for _, bad := range []string{`\`, `\q`, `\x`, `\x4`, `\*5`, `\*x*a`} {
		if got, err := unescape(bad); err == nil {
			t.Errorf("%q: got %q, no error", bad, got)
		}
	}
}

// TestTable: a table can be written and read back, and a seed always gives the same
// table.
func TestTable(t *testing.T) {
	for _, name := range Names {
		table := New(name, Seed)
		table.Kernel = "package version"
		for i := range table.Cases {
			s := &table.Cases[i].Steps[0]
			s.Answer = append(s.Answer, "17", "! "+escape("a\tb"))
		}
		var b bytes.Buffer
		if err := table.Write(&b); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		again, err := Parse(&b)
		if err != nil {
			t.Fatal(err)
		}
		if !again.SameInputs(New(name, Seed)) || again.Kernel != table.Kernel || len(again.Cases) == 0 {
			t.Errorf("%s: read again it has other inputs", name)
		}
		var c bytes.Buffer
		if err := again.Write(&c); err != nil || c.String() != text {
			t.Errorf("%s: written again it is another text (%v)", name, err)
		}
	}
	if New("none", Seed) != nil {
		t.Error("New returned a table for an unknown name")
	}
	if _, err := Parse(strings.NewReader("\tan answer to nothing\n")); err == nil {
		t.Error("an answer without a step was accepted")
	}
}
