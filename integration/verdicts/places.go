package verdicts

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/tools/linux"
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kernel/vmlinux"
	"github.com/kprobefs/kprobefs/optimizer/why"
)

// Place is what Linux does with a probe at an address of its own text.
type Place struct {
	Errno  syscall.Errno // of register_kprobe
	Ftrace bool          // it is at an fentry site
	Boost  bool          // a jump back follows the copy of the instruction, so that it needs no second int3
	Size   int           // of the region that a jump replaces, in bytes; 0 if there is no jump
}

// String returns the place as a recording has it.
func (p Place) String() string {
	switch {
	case p.Errno != 0:
		return unix.ErrnoName(p.Errno)
	case p.Ftrace:
		return "f"
	}
	s := "s"
	if p.Boost {
		s = "b"
	}
	if p.Size > 0 {
		s += strconv.Itoa(p.Size)
	}
	return s
}

// Places is a recording: the answers of a kernel for addresses.
type Places struct {
	Kernel string // "PACKAGE VERSION"
	At     map[uint64]Place
}

// Addresses returns the addresses, sorted.
func (p *Places) Addresses() []uint64 {
	all := make([]uint64, 0, len(p.At))
	for addr := range p.At {
		all = append(all, addr)
	}
	slices.Sort(all)
	return all
}

// placesFile is the name of a release's recording in this directory.
func placesFile(release string) string { return "places-" + release + ".txt" }

// ReadPlaces returns the recording of a release.
func ReadPlaces(release string) (*Places, error) {
	b, err := fs.ReadFile(placeFiles, placesFile(release))
	if err != nil {
		return nil, err
	}
	return parsePlaces(bytes.NewReader(b))
}

// placeBase is what the addresses in a recording are relative to: where the kernel's text begins.
const placeBase = 0xffffffff81000000

func parsePlaces(r io.Reader) (*Places, error) {
	p := &Places{At: map[uint64]Place{}}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if kernel, ok := strings.CutPrefix(line, kernelLine); ok {
			p.Kernel = kernel
		}
		if line == "" || line[0] == '#' {
			continue
		}
		off, answer, ok := strings.Cut(line, " ")
		addr, err := strconv.ParseUint(off, 16, 32)
		place, perr := parsePlace(answer)
		if !ok || err != nil || perr != nil {
			return nil, fmt.Errorf("line %q: %w", line, errors.Join(err, perr))
		}
		p.At[placeBase+addr] = place
	}
	return p, lines.Err()
}

func parsePlace(s string) (p Place, err error) {
	if errno, ok := errnos[s]; ok && errno != 0 {
		return Place{Errno: errno}, nil
	}
	if s == "f" {
		return Place{Ftrace: true}, nil
	}
	if s == "" || s[0] != 's' && s[0] != 'b' {
		return p, fmt.Errorf("answer %q", s)
	}
	p.Boost = s[0] == 'b'
	if s = s[1:]; s != "" {
		p.Size, err = strconv.Atoi(s)
	}
	return p, err
}

// Write writes the recording.
func (p *Places) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# What register_kprobe answers at addresses of its own text, from %#x on: an errno; f, at an\n# fentry site; s, stepped or emulated; b, boosted; and the size of the region of a jump, if it can be one.\n%s%s\n", uint64(placeBase), kernelLine, p.Kernel)
	for _, addr := range p.Addresses() {
		fmt.Fprintf(b, "%x %s\n", addr-placeBase, p.At[addr])
	}
	return b.Flush()
}

// ChoosePlaces returns n addresses of a kernel's text, sorted, always the same: nine of ten begin an
// instruction.
func ChoosePlaces(k *vmlinux.Kernel, n int) []uint64 {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	text := k.Image.Text
	chosen := map[uint64]bool{}
	for len(chosen) < n {
		addr := text.Start + r.Uint64N(text.End-text.Start)
		sym, off, ok := k.Lookup(addr)
		if !ok || sym.Size > maxPlaceFunction {
			continue // a gap
		}
		if r.IntN(10) > 0 {
			addr = boundary(k, addr-off, addr)
		}
		chosen[addr] = true
	}
	all := make([]uint64, 0, n)
	for addr := range chosen {
		all = append(all, addr)
	}
	slices.Sort(all)
	return all
}

