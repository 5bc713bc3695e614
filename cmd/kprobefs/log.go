package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/kprobefs/kprobefs/internal/cli"
)

// logging configures the program's log. The log of the emulated kernel is not part of
// it: that is in dev/kmsg.
type logging struct {
	level, format, file string
}

// newLog returns a logger with the flags' defaults.
func newLog() *logrus.Logger {
	l := logrus.New()
	l.SetLevel(logrus.WarnLevel)
	l.SetFormatter(&logrus.TextFormatter{FullTimestamp: true})
	return l
}

func (g *logging) flags(c *cobra.Command) {
	f := c.PersistentFlags()
	g.level = logrus.WarnLevel.String()
	f.Var(cli.Choice{At: &g.level, Words: levels, Also: isLevel}, "log-level", "the least severe level to log: error, warning, info or debug")
	cli.Choose(f, &g.format, "log-format", formatText, []string{formatText, formatJSON}, "the format of the log: text, or json with one object per line")
	f.StringVar(&g.file, "log-file", "", "log to this file instead of stderr; with --daemon the only way to get a log")
}

// What --log-format takes, and the words that --log-level names; logrus has more.
const (
	formatText = "text"
	formatJSON = "json"
)

var levels = []string{"error", "warning", "info", "debug"}

func isLevel(word string) bool {
	_, err := logrus.ParseLevel(word)
	return err == nil
}

// apply configures l. It checks only that the file can be opened: a log that cannot be
// written later is no reason to stop serving.
func (g *logging) apply(l *logrus.Logger) error {
	level, err := logrus.ParseLevel(g.level)
	if err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	l.SetLevel(level)
	if g.format == formatJSON {
		l.SetFormatter(&logrus.JSONFormatter{})
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

// args returns the flags for another process of this program.
func (g *logging) args() []string {
	args := []string{"--log-level", g.level, "--log-format", g.format}
	if g.file != "" {
		args = append(args, "--log-file", g.file)
	}
	return args
}
