package system

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kprobes"
)

// Config is how the emulated kernel was configured, as far as the documents on
// kprobes name it. The zero value is that of Debian's 6.1.
type Config struct {
	NoOptprobes   bool // CONFIG_OPTPROBES=n: no jumps, no debug.kprobes-optimization
	NoFtrace      bool // CONFIG_KPROBES_ON_FTRACE=n: a probe at an entry is a breakpoint
	NoPreempt     bool // CONFIG_PREEMPT=n: stepped copies are boosted
	NoKallsymsAll bool // CONFIG_KALLSYMS_ALL=n: no names of data
	NRCPUs        int  // NR_CPUS: no more vCPUs than that; 0: any number
}

// settings are the names that Config.Set knows.
var settings = []struct {
	name string
	set  func(c *Config, value string) bool // false: not a value of it
}{
	{"CONFIG_KALLSYMS_ALL", func(c *Config, v string) bool { return setNo(&c.NoKallsymsAll, v) }},
	{"CONFIG_KPROBES_ON_FTRACE", func(c *Config, v string) bool { return setNo(&c.NoFtrace, v) }},
	{"CONFIG_OPTPROBES", func(c *Config, v string) bool { return setNo(&c.NoOptprobes, v) }},
	{"CONFIG_PREEMPT", func(c *Config, v string) bool { return setNo(&c.NoPreempt, v) }},
	{"NR_CPUS", (*Config).setCPUs},
}

func setNo(no *bool, value string) bool {
	*no = value == "n"
	return value == "y" || value == "n"
}

func (c *Config) setCPUs(value string) bool {
	n, err := strconv.Atoi(value)
	c.NRCPUs = n
	return err == nil && 1 <= n && n <= 8192 // the range of x86's Kconfig
}

// Set takes a line of a kernel's .config: "CONFIG_OPTPROBES=n". CONFIG_NR_CPUS
// is NR_CPUS, CONFIG_PREEMPTION is CONFIG_PREEMPT. EINVAL, with the names that
// there are, for any other, and for a value that the name does not have.
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
			return fmt.Errorf("configuration %q: %s does not have this value: %w", line, name, syscall.EINVAL)
		}
		return nil
	}
	return fmt.Errorf("unknown configuration %q; there are %s: %w", line, strings.Join(ConfigNames(), ", "), syscall.EINVAL)
}

// ConfigNames gives the names that Config.Set knows, sorted.
func ConfigNames() []string {
	var names []string
	for _, s := range settings {
		names = append(names, s.name)
	}
	slices.Sort(names)
	return names
}

// ParseConfig takes all lines, which change how a release was configured.
func ParseConfig(c Config, lines []string) (Config, error) {
	for _, l := range lines {
		if err := c.Set(l); err != nil {
			return Config{}, err
		}
	}
	return c, nil
}

// limit gives the vCPUs of a kernel that is asked for n on a host with max; 0
// asks for as many as there are.
func (c Config) limit(n, max int) int {
	if n == 0 {
		n = max
	}
	if c.NRCPUs != 0 {
		n = min(n, c.NRCPUs)
	}
	return n
}

// noFtrace is the tables of a kernel without fentry sites: the nops there are
// instructions like others.
type noFtrace struct{ kprobes.Tables }

func (noFtrace) FtraceSite(uint64) bool            { return false }
func (noFtrace) FtraceOverlap(uint64, uint64) bool { return false }
