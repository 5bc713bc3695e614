package host

import (
	"testing"
	"time"
)

// TestCallTime: each call that waits in vain halves the time of the calls after it. Calls that
// waited at the same time halve it once.
func TestCallTime(t *testing.T) {
	var c CallTime
	for _, want := range []time.Duration{time.Second, 500 * time.Millisecond, 250 * time.Millisecond} {
		d := c.Now()
		if d != want {
			t.Errorf("%v, want %v", d, want)
		}
		c.Late(d)
		c.Late(d)
	}
	for range 20 {
		c.Late(c.Now())
	}
	if d := c.Now(); d != slowPatience {
		t.Errorf("%v at the end, want %v", d, slowPatience)
	}
	c.InTime()
	if d := c.Now(); d != activityPatience {
		t.Errorf("%v after a call in time", d)
	}
}
