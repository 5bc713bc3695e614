package kprobefs_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/internal/inner"
)

// start boots a kernel that is closed at the end, if it has not been.
func start(t *testing.T, o kprobefs.Options) *kprobefs.Kernel {
	t.Helper()
	o.CPUs = 2
	k, err := kprobefs.Boot(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return k
}

// returns fails the test when f takes longer than a minute.
func returns(t *testing.T, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		t.Fatalf("%s does not return", what)
		return nil
	}
}

// methods are all methods that use a kernel, with the probes p, r and j.
func methods(k *kprobefs.Kernel, p *kprobefs.Kprobe, r *kprobefs.Retprobe, j *kprobefs.Jprobe) map[string]func() error {
	ctx := context.Background()
	return map[string]func() error{
		"Register":           func() error { return k.Register(p) },
		"Unregister":         func() error { return k.Unregister(p) },
		"RegisterRetprobe":   func() error { return k.RegisterRetprobe(r) },
		"UnregisterRetprobe": func() error { return k.UnregisterRetprobe(r) },
		"RegisterJprobe":     func() error { return k.RegisterJprobe(j) },
		"UnregisterJprobe":   func() error { return k.UnregisterJprobe(j) },
		"Attach":             func() error { _, err := k.Attach(p); return err },
		"AttachRetprobe":     func() error { _, err := k.AttachRetprobe(r); return err },
		"Call":               func() error { _, err := k.Call(ctx, "gcd", 4, 6); return err },
		"ReadFile":           func() error { _, err := k.ReadFile("kprobes/list"); return err },
		"ReadFileContext":    func() error { _, err := k.ReadFileContext(ctx, "kprobes/list"); return err },
		"WriteFile":          func() error { return k.WriteFile("kprobes/enabled", "1") },
		"AppendFile":         func() error { return k.AppendFile("kprobes/enabled", "1") },
		"Insmod":             func() error { _, err := k.Insmod([]byte("no module"), ""); return err },
		"Mount":              func() error { _, err := k.Mount("/nonexistent"); return err },
		"Status":             func() error { _, err := k.Status(); return err },
		"TraceFeed":          func() error { _, _, err := k.TraceFeed().Next(1); return err },
		"Close":              k.Close,
	}
}

// TestClosed: after Close each method returns ErrClosed, and none panics or hangs.
func TestClosed(t *testing.T) {
	k := start(t, kprobefs.Options{})
	p := &kprobefs.Kprobe{SymbolName: "gcd"}
	r := &kprobefs.Retprobe{Kprobe: kprobefs.Kprobe{SymbolName: "int_pow"}}
	if err := errors.Join(k.Register(p), k.RegisterRetprobe(r), k.Close()); err != nil {
		t.Fatal(err)
	}
	for name, f := range methods(k, p, r, &kprobefs.Jprobe{}) {
		if err := returns(t, name, f); !errors.Is(err, kprobefs.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
}

// TestClosedLooks: what looks at a kernel without an error to return works after Close too, and
// stopping what is stopped does nothing.
func TestClosedLooks(t *testing.T) {
	k := start(t, kprobefs.Options{})
	feed := k.TraceFeed()
	if _, _, err := feed.Next(1); err != nil {
		t.Fatal(err)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if names := k.Functions("vfs_read", 1); len(names) != 1 {
		t.Errorf("Functions: %q", names)
	}
	if records := k.Log(0, 1); len(records) != 1 {
		t.Errorf("Log: %v", records)
	}
	feed.Close()
	inner.Of(k).Halt()
	if err := returns(t, "Retire", inner.Of(k).Retire); err != nil {
		t.Errorf("Retire: %v", err)
	}
	select {
	case <-k.Died():
		t.Error("a kernel that was closed has died")
	default:
	}
}

// TestBadArguments: numbers that mean nothing are no panic.
func TestBadArguments(t *testing.T) {
	k := start(t, kprobefs.Options{})
	feed := k.TraceFeed()
	defer feed.Close()
	for _, n := range []int{-1, 0} {
		if names := k.Functions("vfs_", n); len(names) != 0 {
			t.Errorf("Functions of %d: %q", n, names)
		}
		if entries, _, err := feed.Next(n); len(entries) != 0 || err != nil {
			t.Errorf("Next of %d: %q, %v", n, entries, err)
		}
		if records := k.Log(0, n); len(records) != 0 {
			t.Errorf("Log of %d: %v", n, records)
		}
	}
	if _, err := k.Insmod(nil, ""); err == nil {
		t.Error("Insmod of nothing")
	}
	if _, err := k.ReadFile(""); err == nil {
		t.Error("ReadFile of no name")
	}
	if v, err := k.Call(context.Background(), "gcd", 4, 6); v != 2 || err != nil {
		t.Error(v, err)
	}
}

// TestRegisterAgain: a struct whose probe was unregistered is refused while it has the address that
// Register has set, with the reason, and is taken when that is cleared, on each release.
func TestRegisterAgain(t *testing.T) {
	for _, v := range []kprobefs.Version{kprobefs.Linux2_6_25, kprobefs.Linux2_6_32, kprobefs.Linux4_15, kprobefs.Linux5_10, kprobefs.Linux6_1, kprobefs.Linux6_12} {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			k := start(t, kprobefs.OptionsOf(v))
			hits := 0
			p := &kprobefs.Kprobe{SymbolName: "gcd", PreHandler: func(*kprobefs.Hit) int { hits++; return 0 }}
			if err := errors.Join(k.Register(p), k.Unregister(p)); err != nil {
				t.Fatal(err)
			}
			err := k.Register(p)
			if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "a registration sets the address") {
				t.Errorf("registered again as it is: %v", err)
			}
			p.Addr = 0
			if err := k.Register(p); err != nil {
				t.Fatal(err)
			}
			if _, err := k.Call(context.Background(), "gcd", 4, 6); err != nil || hits != 1 {
				t.Errorf("%d hits, %v", hits, err)
			}
			if err := k.Register(p); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("registered twice: %v", err)
			}
		})
	}
}

