// Package debugfs is the directory kprobes of debugfs: the list of probes, the switch
// for all of them, and the blacklist.
package debugfs

import (
	"context"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
)

// Probes is what the files show and change: *kprobes.Kprobes.
type Probes interface {
	AppendList(b []byte, bucket int, hide bool) []byte
	Blacklist() []kprobes.BlacklistRecord
	Enabled() bool
	SetEnabled(on bool) error
}

// Config ties the files to the probes.
type Config struct {
	Probes Probes
	// ShowAddr is kallsyms_show_value: whether the opener of a file sees addresses.
	ShowAddr func(c *seqfile.Caller) bool
	// ParseBool is kstrtobool as write_enabled_file_bool uses it. It fails with EINVAL
	// if p is not a truth value.
	ParseBool func(p []byte) (bool, error)
	// LockedDown is security_locked_down for debugfs: it returns EPERM if the kernel is
	// locked down.
	LockedDown func(c *seqfile.Caller) error
	// NoBlacklist says that the release has no file blacklist.
	NoBlacklist bool
}

// Kprobes is the directory kprobes.
func Kprobes(c Config) *seqfile.Row {
	files := seqfile.Table{
		{Name: "list", Mode: 0o400, FOps: abi.FOpsSeq, Open: c.openList},
		{Name: "enabled", Mode: 0o600, FOps: abi.FOpsDebugBool, Open: seqfile.Opens(c.enabled())},
	}
	if !c.NoBlacklist {
		files = append(files, &seqfile.Row{Name: "blacklist", Mode: 0o400, FOps: abi.FOpsSeq, Open: c.openBlacklist})
	}
	return c.guard(&seqfile.Row{
		Name: "kprobes", Mode: 0o755, Kind: seqfile.Debugfs, At: "/sys/kernel/debug/kprobes", Dir: files,
	})
}

// guard makes a directory and its files check for kernel lockdown, as
// debugfs_locked_down does: files without write bits may be read, and modes and owners
// must not be changed at all.
func (c Config) guard(dir *seqfile.Row) *seqfile.Row {
	dir.SetAttr = c.LockedDown
	for _, r := range dir.Dir.(seqfile.Table) {
		open := r.Open
		r.SetAttr = c.LockedDown
		r.Open = func(ctx context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
			if r.Mode&^0o444 != 0 || o.Writes() {
				if err := c.LockedDown(&o.Caller); err != nil {
					return nil, err
				}
			}
			return open(ctx, o)
		}
	}
	return dir
}

// openList is kprobes_open: a record is a bucket of the hash table. The credentials of
// the opener and the sysctls at the time of each record decide whether addresses are
// hidden.
func (c Config) openList(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
	opener := o.Cred(seqfile.CapSyslog)
	return &seqfile.Seq{Show: func(_ context.Context, b []byte, i int64) ([]byte, bool, error) {
		if i >= kprobes.Buckets {
			return b, false, nil
		}
		return c.Probes.AppendList(b, int(i), !c.ShowAddr(opener)), true, nil
	}}, nil
}

// openBlacklist is kprobe_blacklist_open. Each pass reads the list once, because it
// only changes with modules.
func (c Config) openBlacklist(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
	opener := o.Cred(seqfile.CapSyslog)
	var list []kprobes.BlacklistRecord
	return &seqfile.Seq{Show: func(_ context.Context, b []byte, i int64) ([]byte, bool, error) {
		if i == 0 || list == nil {
			list = c.Probes.Blacklist()
		}
		if i >= int64(len(list)) {
			return b, false, nil
		}
		return list[i].Append(b, !c.ShowAddr(opener)), true, nil
	}}, nil
}

// enabled is the bool file. Writes ignore the position and do not change it.
func (c Config) enabled() seqfile.Value {
	v := seqfile.Bool(c.Probes.Enabled, func(_ context.Context, p []byte) (int, error) {
		on, err := c.ParseBool(p)
		if err != nil {
			return 0, err
		}
		return len(p), c.Probes.SetEnabled(on)
	})
	v.KeepPos = true
	return v
}
