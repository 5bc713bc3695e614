package kprobes

import (
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// ParseEnabled parses a write to kprobes/enabled: kstrtobool, or up to 5.10 what that
// knew of it. It fails with EINVAL for what is neither on nor off.
func (k *Kprobes) ParseEnabled(data []byte) (bool, error) {
	if !k.has[release.EnabledWords] && len(data) > 0 && strings.IndexByte("tTfFoO", data[0]) >= 0 {
		return false, errf(syscall.EINVAL, "%.8q is neither on nor off", data)
	}
	return kstrtox.ParseBool(data)
}
