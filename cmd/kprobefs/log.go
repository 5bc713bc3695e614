package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
)

// logging is how the program's own log is written. What the emulated kernel says
// is not in it: that is in dev/kmsg.
type logging struct {
	level, format, file string
}

// newLog logs as the flags' defaults say.
func newLog() *logrus.Logger {
	l := logrus.New()
	l.SetLevel(logrus.WarnLevel)
	l.SetFormatter(&logrus.TextFormatter{FullTimestamp: true})
	return l
}

func (g *logging) flags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringVar(&g.level, "log-level", logrus.WarnLevel.String(), "what is logged: error, warning, info or debug")
	f.StringVar(&g.format, "log-format", "text", "how: text, or json, one object a line")
	f.StringVar(&g.file, "log-file", "", "where to, instead of stderr; --daemon has no other place")
	for name, values := range map[string][]string{
		"log-level":  {"error", "warning", "info", "debug"},
		"log-format": {"text", "json"},
	} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// apply sets l up. A log that cannot be written is no reason to stop serving: of
// the file only the opening is checked.
func (g *logging) apply(l *logrus.Logger) error {
	level, err := logrus.ParseLevel(g.level)
	if err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	l.SetLevel(level)
	switch g.format {
	case "text":
	case "json":
		l.SetFormatter(&logrus.JSONFormatter{})
	default:
		return fmt.Errorf("--log-format %q: there are text and json", g.format)
	}
	if g.file == "" {
		return nil
	}
	if g.file, err = filepath.Abs(g.file); err != nil {
		return err
	}
	f, err := os.OpenFile(g.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("--log-file: %w", err)
	}
	l.SetOutput(f)
	return nil
}

// args are the flags that make another process of this program log alike.
func (g *logging) args() []string {
	args := []string{"--log-level", g.level, "--log-format", g.format}
	if g.file != "" {
		args = append(args, "--log-file", g.file)
	}
	return args
}
