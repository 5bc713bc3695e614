package why

import (
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// batch is how many functions one goroutine answers for at a time.
const batch = 256

// All writes a row of TSV for each instruction of each function of a kernel's text, by address.
func All(w io.Writer, c Config) error {
	functions := textFunctions(c.Kernel)
	workers := max(1, runtime.GOMAXPROCS(0))
	jobs := make(chan job)
	order := make(chan chan string, 2*workers)
	for range workers {
		go func() {
			a := New(c)
			for j := range jobs {
				j.rows <- a.rows(j.functions)
			}
		}()
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		defer close(jobs)
		defer close(order)
		for len(functions) > 0 {
			n := min(batch, len(functions))
			j := job{functions[:n], make(chan string, 1)}
			functions = functions[n:]
			select {
			case order <- j.rows:
			case <-stop:
				return
			}
			select {
			case jobs <- j:
			case <-stop:
				return
			}
		}
	}()
	for rows := range order {
		if _, err := io.WriteString(w, <-rows); err != nil {
			return fmt.Errorf("writing the answers: %w", err)
		}
	}
	return nil
}

// job are the functions that one goroutine answers for, and where it sends their rows.
type job struct {
	functions []abi.Symbol
	rows      chan string
}

// textFunctions returns the symbols of kernel text, one for each address.
func textFunctions(k Kernel) []abi.Symbol {
	var all []abi.Symbol
	for _, s := range k.All() {
		if s.Module != "" || s.Size == 0 || !k.KernelText(s.Addr) || len(all) > 0 && all[len(all)-1].Addr == s.Addr {
			continue
		}
		all = append(all, s)
	}
	return all
}

func (a *Asker) rows(functions []abi.Symbol) string {
	var b strings.Builder
	for _, s := range functions {
		for _, addr := range a.boundaries(s) {
			b.WriteString(a.TSV(a.At(addr)))
			b.WriteByte('\n')
		}
	}
	return b.String()
}
