package kernelfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/kernel/vm"
)

const longCall = `Call functions of a kernel that is not booted: the one of --kernel FILE, or of a tree that
'kprobefs mount --kernel' serves, where probes in them are hit (--at, or the tree of
exec, if none is given).

A CALL is FUNCTION(ARGUMENT, ...). An argument is a number (12, -1, 0x7f, 'c'); a text
("abc\n", with a NUL at its end); bytes ({de ad be ef}); a buffer of zeros ([64]); or the
name of a symbol, which stands for its address. Of texts, bytes and buffers the address
is passed. The result is what the function has left in rax, and the buffers that it has
changed.

Nothing of the kernel has been initialized. What a function can do is compute: with its
arguments, the kernel's tables and the stack. One that allocates, sleeps, takes what
boot has set up, or accesses devices ends with an error, and so does one that does not
return within 4 billion instructions. Each call has its own stack and buffers, but the
kernel's data stay as a call has left them, in a tree as long as it is mounted.

The exit status is 1 when a call has failed, and 2 when there is none to make.`

// Call returns the command call.
func Call() *cobra.Command {
	var f Flags
	at := cli.TreeFlag{}
	c := &cobra.Command{
		Use:   "call [--at MNT | --kernel FILE] CALL...",
		Short: "Call functions of a kernel's file",
		Long:  longCall,
		Example: `  kprobefs call --kernel /boot/vmlinuz-6.1.0-50-amd64 'strlen("abc")'
  kprobefs call --at /mnt 'snprintf([32], 32, "%s %d", "abc", 42)' 'crc32_le(0, {31 32 33}, 3)'`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			call, end, err := callsOf(&f, &at)
			if err != nil {
				return &cli.ExitError{Err: err, Status: cli.Exited(cli.UsageStatus)}
			}
			defer end()
			return callAll(c.Context(), c.OutOrStdout(), call, args)
		},
	}
	at.AddTo(c)
	f.AddTo(c.Flags())
	c.Flags().Lookup("kernel").Usage = "the kernel's `FILE`: a bzImage, an ELF vmlinux, or a Debian or RPM package"
	return c
}

// callAll makes the calls. It makes the others when one has failed.
func callAll(ctx context.Context, out io.Writer, call func(context.Context, string) (string, error), args []string) error {
	var errs []error
	for _, text := range args {
		said, err := call(ctx, text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprint(out, said)
	}
	if err := errors.Join(errs...); err != nil {
		return &cli.ExitError{Err: err, Status: cli.Exited(1)}
	}
	return nil
}

// callsOf returns what makes a call.
func callsOf(f *Flags, at *cli.TreeFlag) (call func(context.Context, string) (string, error), end func(), err error) {
	if f.File == "" {
		dir, err := at.Find()
		if err != nil {
			return nil, nil, err
		}
		return func(_ context.Context, text string) (string, error) { return callIn(dir, text) }, func() {}, nil
	}
	if at.Dir != "" {
		return nil, nil, errTwoKernels
	}
	k, err := f.Load()
	if err != nil {
		return nil, nil, err
	}
	m, err := vm.New(vm.Options{Kernel: k})
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, text string) (string, error) {
		e, err := vm.ParseCall(text, k.Symbols)
		if err != nil {
			return "", err
		}
		r, err := m.Call(ctx, e.Call)
		if err != nil {
			return "", fmt.Errorf("%s: %w", e.Name, err)
		}
		return e.Show(r), nil
	}, func() { _ = m.Close() }, nil
}

// callIn makes a call by the file machine/call.
func callIn(dir, text string) (string, error) {
	f, err := os.OpenFile(filepath.Join(dir, "machine", "call"), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%s shows the emulated kernel: calls are made in a file's (mount --kernel FILE)", dir)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, werr := f.WriteString(text)
	said, err := io.ReadAll(f)
	if werr != nil {
		if why, ok := strings.CutPrefix(string(said), "error: "); ok {
			return "", errors.New(strings.TrimSpace(why))
		}
		return "", werr
	}
	return string(said), err
}
