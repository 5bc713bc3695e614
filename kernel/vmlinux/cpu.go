package vmlinux

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/release"
)

// Features are the bits of boot_cpu_data.x86_capability, by which the kernel chooses alternatives:
// word i, bit j is feature 32*i+j, Linux's X86_FEATURE_ and X86_BUG_ numbers.
type Features []uint32

// Has reports whether a feature is set.
func (f Features) Has(n int) bool { return n>>5 < len(f) && f[n>>5]>>(n&31)&1 != 0 }

// featureWords is the number of words of Features.
const featureWords = 24

// CPU is a processor by the names of its features, of which those are known that alternatives of
// Debian's kernels use. Among them are the mitigations that Linux chooses there.
type CPU map[string]bool

// baseline are the features of every x86-64 processor.
var baseline = []string{"tsc", "mtrr", "pge", "pat", "clflush", "nx", "always"}

// qemu are the features of QEMU's default processor, with the mitigations that Linux chooses there
// (retpolines): the reference was recorded on it.
var qemu = append([]string{
	"syscall32", "rep_good", "lfence_rdtsc", "cx16", "hypervisor", "3dnowprefetch", "rsb_ctxsw", "vmmcall", "fence_swapgs_kernel", "retpoline",
	"bug_fxsave_leak", "bug_sysret_ss_attrs", "bug_null_seg", "bug_swapgs_fence",
}, baseline...)

// DefaultCPU returns QEMU's default processor.
func DefaultCPU() CPU { return cpuOf(qemu) }

func cpuOf(names []string) CPU {
	c := CPU{}
	for _, name := range names {
		c[name] = true
	}
	return c
}

// ErrCPU means that a text names no processor.
var ErrCPU = errors.New("no processor")

// ParseCPU parses "default", "baseline" or "host", a list of features after one of these or alone
// (then baseline is meant), of which one with "-" before it is taken away: "default,smap,-retpoline".
// system is the machine's root directory, of which the files for "host" are read. It fails with an
// ErrCPU.
func ParseCPU(text string, system fs.FS) (CPU, error) {
	c := cpuOf(baseline)
	for i, word := range strings.Split(text, ",") {
		switch {
		case i == 0 && word == "default":
			c = DefaultCPU()
		case i == 0 && word == "baseline":
		case i == 0 && word == "host":
			var err error
			if c, err = host(system); err != nil {
				return nil, err
			}
		default:
			name, without := strings.CutPrefix(strings.ToLower(word), "-")
			if other, ok := otherNames[name]; ok {
				name = other
			}
			if !known(name) {
				return nil, fmt.Errorf("%w: %q is no feature by which Linux 5.10, 6.1 or 6.12 choose code (a name of /proc/cpuinfo or of X86_FEATURE_)%s", ErrCPU, word, similar(name))
			}
			if made[name] && !without {
				return nil, fmt.Errorf("%w: %s: its thunks are made at boot, which is not known here", ErrCPU, word)
			}
			if c[name] = true; without {
				delete(c, name)
			}
		}
	}
	return c, nil
}

// made are the features with which the kernel makes code at boot.
var made = map[string]bool{"call_depth": true, "indirect_thunk_its": true}

func known(name string) bool { return everywhere[name] != 0 || byRelease[name] != nil }

// similar names the features that contain a text, for an error.
func similar(text string) string {
	var found []string
	for _, names := range [][]string{slices.Sorted(maps.Keys(everywhere)), slices.Sorted(maps.Keys(byRelease))} {
		for _, name := range names {
			if len(text) > 2 && strings.Contains(name, text) {
				found = append(found, name)
			}
		}
	}
	if found == nil {
		return ""
	}
	return ": there are " + strings.Join(found, ", ")
}

// Features returns the bits of a processor in a kernel of a release.
func (c CPU) Features(linux release.Version) Features {
	f := make(Features, featureWords)
	for name := range c {
		n, ok := everywhere[name]
		if !ok {
			n, ok = byRelease[name][linux]
		}
		if ok {
			f[n>>5] |= 1 << (n & 31)
		}
	}
	return f
}

// chosen are the mitigations that files of /sys/devices/system/cpu/vulnerabilities name, and the
// features with which Linux has code for them.
var chosen = []struct{ file, text, feature string }{
	{"spectre_v1", "swapgs barriers", "fence_swapgs_kernel"},
	{"spectre_v2", "Retpolines", "retpoline"},
	{"spectre_v2", "LFENCE", "retpoline"},
	{"spectre_v2", "LFENCE", "retpoline_lfence"},
	{"spectre_v2", "Mitigation: IBRS", "kernel_ibrs"},
	{"spectre_v2", "RSB filling", "rsb_ctxsw"},
	{"spectre_v2", "IBPB: ", "use_ibpb"},
	{"spectre_v2", "IBRS_FW", "use_ibrs_fw"},
	{"spectre_v2", "BHI: SW loop", "clear_bhb_loop"},
	{"spectre_v2", "BHI: BHI_DIS_S", "clear_bhb_hw"},
	{"meltdown", "PTI", "pti"},
	{"mds", "Clear CPU buffers", "clear_cpu_buf"},
	{"retbleed", "untrained return thunk", "rethunk"},
	{"retbleed", "untrained return thunk", "unret"},
	{"retbleed", "IBPB", "entry_ibpb"},
	{"retbleed", "IBRS", "kernel_ibrs"},
	{"indirect_target_selection", "return thunks", "rethunk"},
	{"spec_rstack_overflow", "Safe RET", "rethunk"},
	{"spec_rstack_overflow", "Safe RET", "srso"},
}

// host returns the processor of a machine, with the mitigations that its own kernel has chosen.
func host(system fs.FS) (CPU, error) {
	b, err := fs.ReadFile(system, "proc/cpuinfo")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCPU, err)
	}
	c := cpuOf(baseline)
	c["lfence_rdtsc"] = true // in each 64-bit processor of Intel and AMD
	line := func(key string) string {
		for l := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(k) == key {
				return strings.TrimSpace(v)
			}
		}
		return ""
	}
	flags := strings.Fields(line("flags"))
	if len(flags) == 0 {
		return nil, fmt.Errorf("%w: /proc/cpuinfo has no flags: this machine is none of x86-64", ErrCPU)
	}
	for _, name := range flags {
		if other, ok := otherNames[name]; ok {
			name = other
		}
		if known(name) {
			c[name] = true
		}
	}
	for _, bug := range strings.Fields(line("bugs")) {
		if known("bug_" + bug) {
			c["bug_"+bug] = true
		}
	}
	c[map[bool]string{true: "sysenter32", false: "syscall32"}[line("vendor_id") == "GenuineIntel"]] = true
	for _, m := range chosen {
		text, err := fs.ReadFile(system, "sys/devices/system/cpu/vulnerabilities/"+m.file)
		if err == nil && strings.Contains(string(text), m.text) {
			c[m.feature] = true
		}
	}
	if c["fence_swapgs_kernel"] && !c["pti"] && slices.Contains(strings.Fields(line("bugs")), "swapgs") {
		c["fence_swapgs_user"] = true
	}
	return c, nil
}