// maxPlaceFunction is the size in bytes from which on a symbol is a gap, in which Linux needs seconds.
const maxPlaceFunction = 64 << 10

// boundary returns the first instruction of a function at or after an address.
func boundary(k *vmlinux.Kernel, start, addr uint64) uint64 {
	b := make([]byte, insn.MaxLen)
	for at := start; ; {
		if at >= addr || k.Read(at, b) != nil {
			return at
		}
		in, err := insn.Decode(b)
		if err != nil {
			return addr
		}
		at += uint64(in.Len)
	}
}

// Predict returns what the rules of kprobefs answer.
func Predict(a *why.Asker, addr uint64) Place {
	v := a.At(addr)
	return Place{Errno: v.Errno(), Ftrace: v.Ftrace, Boost: v.Boosted, Size: len(v.Region)}
}

// Asker returns what answers for a kernel of Debian.
func Asker(k *linux.Kernel) (*why.Asker, *vmlinux.Kernel, error) {
	b, err := os.ReadFile(k.Image)
	if err != nil {
		return nil, nil, err
	}
	file, err := vmlinux.Load(b, vmlinux.Options{K8Nops: k.Release == "5.10"}) // of QEMU's default processor
	if err != nil {
		return nil, nil, err
	}
	return why.New(why.Config{Kernel: file, Linux: file.Linux, Preempt: file.Preempt}), file, nil
}

// AskPlaces asks a kernel of Debian about addresses. program is as for Ask.
func AskPlaces(ctx context.Context, k *linux.Kernel, addrs []uint64, program string) (*Places, error) {
	object, err := build(ctx, k)
	if err != nil {
		return nil, err
	}
	var list []byte
	for _, addr := range addrs {
		list = binary.LittleEndian.AppendUint64(list, addr)
	}
	results, err := k.Run(ctx, "", []linux.Script{{
		Name: "places", Limit: limit,
		Text:  "insmod ./ask.ko && exec /usr/bin/" + filepath.Base(program) + " verdicts places addresses\n",
		Files: map[string][]byte{"ask.ko": object, "addresses": list},
	}}, program)
	if err != nil {
		return nil, err
	}
	if results[0].Status != 0 {
		return nil, fmt.Errorf("asking %s: exit status %d: %s", k, results[0].Status, results[0].Output)
	}
	p, err := parsePlaces(strings.NewReader(results[0].Output))
	if err != nil {
		return nil, err
	}
	p.Kernel = k.String()
	return p, nil
}

// AnswerPlaces runs on Linux, where ask.c is loaded: it writes the answers on the addresses that a
// file has, 8 bytes each.
func AnswerPlaces(file string, w io.Writer) error {
	addrs, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	answers, err := askAddresses(addrs)
	if err != nil {
		return err
	}
	p := &Places{At: map[uint64]Place{}}
	for i, place := range answers {
		p.At[binary.LittleEndian.Uint64(addrs[8*i:])] = place
	}
	return p.Write(w)
}

// askAddresses asks ask.c about addresses, 8 bytes each.
func askAddresses(addrs []byte) ([]Place, error) {
	if err := os.WriteFile("/sys/kernel/rcu_expedited", []byte("1"), 0); err != nil {
		return nil, err
	}
	answers := bytes.Clone(addrs)
	f, err := os.OpenFile("/sys/kernel/debug/places", os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Write(answers); err != nil {
		return nil, err
	}
	var places []Place
	for a := answers; len(a) >= 8; a = a[8:] {
		places = append(places, Place{
			Errno: syscall.Errno(-int32(binary.LittleEndian.Uint32(a))), Ftrace: a[4] != 0, Boost: a[5] != 0, Size: int(a[6]),
		})
	}
	return places, nil
}
