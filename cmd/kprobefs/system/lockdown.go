package system

import (
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// Lockdown is how far the kernel keeps root from its inner parts, as
// /sys/kernel/security/lockdown has it.
type Lockdown uint8

// The levels, each with what the one before it keeps away.
const (
	Unlocked        Lockdown = iota // "none"
	Integrity                       // nothing that changes the kernel: debugfs is closed but for world-readable files
	Confidentiality                 // nothing that reads it: tracefs is empty
)

var lockdownNames = [...]string{"none", "integrity", "confidentiality"}

func (l Lockdown) String() string { return lockdownNames[l] }

// ParseLockdown takes the word that the parameter lockdown= of the kernel has.
// EINVAL for others; "" is none.
func ParseLockdown(word string) (Lockdown, error) {
	if word == "" {
		return Unlocked, nil
	}
	for l, name := range lockdownNames {
		if word == name {
			return Lockdown(l), nil
		}
	}
	return Unlocked, fmt.Errorf("lockdown %q is not none, integrity or confidentiality: %w", word, syscall.EINVAL)
}

// noticeLevel is KERN_NOTICE.
const noticeLevel = 5

// lockedDown is security_locked_down for something of a level: EPERM, and a line
// in the log, if the kernel is locked down so far.
func (s *System) lockedDown(at Lockdown, what string, c *seqfile.Caller) error {
	if s.opts.Lockdown < at {
		return nil
	}
	s.Machine.Printk(noticeLevel, "Lockdown: %s: %s is restricted; see man kernel_lockdown.7", c.Comm(), what)
	return fmt.Errorf("lockdown=%s: %s: %w", s.opts.Lockdown, what, syscall.EPERM)
}

// sayLockdown is what the log has of it at boot.
func (s *System) sayLockdown() {
	if s.opts.Lockdown == Unlocked {
		return
	}
	s.Machine.Printk(noticeLevel, "Kernel is locked down from command line; see man kernel_lockdown.7")
	if s.opts.Lockdown >= Confidentiality {
		_ = s.lockedDown(Confidentiality, "use of tracefs", &seqfile.Caller{CommFunc: func() string { return "swapper/0" }})
		s.Machine.Printk(4, "Tracing disabled due to lockdown")
	}
}
