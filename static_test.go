package kprobefs_test

import (
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// TestEvents612 hits static events that 6.12 has and 6.1 does not.
func TestEvents612(t *testing.T) {
	r, err := kprobefs.ParseRelease("6.12")
	if err != nil {
		t.Fatal(err)
	}
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 2, Release: r, Config: r.Config})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a := s.Tracer.Global()
	for _, group := range []string{"csd", "ipi", "ksm"} {
		if err := a.EnableSystem(group, []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	work := s.Machine.Symbols().LookupName("int_sqrt")[0].Addr
	if ret, err := s.Machine.Call(t.Context(), "smp_call_function_single", 1, work, 0, 1); err != nil || ret != 0 {
		t.Fatalf("smp_call_function_single: %d, %v", int64(ret), err)
	}
	prctl := func(option, arg uint64) int64 {
		t.Helper()
		ret, err := s.Machine.Host().Other(t.Context(), host.Caller{PID: 4000, TID: 4000}, host.Syscall{Nr: unix.SYS_PRCTL, Args: [6]uint64{option, arg}})
		if err != nil {
			t.Fatal(err)
		}
		return ret
	}
	for _, tt := range []struct {
		option, arg uint64
		want        int64
	}{
		{unix.PR_GET_MEMORY_MERGE, 0, 0},
		{unix.PR_SET_MEMORY_MERGE, 1, 0},
		{unix.PR_SET_MEMORY_MERGE, 1, 0},
		{unix.PR_GET_MEMORY_MERGE, 0, 1},
		{unix.PR_GET_MEMORY_MERGE, 1, -int64(unix.EINVAL)},
		{unix.PR_SET_MEMORY_MERGE, 0, 0},
		{unix.PR_GET_MEMORY_MERGE, 0, 0},
	} {
		if got := prctl(tt.option, tt.arg); got != tt.want {
			t.Errorf("prctl(%d, %d) = %d, want %d", tt.option, tt.arg, got, tt.want)
		}
	}
	for _, group := range []string{"csd", "ipi", "ksm"} {
		if err := a.EnableSystem(group, []byte("0")); err != nil {
			t.Fatal(err)
		}
	}
	var trace []byte
	reader := a.Trace(-1)
	for more := true; more; {
		trace, more = reader.Next(trace)
	}
	for _, want := range []string{
		`csd_queue_cpu: cpu=1 callsite=generic_exec_single\+\S+ func=int_sqrt csd=\S+\n`,
		`ipi_send_cpu: cpu=1 callsite=generic_exec_single\+\S+ callback=generic_smp_call_function_single_interrupt\+0x0/\S+\n`,
		`csd_function_entry: func=int_sqrt, csd=\S+\n`,
		`csd_function_exit: func=int_sqrt, csd=\S+\n`,
		`ksm_enter: mm \S+\n`,
	} {
		if !regexp.MustCompile(want).Match(trace) {
			t.Errorf("no %s in:\n%s", want, trace)
		}
	}
	if n := strings.Count(string(trace), "ksm_enter:"); n != 1 {
		t.Errorf("%d times ksm_enter", n)
	}
}
