package kprobefs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kprobes"
)

// Config is how the emulated kernel was configured, as far as kprobes depend on it.
// The zero value is Debian's 6.1.
type Config struct {
	NoOptprobes   bool // CONFIG_OPTPROBES=n: no jumps, no debug.kprobes-optimization
	NoFtrace      bool // CONFIG_KPROBES_ON_FTRACE=n: a probe at an entry is a breakpoint
	NoPreempt     bool // CONFIG_PREEMPT=n: stepped copies are boosted
	NoKallsymsAll bool // CONFIG_KALLSYMS_ALL=n: no names of data
	NRCPUs        int  // NR_CPUS, the largest number of vCPUs; 0 means no limit
}

// settings are the names that Config.Set accepts.
var settings = []struct {
	name   string
	values string
	set    func(c *Config, value string) bool // returns false for an invalid value
}{
	{"CONFIG_KALLSYMS_ALL", yesNo, func(c *Config, v string) bool { return setNo(&c.NoKallsymsAll, v) }},
	{"CONFIG_KPROBES_ON_FTRACE", yesNo, func(c *Config, v string) bool { return setNo(&c.NoFtrace, v) }},
	{"CONFIG_OPTPROBES", yesNo, func(c *Config, v string) bool { return setNo(&c.NoOptprobes, v) }},
	{"CONFIG_PREEMPT", yesNo, func(c *Config, v string) bool { return setNo(&c.NoPreempt, v) }},
	{"NR_CPUS", "the numbers from 1 to " + strconv.Itoa(maxNRCPUs), (*Config).setCPUs},
}

// yesNo are the values of most settings.
const yesNo = "y and n"

// maxNRCPUs is the end of the range of NR_CPUS in x86's Kconfig.
const maxNRCPUs = 8192

func setNo(no *bool, value string) bool {
	*no = value == "n"
	return value == "y" || value == "n"
}

func (c *Config) setCPUs(value string) bool {
	n, err := strconv.Atoi(value)
	c.NRCPUs = n
	return err == nil && 1 <= n && n <= maxNRCPUs
}

// Set applies a line of a kernel's .config, such as "CONFIG_OPTPROBES=n". CONFIG_NR_CPUS
// can be written NR_CPUS, and CONFIG_PREEMPT can be written CONFIG_PREEMPTION. It fails
// with EINVAL for an unknown name, and for a value that the name does not have.
func (c *Config) Set(line string) error {
	name, value, _ := strings.Cut(line, "=")
	switch name {
	case "CONFIG_NR_CPUS":
		name = "NR_CPUS"
	case "CONFIG_PREEMPTION":
		name = "CONFIG_PREEMPT"
	}
	for _, s := range settings {
		if s.name != name {
			continue
		}
		if !s.set(c, value) {
			return fmt.Errorf("configuration %q: the values of %s are %s: %w", line, name, s.values, syscall.EINVAL)
		}
		return nil
	}
	return fmt.Errorf("unknown configuration %q; the known names are %s: %w", line, strings.Join(ConfigNames(), ", "), syscall.EINVAL)
}

// ConfigNames returns the names that Config.Set accepts, sorted.
func ConfigNames() []string {
	var names []string
	for _, s := range settings {
		names = append(names, s.name)
	}
	slices.Sort(names)
	return names
}

// ConfigLines returns the lines that Config.Set accepts, sorted. After one that ends with =
// there comes a number.
func ConfigLines() []string {
	var lines []string
	for _, s := range settings {
		if s.values != yesNo {
			lines = append(lines, s.name+"=")
			continue
		}
		lines = append(lines, s.name+"=n", s.name+"=y")
	}
	slices.Sort(lines)
	return lines
}

// ParseConfig applies all lines to the configuration of a release.
func ParseConfig(c Config, lines []string) (Config, error) {
	for _, l := range lines {
		if err := c.Set(l); err != nil {
			return Config{}, err
		}
	}
	return c, nil
}

// limit returns the number of vCPUs of a kernel for which n were requested on a host
// with max; an n of 0 requests as many as possible.
func (c Config) limit(n, max int) int {
	if n == 0 {
		n = max
	}
	if c.NRCPUs != 0 {
		n = min(n, c.NRCPUs)
	}
	return n
}

// noFtrace is the tables of a kernel without fentry sites: the nops there are ordinary
// instructions.
type noFtrace struct{ kprobes.Tables }

func (noFtrace) FtraceSite(uint64) bool            { return false }
func (noFtrace) FtraceOverlap(uint64, uint64) bool { return false }
