package main

import (
	"fmt"
	"strings"
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

// TestShare: each recording is in a share of one commit or another, and a
// share has about its part of them.
func TestShare(t *testing.T) {
	const recordings, n = 400, 4
	seen := map[string]bool{}
	for _, commit := range strings.Fields("a1e5493c2 2071418d1 0809d3688 5bc173fb0 5aa1874cd e972af412 d91735b11 6fa784cfe 9ce8d73aa cd99d1a00 e85286100 a7d0761ff 6d0433612 32acaa9ee 0e471c4dd dbec141cc") {
		var s share
		if err := s.Set(commit + "/4"); err != nil {
			t.Fatal(err)
		}
		has := 0
		for i := range recordings {
			if name := fmt.Sprintf("script_%d", i); s.has(name) {
				seen[name] = true
				has++
			}
		}
		if has < recordings/n/2 || has > recordings/n*2 {
			t.Errorf("%s: %d of %d recordings", commit, has, recordings)
		}
	}
	if len(seen) < recordings*95/100 {
		t.Errorf("%d of %d recordings were in a share of 16 commits", len(seen), recordings)
	}
	var all share
	if !all.has("script") {
		t.Error("without a share not all are checked")
	}
	for _, bad := range []string{"", "x", "x/", "x/0", "x/-1"} {
		if err := new(share).Set(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
