package guest_test

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
)

// reached are the guest's functions that tests have executed: those that they called,
// and in machines of watch those with an fentry site that ran.
var reached sync.Map // name → true

// minReached is the minimum number of them after all tests.
const minReached = 400

func TestMain(m *testing.M) {
	code := m.Run()
	all := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == ""
	n := 0
	reached.Range(func(any, any) bool { n++; return true })
	if testing.Verbose() {
		fmt.Println(n, "functions of the guest were reached")
	}
	if code == 0 && all && !testing.Short() && n < minReached {
		fmt.Printf("FAIL: the tests reach %d functions of the guest, want %d\n", n, minReached)
		code = 1
	}
	os.Exit(code)
}

// watch boots a machine in which each function with an fentry site is recorded when
// it runs.
func watch(t *testing.T, cpus int) *machine {
	t.Helper()
	m := boot(t, cpus)
	names := map[uint64]string{}
	hits := sync.Map{}
	m.SetHandlers(kernel.Handlers{Ftrace: func(tr *abi.Trap) {
		hits.Store(tr.Regs.IP, true)
		tr.Regs.IP += 5
	}})
	for _, addr := range m.Image().Mcount {
		if s, _, ok := m.Symbols().Lookup(addr); ok {
			names[addr] = s.Name
			if err := m.Sites().Arm(addr); err != nil {
				t.Fatalf("%s: %v", s.Name, err)
			}
		}
	}
	t.Cleanup(func() {
		hits.Range(func(k, _ any) bool {
			reached.Store(names[k.(uint64)], true)
			return true
		})
	})
	return m
}
