package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kprobefs/kprobefs/internal/look"
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

Without addresses in /proc/kallsyms, they are zeros. --json writes an array with an
object for each function of that name: name, module and instructions, each with
address, offset, bytes, text, and where it is patched or probed: patch (int3, jump or
call), was, and probe (armed, flags, carried_out, copies).`

func textCommand() *cobra.Command {
	at, asJSON := &treeFlag{}, false
	c := &cobra.Command{
		Use:     "text [--at MNT] [--json] FUNCTION",
		Short:   "Show a function's instructions as they are now",
		Long:    longText,
		Example: "  kprobefs text --at /mnt vfs_read\n  kprobefs text vfs_read --json | jq '.[].instructions[] | select(.patch)'",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return at.functions(args, begun), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: at.run(func(c *cobra.Command, dir string, args []string) error {
			functions, err := look.Functions(dir, args[0])
			switch {
			case err != nil:
				return err
			case asJSON:
				return writeJSON(c.OutOrStdout(), functions)
			}
			return printFunctions(newScreen(c.OutOrStdout()), functions)
		}),
	}
	at.addTo(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write a JSON array of functions")
	return c
}

// functions returns the names of functions that begin with a prefix, as completions.
func (f *treeFlag) functions(args []string, begun string) []string {
	dir, err := f.find()
	if err != nil || len(args) > 0 {
		return nil
	}
	names, _ := look.FunctionNames(dir, begun)
	return names
}

// Names of the parts of the code outside of a function, for people.
var partNames = map[string]string{
	"slot":   "slot: the copy, stepped",
	"boost":  "slot: the copy that jumps back",
	"detour": "detour: saves the registers, calls the handlers",
	"copied": "detour: the copied instructions, and the jump back",
}

var patchNames = map[string]string{
	"int3": "int3",
	"jump": "jump to the detour",
	"call": "call of ftrace's trampoline",
}

var patchColors = map[string]color{"int3": red, "jump": magenta, "call": cyan}

// printFunctions writes functions for people.
func printFunctions(s screen, functions []look.Function) error {
	out := bufio.NewWriter(s)
	for i, f := range functions {
		if i > 0 {
			fmt.Fprintln(out)
		}
		head := f.Name + ":"
		if f.Module != "" {
			head += " [" + f.Module + "]"
		}
		fmt.Fprintln(out, s.paint(bold, head))
		for _, in := range f.Instructions {
			printInstruction(out, s, in)
		}
	}
	return out.Flush()
}

// instructionLine is an instruction without what is beside it.
func instructionLine(in look.Instruction) string {
	return fmt.Sprintf("%s  +%#-6x %-30s %s", in.Address, in.Offset, in.Bytes, in.Text)
}

// beside is where the replaced instructions begin, in characters.
const beside = 92

func printInstruction(out *bufio.Writer, s screen, in look.Instruction) {
	if in.Patch == "" {
		fmt.Fprintln(out, "  "+s.safe(instructionLine(in)))
	}
	for i, old := range in.Was {
		now := ""
		if i == 0 {
			now = "* " + instructionLine(in)
		}
		fmt.Fprintf(out, "%s %s\n", s.paint(patchColors[in.Patch], fmt.Sprintf("%-*s", beside, now)), s.paint(dim, fmt.Sprintf("| %-22s %s", old.Bytes, old.Text)))
	}
	if in.Probe == nil {
		return
	}
	words := []string{}
	if name := patchNames[in.Patch]; name != "" {
		words = append(words, name)
	}
	words = append(words, look.Probe{Armed: in.Probe.Armed, Flags: in.Probe.Flags}.State(), "carried out by "+in.Probe.Carried)
	if in.Patch == "jump" && len(in.Was) > 0 {
		words = append(words, fmt.Sprintf("optimized region of %d bytes", in.RegionSize()))
	}
	fmt.Fprintln(out, s.paint(green, "    probed: "+strings.Join(words, ", ")))
	for _, c := range in.Probe.Copies {
		fmt.Fprintln(out, s.paint(yellow, "      "+partNames[c.Part]))
		for _, in := range c.Instructions {
			fmt.Fprintln(out, "        "+s.paint(dim, instructionLine(in)))
		}
	}
}
