// Package cli has what the commands of kprobefs share: flags that take one of a few words, from the command line or the
// environment, errors of wrong usage, completion, the tree that a command is about, and output for people.
package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Choice is the value of a flag that takes one of a few words. Its error names them, and a
// shell completes them.
type Choice struct {
	At    *string
	Words []string
	Also  func(word string) bool // accepts further words, which are not named; may be nil
}

func (c Choice) String() string { return *c.At }

// Type is what the help calls the value.
func (c Choice) Type() string { return "string" }

// Set takes one of the words, or another that Also accepts.
func (c Choice) Set(word string) error {
	if !slices.Contains(c.Words, word) && (c.Also == nil || !c.Also(word)) {
		return notOneOf(c.Words)
	}
	*c.At = word
	return nil
}

// Choose adds a flag that takes one of words.
func Choose(flags *pflag.FlagSet, at *string, name, initial string, words []string, usage string) {
	*at = initial
	flags.Var(Choice{At: at, Words: words}, name, usage)
}

// notOneOf is the error of a value that is none of these words.
func notOneOf(words []string) error {
	return fmt.Errorf("the values are %s", Listed(words))
}

// Listed writes words as a list: "a, b and c".
func Listed(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// UsageError is the error of a command that was called in a wrong way: an unknown command or
// flag, or a value that a flag does not have. It has an exit status of its own.
type UsageError struct {
	err   error
	Usage string // how to call it, or ""
}

func (e *UsageError) Error() string { return e.err.Error() }
func (e *UsageError) Unwrap() error { return e.err }

// Misused makes an error about the value of a flag a UsageError, unless it is nil.
func Misused(err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{err: err}
}

// NoArgs fails if a command that takes no arguments has some.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, but has %q", c.CommandPath(), args[0])
	}
	return nil
}

// WithUsage adds the usage of a command to an error about its arguments.
func WithUsage(c *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{err, fmt.Sprintf("Usage:\n  %s\n\n'%s --help' tells more.\n", c.UseLine(), c.CommandPath())}
}

// CheckEmpty fails for a flag that is given an empty value, most often from a variable
// that is not set, instead of taking it for the default.
func CheckEmpty(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.Type() == "string" && f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok && f.Name != "options" { // mount(8) may give empty options
			empty = slices.Contains(list.GetSlice(), "")
		}
		if empty && err == nil {
			err = Misused(fmt.Errorf("--%s: the value is empty: %w", f.Name, syscall.EINVAL))
		}
	})
	return err
}

// EnvName returns the environment variable that has the default of a flag: KPROBEFS_LOG_LEVEL
// for --log-level.
func EnvName(flag string) string {
	return "KPROBEFS_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// FromEnvironment sets the flags of a command that are not given from their environment
// variables. A variable that is empty is taken for one that is not set. The flags are not
// marked as changed: a default does not contradict what is given.
func FromEnvironment(c *cobra.Command) (err error) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		value := os.Getenv(EnvName(f.Name))
		if f.Changed || f.Hidden || value == "" || err != nil || f.Name == "help" || f.Name == "version" {
			return
		}
		if serr := setDefault(f, value); serr != nil {
			err = Misused(fmt.Errorf("%s=%q: %w", EnvName(f.Name), value, serr))
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

// CompleteFlags makes shells complete the values of all flags of a command and its subcommands, those that are no Choice by their names in completions.
func CompleteFlags(c *cobra.Command, completions map[string]cobra.CompletionFunc) {
	add := func(f *pflag.Flag) {
		how := completions[f.Name]
		if v, ok := f.Value.(Choice); ok {
			how = CompleteWords(v.Words)
		}
		if how != nil {
			_ = c.RegisterFlagCompletionFunc(f.Name, how)
		}
	}
	c.LocalFlags().VisitAll(add)
	for _, sub := range c.Commands() {
		CompleteFlags(sub, completions)
	}
}

// CompleteFiles completes names of files.
func CompleteFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// CompleteWords completes one of words.
func CompleteWords(words []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return Beginning(words, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// Beginning returns the words that begin with a prefix.
func Beginning(words []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, prefix) })
}

// CompleteDirs completes names of directories.
func CompleteDirs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// Absolute returns the absolute path of a directory argument. An empty argument, most
// often an unset variable, does not mean the current directory: it is ENOENT.
func Absolute(dir string) (string, error) {
	if dir == "" {
		return "", fmt.Errorf("no directory is named: the argument is empty: %w", syscall.ENOENT)
	}
	return filepath.Abs(dir)
}

// CompleteDir completes an argument with names of directories.
func CompleteDir(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}
