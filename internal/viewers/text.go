package viewers

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/look"
	"github.com/kprobefs/kprobefs/internal/look/source"
)

const longText = `Show a function of a mounted tree's kernel, disassembled as its bytes are now. A line
that begins with * is patched: by int3 (a breakpoint), by a jump to a detour (an
optimized probe), or by a call to ftrace's trampoline. What stood there is beside it,
instruction by instruction, behind a bar: all instructions that a jump replaces are.

Below a probed instruction is the code that executes it outside of the function: the
slot with its copy, which is single-stepped up to the int3 after it; the copy that
jumps back by itself, where a step is not needed; the detour, which saves the
registers, calls the handlers and restores them; and behind it the copied instructions
and the jump back. A probe that is not armed shows what would be used.

Above the instructions stand the lines of C that they were compiled from: of a module, if
it was built with debug information (-g); of the kernel with --source FILE, which is the
kernel with debug information, at the same addresses. --source DIR is where sources of
modules are that are not at the place where they were compiled.

Without addresses in /proc/kallsyms, they are zeros. --json writes an array with an
object for each function of that name: name, module and instructions, each with
address, offset, bytes, text, and where it is patched or probed: patch (int3, jump or
call), was, and probe (armed, flags, carried_out, copies).`

func textCommand() *cobra.Command {
	at, asJSON, files := &cli.TreeFlag{}, false, []string(nil)
	c := &cobra.Command{
		Use:     "text [--at MNT] [--source FILE|DIR]... [--json] FUNCTION",
		Short:   "Show a function's instructions as they are now",
		Long:    longText,
		Example: "  kprobefs text --at /mnt vfs_read\n  kprobefs text vfs_read --json | jq '.[].instructions[] | select(.patch)'",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return functions(at, args, begun), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: at.Run(func(c *cobra.Command, dir string, args []string) error {
			functions, err := look.Functions(look.Files(dir), args[0])
			if errors.Is(err, syscall.ENOENT) {
				err = suggest(dir, args[0], err)
			}
			if err == nil {
				err = addSource(look.Files(dir), functions, files)
			}
			switch {
			case err != nil:
				return err
			case asJSON:
				return writeJSON(c.OutOrStdout(), functions)
			}
			return printFunctions(cli.NewScreen(c.OutOrStdout()), functions)
		}),
	}
	at.AddTo(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write a JSON array of functions")
	c.Flags().StringArrayVar(&files, "source", nil, "show lines of C, by the debug information of this kernel's file; of a directory, sources of modules")
	return c
}

// mostSuggested is how many names are suggested.
const mostSuggested = 8

// suggest adds to the error of a name that no function has those that begin with it.
func suggest(tree, name string, err error) error {
	names, _ := look.FunctionNames(tree, name)
	if name == "" || len(names) == 0 {
		return err
	}
	more := ""
	if len(names) > mostSuggested {
		more = fmt.Sprintf(" and %d more", len(names)-mostSuggested)
		names = names[:mostSuggested]
	}
	return fmt.Errorf("%w; there are %s%s", err, strings.Join(names, ", "), more)
}

// addSource adds the lines of C.
func addSource(read look.ReadFile, functions []look.Function, files []string) error {
	lines, err := source.New(files, func(dirs []string) source.Finder {
		within := source.Within(dirs)
		return func(name string) ([]byte, string) {
			if text, short := within(name); text != nil {
				return text, short
			}
			return source.Anywhere(name)
		}
	})
	if err != nil {
		return fmt.Errorf("--source: %w", err)
	}
	if lines.Add(read, functions) == 0 && len(files) > 0 {
		return fmt.Errorf("--source: no lines of %s are known: the kernel of this file does not have it at the address that it has here, its module was built without -g, or addresses are hidden", functions[0].Name)
	}
	return nil
}

// functions returns the names of functions that begin with a prefix, as completions.
func functions(f *cli.TreeFlag, args []string, begun string) []string {
	dir, err := f.Find()
	if err != nil || len(args) > 0 {
		return nil
	}
	names, _ := look.FunctionNames(dir, begun)
	return names
}

// printFunctions writes functions for people.
func printFunctions(s cli.Screen, functions []look.Function) error {
	out := bufio.NewWriter(s)
	for i, f := range functions {
		if i > 0 {
			fmt.Fprintln(out)
		}
		for _, line := range f.Lines(0) {
			for _, part := range line {
				fmt.Fprint(out, s.Paint(cli.LookColors[part.Style], part.Text))
			}
			fmt.Fprintln(out)
		}
	}
	return out.Flush()
}
