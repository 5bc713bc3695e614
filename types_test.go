package kprobefs_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// TestKernelTypes reads /sys/kernel/btf/vmlinux of the releases that have it, and finds in it what programs
// of bpf(2) are fitted to.
func TestKernelTypes(t *testing.T) {
	for name, has := range map[string]bool{"6.1": true, "6.12": true, "5.10": false} {
		t.Run(name, func(t *testing.T) {
			k := bootRelease(t, name)
			kernel := seqfile.Find(seqfile.Find(k.Tree(), "sys").Dir, "kernel")
			dir := seqfile.Find(kernel.Dir, "btf")
			if dir == nil || !has {
				if has || dir != nil {
					t.Fatalf("sys/kernel/btf is there: %v, want %v", dir != nil, has)
				}
				return
			}
			f, err := seqfile.Find(dir.Dir, "vmlinux").Open(context.Background(), &seqfile.OpenInfo{})
			if err != nil {
				t.Fatal(err)
			}
			raw := make([]byte, 1<<20)
			n, err := f.Read(context.Background(), raw, 0)
			if err != nil {
				t.Fatal(err)
			}
			spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw[:n]))
			if err != nil {
				t.Fatal(err)
			}
			var read *btf.Func
			if err := spec.TypeByName("vfs_read", &read); err != nil {
				t.Fatal(err)
			}
			if params := read.Type.(*btf.FuncProto).Params; len(params) != 4 || params[1].Name != "buf" {
				t.Errorf("vfs_read has the parameters %v", params)
			}
			var task *btf.Struct
			if err := spec.TypeByName("task_struct", &task); err != nil {
				t.Error(err)
			}
			var tp *btf.Typedef
			if err := spec.TypeByName("btf_trace_sched_switch", &tp); err != nil {
				t.Error(err)
			}
		})
	}
}
