package look

import (
	"strconv"
	"strings"
)

// Queues are the optimizer's.
type Queues struct {
	On        bool     `json:"on"`
	Scheduled bool     `json:"scheduled"` // its timer runs
	ToJump    []string `json:"to_jump"`   // places whose breakpoint is to become a jump
	ToInt3    []string `json:"to_int3"`   // places whose jump is to become a breakpoint
	ToFree    int      `json:"to_free"`   // detours that nobody uses any more
}

// Optimizer reads machine/optimizer.
func Optimizer(read ReadFile) (q Queues, err error) {
	b, err := read("machine/optimizer")
	if err != nil {
		return q, err
	}
	q.ToJump, q.ToInt3 = []string{}, []string{}
	list := &q.ToJump
	for line := range strings.Lines(string(b)) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimSpace(value)
		switch {
		case strings.HasPrefix(line, " "):
			*list = append(*list, strings.TrimSpace(line))
		case !ok:
		case name == "on":
			q.On = value == "yes"
		case name == "scheduled":
			q.Scheduled = value == "yes"
		case name == "to int3":
			list = &q.ToInt3
		case name == "to free":
			q.ToFree, _ = strconv.Atoi(value)
		}
	}
	return q, nil
}

// Module is a kernel module that is loaded.
type Module struct {
	Name  string   `json:"name"`
	Size  uint64   `json:"size"` // bytes
	Refs  int      `json:"refs"`
	Users []string `json:"users"` // modules that use it
	State string   `json:"state"` // Live, Loading or Unloading
}

// Modules reads proc/modules.
func Modules(read ReadFile) ([]Module, error) {
	b, err := read("proc/modules")
	if err != nil {
		return nil, err
	}
	all := []Module{}
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		if len(words) < 5 {
			continue
		}
		m := Module{Name: words[0], Users: []string{}, State: words[4]}
		m.Size, _ = strconv.ParseUint(words[1], 10, 64)
		m.Refs, _ = strconv.Atoi(words[2])
		for _, u := range strings.Split(words[3], ",") {
			if u != "" && u != "-" {
				m.Users = append(m.Users, u)
			}
		}
		all = append(all, m)
	}
	return all, nil
}
