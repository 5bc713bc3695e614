package share

import (
	"fmt"
	"strings"
	"testing"
)

// TestShare: each thing is in a share of one commit or another, and a
// share has about its part of them.
func TestShare(t *testing.T) {
	const things, n = 400, 4
	seen := map[string]bool{}
	for _, commit := range strings.Fields("a1e5493c2 2071418d1 0809d3688 5bc173fb0 5aa1874cd e972af412 d91735b11 6fa784cfe 9ce8d73aa cd99d1a00 e85286100 a7d0761ff 6d0433612 32acaa9ee 0e471c4dd dbec141cc") {
		var s Share
		if err := s.Set(commit + "/4"); err != nil {
			t.Fatal(err)
		}
		has := 0
		for i := range things {
			if name := fmt.Sprintf("script_%d", i); s.Has(name) {
				seen[name] = true
				has++
			}
		}
		if has < things/n/2 || has > things/n*2 {
			t.Errorf("%s: %d of %d things", commit, has, things)
		}
	}
	if len(seen) < things*95/100 {
		t.Errorf("%d of %d things were in a share of 16 commits", len(seen), things)
	}
	var all Share
	if !all.Has("script") {
		t.Error("the zero value does not choose all")
	}
	for _, bad := range []string{"", "x", "x/", "x/0", "x/-1"} {
		if err := new(Share).Set(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
