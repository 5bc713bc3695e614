package main

import (
	"testing"

	"github.com/kprobefs/kprobefs/integration/linux"
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
