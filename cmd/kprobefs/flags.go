package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel"
)

// choice is the value of a flag that takes one of a few words. Its error names them, and a
// shell completes them.
type choice struct {
	at    *string
	words []string
	also  func(word string) bool // accepts further words, which are not named; may be nil
}

func (c choice) String() string { return *c.at }
func (c choice) Type() string   { return "string" }

func (c choice) Set(word string) error {
	if !slices.Contains(c.words, word) && (c.also == nil || !c.also(word)) {
		return notOneOf(c.words)
	}
	*c.at = word
	return nil
}

// choose adds a flag that takes one of words.
func choose(flags *pflag.FlagSet, at *string, name, initial string, words []string, usage string) {
	*at = initial
	flags.Var(choice{at: at, words: words}, name, usage)
}

// notOneOf is the error of a value that is none of these words.
func notOneOf(words []string) error {
	return fmt.Errorf("the values are %s", listed(words))
}

// listed writes words as a list: "a, b and c".
func listed(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// cpuCount is the value of --cpus. checkCPUs checks its range, also of -o cpus=.
type cpuCount struct{ at *int }

func (c cpuCount) String() string { return strconv.Itoa(*c.at) }
func (c cpuCount) Type() string   { return "int" }

func (c cpuCount) Set(word string) error {
	n, err := strconv.Atoi(word)
	if err != nil {
		return fmt.Errorf("a number from 1 to %d is expected", kernel.MaxCPUs)
	}
	*c.at = n
	return nil
}

// usageError is the error of a command that was called in a wrong way: an unknown command or
// flag, or a value that a flag does not have. Its exit status is usageStatus.
type usageError struct {
	err   error
	usage string // how to call it, or ""
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// misused makes an error about the value of a flag a usageError, unless it is nil.
func misused(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err: err}
}

// withUsage adds the usage of a command to an error about its arguments.
func withUsage(c *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err, fmt.Sprintf("Usage:\n  %s\n\n'%s --help' tells more.\n", c.UseLine(), c.CommandPath())}
}

// checkEmpty fails for a flag that is given an empty value, most often that of a variable
// that is not set, instead of taking it for the default.
func checkEmpty(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.Type() == "string" && f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok && f.Name != "options" { // mount(8) may give empty options
			empty = slices.Contains(list.GetSlice(), "")
		}
		if empty && err == nil {
			err = misused(fmt.Errorf("--%s: the value is empty: %w", f.Name, syscall.EINVAL))
		}
	})
	return err
}

// envName returns the environment variable that has the default of a flag: KPROBEFS_LOG_LEVEL
// for --log-level.
func envName(flag string) string {
	return "KPROBEFS_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets the flags of a command that are not given from their environment
// variables. A variable that is empty is taken for one that is not set. The flags are not
// marked as changed: a default does not contradict what is given.
func fromEnvironment(c *cobra.Command) (err error) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		value := os.Getenv(envName(f.Name))
		if f.Changed || f.Hidden || value == "" || err != nil || f.Name == "help" || f.Name == "version" {
			return
		}
		if serr := setDefault(f, value); serr != nil {
			err = misused(fmt.Errorf("%s=%q: %w", envName(f.Name), value, serr))
		}
	})
	return err
}

// setDefault sets the value of a flag. One that may be given several times takes a value from
// each line; lines of --config and options can also be separated by commas, which their values do
// not have.
func setDefault(f *pflag.Flag, value string) error {
	list, ok := f.Value.(pflag.SliceValue)
	switch {
	case ok:
		split := func(r rune) bool { return r == '\n' || r == ',' && f.Name == "config" }
		return list.Replace(strings.FieldsFunc(value, split))
	case f.Value.Type() == "bool":
		if _, err := strconv.ParseBool(value); err != nil {
			return notOneOf([]string{"1", "0", "true", "false"})
		}
	}
	return f.Value.Set(value)
}

// internal reports whether a command is called by this program itself, which gives all flags
// that are needed.
func internal(c *cobra.Command) bool {
	own := c.Hidden
	for _, name := range []string{"no-watch", "detached"} {
		own = own || c.Flags().Changed(name)
	}
	return own
}

// completeFlags has shells complete the values of all flags of a command and its subcommands.
func completeFlags(c *cobra.Command) {
	add := func(f *pflag.Flag) {
		how := completions[f.Name]
		if v, ok := f.Value.(choice); ok {
			how = completeWords(v.words)
		}
		if how != nil {
			_ = c.RegisterFlagCompletionFunc(f.Name, how)
		}
	}
	c.LocalFlags().VisitAll(add)
	for _, sub := range c.Commands() {
		completeFlags(sub)
	}
}

// completions complete the values of flags that are no choice, by the flag's name.
var completions = map[string]cobra.CompletionFunc{
	"config":   completeConfig,
	"watchdog": completeWords(kernel.WatchdogActions()),
	"cpus":     cobra.NoFileCompletions,
	"memory":   cobra.NoFileCompletions,
	"ready-fd": cobra.NoFileCompletions,
	"http":     cobra.NoFileCompletions,
	"module": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{"ko"}, cobra.ShellCompDirectiveFilterFileExt
	},
	"gdb": func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return beginning([]string{"127.0.0.1:", "[::1]:", "unix:"}, begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	},
	"attach": completeDirs,
	"keep":   completeDirs,
	"at":     completeDirs,
}

// completeWords completes one of words.
func completeWords(words []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return beginning(words, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// beginning returns the words that begin with a prefix.
func beginning(words []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, prefix) })
}

func completeDirs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completeConfig completes a line of --config. A number follows NR_CPUS=.
func completeConfig(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	how := cobra.ShellCompDirectiveNoFileComp
	lines := beginning(kprobefs.ConfigLines(), begun)
	if len(lines) == 1 && strings.HasSuffix(lines[0], "=") {
		how |= cobra.ShellCompDirectiveNoSpace
	}
	return lines, how
}

// usageStatus is the exit status of a command that was called in a wrong way, as in shells.
const usageStatus = 2

// ownStatus is the exit status of exec when it fails itself, before CMD has started, as in
// env(1), timeout(1) and nohup(1), and in docker run.
const ownStatus = 125

// ownFailure gives an error of exec itself its status. What has one already keeps it: the
// command's, that of a command that cannot be executed, of a panic, or of a wrong usage.
func ownFailure(err error) error {
	var e *exitError
	var u *usageError
	switch {
	case err == nil, errors.As(err, &u), errors.As(err, &e) && e.status != 0:
		return err
	case e != nil:
		return &exitError{err: e.err, said: e.said, status: ownStatus << 8}
	}
	return &exitError{err: err, status: ownStatus << 8}
}
