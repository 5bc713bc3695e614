package cmdlines

import "testing"

func TestSavedCmdlinesWrap(t *testing.T) {
	const room = 6552 // Linux's value for the default 128
	var c Names
	c.Resize(RoomFor(Default, true))
	for pid := int32(1); pid <= room+2; pid++ {
		name := Comm{'n'}
		c.Save(pid, &name)
	}
	for _, pid := range []int32{1, 4, 5 + Max} { // tasks without a saved name
		c.Renamed(pid, "a name of more than 15")
	}
	for pid, want := range map[int32]string{1: "<...>", 2: "<...>", 3: "n", 4: "a name of more ", 5: "n", room + 2: "n", 3 + Max: "<...>", 0: "<idle>"} {
		if got := c.Find(pid); got.String() != want {
			t.Errorf("pid %d: %q, want %q", pid, got, want)
		}
	}
}