// TestNoProbe: a nil argument is an error, and the kernel works after it.
func TestNoProbe(t *testing.T) {
	k := start(t, kprobefs.Options{})
	all := methods(k, nil, nil, nil)
	for _, name := range []string{"Register", "Unregister", "RegisterRetprobe", "UnregisterRetprobe", "RegisterJprobe", "UnregisterJprobe", "Attach", "AttachRetprobe"} {
		if err := returns(t, name, all[name]); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v, want EINVAL", name, err)
		}
	}
	var none context.Context
	if _, err := k.Call(none, "gcd", 4, 6); err == nil {
		t.Error("Call without a context")
	}
	if _, err := k.ReadFileContext(none, "kprobes/list"); err == nil {
		t.Error("ReadFileContext without a context")
	}
	if v, err := k.Call(context.Background(), "gcd", 4, 6); v != 2 || err != nil {
		t.Error(v, err)
	}
}

// TestCloseEnds: Close ends what waits: a read of trace_pipe, and calls.
func TestCloseEnds(t *testing.T) {
	k := start(t, kprobefs.Options{})
	ended := make(chan error, 2)
	go func() { _, err := k.ReadFile("tracing/trace_pipe"); ended <- err }()
	go func() {
		for {
			if _, err := k.Call(context.Background(), "gcd", 4, 6); err != nil {
				ended <- err
				return
			}
		}
	}()
	time.Sleep(50 * time.Millisecond)
	if err := returns(t, "Close", k.Close); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := returns(t, "a method", func() error { return <-ended }); !errors.Is(err, kprobefs.ErrClosed) {
			t.Errorf("%v, want ErrClosed", err)
		}
	}
}

// TestContexts: a context that has ended lets nothing begin, one that ends during a wait ends it.
func TestContexts(t *testing.T) {
	k := start(t, kprobefs.Options{})
	hits := 0
	p := &kprobefs.Kprobe{SymbolName: "gcd", PreHandler: func(*kprobefs.Hit) int { hits++; return 0 }}
	if err := k.Register(p); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := k.Call(ctx, "gcd", 4, 6); !errors.Is(err, context.Canceled) || hits != 0 {
		t.Errorf("%v, %d hits", err, hits)
	}
	ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := k.ReadFileContext(ctx, "tracing/trace_pipe"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestHangingHandler: a call returns at its deadline although a handler does not, and says so.
func TestHangingHandler(t *testing.T) {
	k := start(t, kprobefs.Options{})
	leave := make(chan struct{})
	p := &kprobefs.Kprobe{SymbolName: "gcd", PreHandler: func(*kprobefs.Hit) int { <-leave; return 0 }}
	if err := k.Register(p); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := returns(t, "Call", func() error { _, err := k.Call(ctx, "gcd", 4, 6); return err })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	close(leave)
	if v, err := k.Call(context.Background(), "gcd", 4, 6); v != 2 || err != nil {
		t.Error(v, err)
	}
}

// TestAttach: what Attach returns unregisters the probe, which can be attached again.
func TestAttach(t *testing.T) {
	k := start(t, kprobefs.Options{})
	hits, ends := 0, 0
	p := &kprobefs.Kprobe{SymbolName: "gcd", PreHandler: func(*kprobefs.Hit) int { hits++; return 0 }}
	r := &kprobefs.Retprobe{Kprobe: kprobefs.Kprobe{SymbolName: "gcd"}, Handler: func(*kprobefs.Instance, *kprobefs.Hit) int { ends++; return 0 }}
	for range 2 {
		a, err := k.Attach(p)
		if err != nil {
			t.Fatal(err)
		}
		b, err := k.AttachRetprobe(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = k.Call(context.Background(), "gcd", 4, 6)
		for _, c := range []io.Closer{a, b, a, b} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if hits != 2 || ends != 2 {
		t.Errorf("%d hits and %d returns, want 2 and 2", hits, ends)
	}
	// As on Linux the address stays after unregister_kprobe, and symbol and address are refused.
	if err := errors.Join(k.Register(p), k.Unregister(p)); err != nil {
		t.Fatal(err)
	}
	if err := k.Register(p); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}
