package cmdlines

import "testing"

func TestTGIDs(t *testing.T) {
	var m TGIDs
	m.Save(5, 4)
	if got := m.Find(5); got != 0 {
		t.Errorf("before Grow: %d", got)
	}
	m.Grow()
	for pid, tgid := range map[int32]int32{5: 4, 6: 4, pidLimit: 7, pidLimit + 1: 1, 0: 1, -1: 1} {
		m.Save(pid, tgid)
	}
	for pid, want := range map[int32]int32{5: 4, 6: 4, 7: 0, pidLimit: 7, pidLimit + 1: 0, 0: 0, -1: 0} {
		if got := m.Find(pid); got != want {
			t.Errorf("pid %d: %d, want %d", pid, got, want)
		}
	}
	var pids []int
	for pid := range m.All() {
		pids = append(pids, pid)
	}
	if len(pids) != 3 || pids[0] != 5 || pids[2] != pidLimit {
		t.Errorf("saved for %d", pids)
	}
	m.Grow()
	if m.Find(5) != 4 {
		t.Error("a second Grow forgets")
	}
}

func TestRoomFor(t *testing.T) {
	for _, c := range []struct {
		n, room int
		pids    bool
	}{{Default, 6552, true}, {Default, 8190, false}, {6552, 6552, true}, {6553, 19659, true}} {
		if got := RoomFor(c.n, c.pids); got != c.room {
			t.Errorf("%d names, pids %v: room for %d, want %d", c.n, c.pids, got, c.room)
		}
	}
}
