package kprobefs

import (
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// Lockdown is the kernel's lockdown level, as in /sys/kernel/security/lockdown.
type Lockdown uint8

// The levels. Each includes the restrictions of the one before it.
const (
	Unlocked        Lockdown = iota // "none"
	Integrity                       // nothing may change the kernel: debugfs has only world-readable files
	Confidentiality                 // nothing may read the kernel: tracefs is empty
)

var lockdownNames = [...]string{"none", "integrity", "confidentiality"}

func (l Lockdown) String() string { return lockdownNames[l] }

// ParseLockdown parses a value of the kernel parameter lockdown=; "" means none. It
// fails with EINVAL for other words.
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

// lockedDown is security_locked_down: if the kernel is locked down to level at, it logs a
// line and fails with EPERM.
func (k *Kernel) lockedDown(at Lockdown, what string, c *seqfile.Caller) error {
	if k.opts.Lockdown < at {
		return nil
	}
	k.Machine.Printk(noticeLevel, "Lockdown: %s: %s is restricted; see man kernel_lockdown.7", c.Comm(), what)
	return fmt.Errorf("lockdown=%s: %s: %w", k.opts.Lockdown, what, syscall.EPERM)
}

// sayLockdown logs the level at boot.
func (k *Kernel) sayLockdown() {
	if k.opts.Lockdown == Unlocked {
		return
	}
	k.Machine.Printk(noticeLevel, "Kernel is locked down from command line; see man kernel_lockdown.7")
	if k.opts.Lockdown >= Confidentiality {
		_ = k.lockedDown(Confidentiality, "use of tracefs", &seqfile.Caller{CommFunc: func() string { return "swapper/0" }})
		k.Machine.Printk(4, "Tracing disabled due to lockdown")
	}
}
