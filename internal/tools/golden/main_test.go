package main

import (
	"testing"

	"github.com/kprobefs/kprobefs/internal/tools/linux"
)

func TestUnfit(t *testing.T) {
	ok := linux.Result{Name: "a", Output: "1\n"}
	for _, tt := range []struct {
		name          string
		first, second linux.Result
		fit           bool
	}{
		{"same", ok, ok, true},
		{"other output", ok, linux.Result{Name: "a", Output: "2\n"}, false},
		{"other status", ok, linux.Result{Name: "a", Output: "1\n", Status: 1}, false},
		{"left", linux.Result{Name: "a", Output: "1\n", Left: "-0\n+1\n"}, ok, false},
		{"left in the second run", ok, linux.Result{Name: "a", Output: "1\n", Left: "-0\n+1\n"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if why := unfit(tt.first, tt.second); (why == "") != tt.fit {
				t.Errorf("got %q, want fit %v", why, tt.fit)
			}
		})
	}
}

func TestFormatsOf(t *testing.T) {
	const output = "LIST\nb:two\nx:other\na:one\n" +
		"name: one\nID: 7\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:int n;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"n=%d: \", REC->n\n" +
		"name: two\nID: 8\nformat:\n\nprint fmt: \"\"\n"
	const want = "a:one 7\n\tfield:int n;\toffset:8;\tsize:4;\tsigned:1;\n\t\"n=%d: \", REC->n\nb:two 8\n\t\"\"\n"
	got, err := formatsOf(output, []string{"a:one", "b:two", "c:none"})
	if err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	for _, bad := range []string{"", "a:one\n"} {
		if got, err := formatsOf(bad, []string{"a:one"}); err == nil {
			t.Errorf("%q gives %q", bad, got)
		}
	}
}
