package vmlinux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// machine returns the files of a machine from which its processor is read.
func machine(flags, bugs string, vulnerabilities map[string]string) fs.FS {
	m := fstest.MapFS{"proc/cpuinfo": {Data: []byte("processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: " + flags + "\nbugs\t\t: " + bugs + "\n\nprocessor\t: 1\n")}}
	for name, text := range vulnerabilities {
		m["sys/devices/system/cpu/vulnerabilities/"+name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	return m
}

func TestParseCPU(t *testing.T) {
	server := machine("fpu sse2 smap erms ss pdpe1gb", "spectre_v2 swapgs null_seg", map[string]string{
		"spectre_v1": "Mitigation: usercopy/swapgs barriers and __user pointer sanitization",
		"spectre_v2": "Mitigation: Retpolines; IBPB: conditional; STIBP: disabled; RSB filling; BHI: SW loop",
		"meltdown":   "Not affected",
	})
	for _, c := range []struct {
		text        string
		has, hasNot []string
	}{
		{"default", []string{"retpoline", "lfence_rdtsc", "always", "nx"}, []string{"smap", "rethunk"}},
		{"baseline", []string{"always", "nx"}, []string{"retpoline", "cx16"}},
		{"smap,ERMS", []string{"smap", "erms", "nx"}, []string{"retpoline"}},
		{"default,smap,-retpoline", []string{"smap", "lfence_rdtsc"}, []string{"retpoline"}},
		{"default,ss,bug_null_seg", []string{"selfsnoop", "bug_null_seg"}, nil},
		{"default,-call_depth", []string{"retpoline"}, []string{"call_depth"}},
		{"host", []string{"smap", "erms", "selfsnoop", "gbpages", "retpoline", "use_ibpb", "rsb_ctxsw", "clear_bhb_loop", "fence_swapgs_user", "sysenter32", "bug_null_seg"}, []string{"pti", "sse2", "cx16"}},
		{"host,-smap", []string{"erms"}, []string{"smap"}},
	} {
		cpu, err := ParseCPU(c.text, server)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
		}
		for _, name := range c.has {
			if !cpu[name] {
				t.Errorf("%s has no %s", c.text, name)
			}
		}
		for _, name := range c.hasNot {
			if cpu[name] {
				t.Errorf("%s has %s", c.text, name)
			}
		}
	}
	for text, says := range map[string]string{
		"":               "is no feature",
		"smapp":          `"smapp" is no feature`,
		"default,retpol": "there are retpoline, retpoline_lfence",
		"smap,host":      `"host" is no feature`,
		"call_depth":     "made at boot",
	} {
		if _, err := ParseCPU(text, server); !errors.Is(err, ErrCPU) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	for _, system := range []fs.FS{fstest.MapFS{}, machine("", "", nil)} {
		if _, err := ParseCPU("host", system); !errors.Is(err, ErrCPU) {
			t.Errorf("host: %v", err)
		}
	}
}

// TestFeatures: some numbers change with the release.
func TestFeatures(t *testing.T) {
	cpu := CPU{"smap": true, "lfence_rdtsc": true, "clear_cpu_buf": true, "fast_cppc": true}
	for linux, want := range map[release.Version][]int{
		release.Linux5_10: {9*32 + 20, 3*32 + 18, 11*32 + 19},
		release.Linux6_1:  {9*32 + 20, 3*32 + 18, 11*32 + 18},
		release.Linux6_12: {9*32 + 20, 20*32 + 2, 3*32 + 18, 21*32 + 5},
	} {
		f := cpu.Features(linux)
		n := 0
		for i := range featureWords * 32 {
			if f.Has(i) {
				n++
			}
		}
		for _, i := range want {
			if !f.Has(i) {
				t.Errorf("%s has no %d*32+%d", linux, i/32, i%32)
			}
		}
		if n != len(want) {
			t.Errorf("%s has %d features, want %d", linux, n, len(want))
		}
	}
}

// TestRetpolines has the bytes that Debian's kernels write with spectre_v2=off and with
// spectre_v2=retpoline,lfence.
func TestRetpolines(t *testing.T) {
	const thunks = abi.TextBase + 0x1000
	branchTo := func(code string, reg uint64) []byte {
		b := []byte(code + "\x00\x00\x00\x00")
		binary.LittleEndian.PutUint32(b[len(b)-4:], uint32(thunks+reg*thunkSize-abi.TextBase-uint64(len(b))))
		return b
	}
	for _, c := range []struct {
		site   []byte
		lfence bool
		int3   bool
		want   string
	}{
		{branchTo("\xe8", 0), false, true, "\xff\xd0\x0f\x1f\x00"},
		{branchTo("\x2e\xe8", 10), false, true, "\x41\xff\xd2\x0f\x1f\x00"},
		{branchTo("\x2e\xe8", 10), true, true, "\x0f\xae\xe8\x41\xff\xd2"},
		{branchTo("\xe9", 1), false, true, "\xff\xe1\xcc\x66\x90"},
		{branchTo("\xe9", 1), false, false, "\xff\xe1\x0f\x1f\x00"},
		{branchTo("\xe9", 1), true, true, "\x0f\xae\xe8\xff\xe1"},
		{branchTo("\x0f\x84", 3), false, true, "\x75\x04\xff\xe3\xcc\x90"},
		{branchTo("\x2e\xe8", 11)[:5], false, true, "\x2e\xe8"}, // its last byte is beyond the text
		{[]byte("\xe8\x00\x00\x00\x00"), false, true, "\xe8\x00\x00\x00\x00"},
	} {
		table := binary.LittleEndian.AppendUint32(nil, uint32(0xfffff000)) // from 0x1000 back to the text
		p := &patcher{
			m: &image.Image{Segments: []image.Segment{
				{Addr: abi.TextBase, Data: c.site, MemSize: uint64(len(c.site)), Perm: image.Read | image.Exec},
				{Addr: abi.TextBase + 0x1000, Data: table, MemSize: 4, Perm: image.Read},
			}},
			addr: func(name string) uint64 {
				return map[string]uint64{"__x86_indirect_thunk_array": thunks, "__retpoline_sites": abi.TextBase + 0x1000, "__retpoline_sites_end": abi.TextBase + 0x1004}[name]
			},
			features: make(Features, featureWords), int3: c.int3,
		}
		if c.lfence {
			p.features = CPU{"retpoline": true, "retpoline_lfence": true}.Features(release.Linux6_1)
		}
		before := bytes.Clone(c.site)
		err := p.retpolines()
		if len(c.want) < len(c.site) {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("% x: %v", before, err)
			}
			continue
		}
		if err != nil || string(c.site) != c.want {
			t.Errorf("% x, lfence %v: % x, %v, want % x", before, c.lfence, c.site, err, c.want)
		}
		p.features = DefaultCPU().Features(release.Linux6_1)
		again := bytes.Clone(before)
		p.m.Segments[0].Data = again
		if err := p.retpolines(); err != nil || !bytes.Equal(again, before) {
			t.Errorf("with retpolines % x becomes % x, %v", before, again, err)
		}
	}
}
