package machinefs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/wait"
)

// load is the file machine/load/call. A write of "SYMBOL N [ARG]..." calls a function N
// times on each vCPU in parallel and returns when all calls are done; an argument is a
// number, or a symbol that stands for its address. A read returns the results of the
// last write.
type load struct {
	c Config

	mu   sync.Mutex
	last string
}

// maxArgs is how many arguments a call may have.
const maxArgs = 5

// maxCalls bounds N; more calls would not end in reasonable time.
const maxCalls = 1 << 40

func (l *load) file() seqfile.File {
	return seqfile.Value{
		Get: func(context.Context) (string, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.last, nil
		},
		Set: func(ctx context.Context, p []byte) (int, error) {
			addr, count, args, err := l.c.parseCall(string(p))
			if err != nil {
				return 0, err
			}
			return len(p), l.run(ctx, addr, count, args)
		},
	}
}

// parseCall reads the line.
func (c Config) parseCall(line string) (addr, count uint64, args []uint64, err error) {
	f := strings.Fields(line)
	if len(f) < 2 || len(f) > 2+maxArgs {
		return 0, 0, nil, fmt.Errorf("%q is not SYMBOL N [ARG]...: %w", line, syscall.EINVAL)
	}
	if addr, err = c.function(f[0]); err != nil {
		return 0, 0, nil, err
	}
	if count, err = kstrtox.ParseUint(f[1], 0, math.MaxUint64); err != nil || count == 0 || count > maxCalls {
		return 0, 0, nil, fmt.Errorf("%q is no count: %w", f[1], syscall.EINVAL)
	}
	for _, s := range f[2:] {
		a, err := c.argument(s)
		if err != nil {
			return 0, 0, nil, err
		}
		args = append(args, a)
	}
	return addr, count, args, nil
}

func (c Config) function(name string) (uint64, error) {
	syms := c.Symbols.LookupName(name)
	switch {
	case len(syms) == 0:
		return 0, fmt.Errorf("no symbol %q: %w", name, syscall.ENOENT)
	case len(syms) > 1:
		return 0, fmt.Errorf("%d symbols %q: %w", len(syms), name, syscall.EADDRNOTAVAIL)
	case !isFunction(syms[0]):
		return 0, fmt.Errorf("%q is no function: %w", name, syscall.EINVAL)
	}
	return syms[0].Addr, nil
}

func (c Config) argument(s string) (uint64, error) {
	if v, err := kstrtox.ParseUint(s, 0, math.MaxUint64); err == nil {
		return v, nil
	}
	if v, err := kstrtox.ParseInt(s, 0); err == nil {
		return uint64(v), nil
	}
	if syms := c.Symbols.LookupName(s); len(syms) == 1 {
		return syms[0].Addr, nil
	}
	return 0, fmt.Errorf("argument %q is neither a number nor a symbol: %w", s, syscall.EINVAL)
}

// result is the outcome of the calls on one vCPU.
type result struct {
	cpu  int
	ret  uint64
	err  error
	took time.Duration
}

// epoch is where now begins without a clock of the machine.
var epoch = time.Now()

// now is the time by which calls are measured.
func (c Config) now() time.Duration {
	if c.Now != nil {
		return time.Duration(c.Now())
	}
	return time.Since(epoch)
}

func (l *load) run(ctx context.Context, addr, count uint64, args []uint64) error {
	results := make([]result, l.c.CPUs)
	call := func(i int) {
		begin := l.c.now()
		ret, err := l.c.CallOn(ctx, i, addr, count, args...)
		results[i] = result{cpu: i, ret: ret, err: err, took: l.c.now() - begin}
	}
	var wg sync.WaitGroup
	for i := range results {
		if wait.Of(ctx) != nil { // who waits for the guest executes all vCPUs
			call(i)
		} else {
			wg.Go(func() { call(i) })
		}
	}
	wg.Wait()
	var b strings.Builder
	var errs []error
	for _, r := range results {
		if r.err != nil {
			errs = append(errs, r.err)
			fmt.Fprintf(&b, "cpu%d: %v\n", r.cpu, r.err)
			continue
		}
		fmt.Fprintf(&b, "cpu%d: %d calls, %.1f ns each, the last gave %#x\n", r.cpu, count, float64(r.took.Nanoseconds())/float64(count), r.ret)
	}
	l.mu.Lock()
	l.last = b.String()
	l.mu.Unlock()
	return errors.Join(errs...)
}
