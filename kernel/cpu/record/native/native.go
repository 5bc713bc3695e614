// Package native has the processor that it runs on execute instructions, on the
// stage of package record. It needs Linux on x86-64 with BMI2 and ADX, and gcc,
// which builds the program that executes (run/run.c).
package native

import (
	"bytes"
	_ "embed" // the program's source
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/cpu/record"
)

//go:embed run/run.c
var source []byte

// MaxCode is how many bytes a job's code may have, MaxSteps how many steps.
const (
	MaxCode  = 256
	MaxSteps = 64
)

// Sizes of run.c's structs.
const (
	stateSize  = 16*8 + 8 + 8 + record.WindowSize
	stepSize   = 16
	jobSize    = MaxCode + 8 + 8 + stateSize + 8 + MaxSteps*stepSize
	resultSize = 4*8 + stateSize + record.PageSize
)

// Job is what to execute: one instruction (a REP instruction until it is over),
// or, as the case's Before says, several.
type Job struct {
	Code     []byte
	Sequence bool   // all of Code is executed, not only its first instruction
	Window   uint64 // of record's
	Before   record.State
	// Steps, if there are any, are the instructions to execute, each as long as the
	// one before has gone there.
	Steps []Step
}

// Step is one instruction of a job.
type Step struct {
	RIP         uint64
	Mask, Flags uint16 // after it the flags in Mask are set as in Flags
	Rep         bool   // a string instruction, which may stand still
}

// Result is what the processor did.
type Result struct {
	Vector uint8  // record.NoVector: none
	Error  uint64 // the error code, as in user mode
	CR2    uint64
	Steps  int // that have been made without a fault
	After  record.State
	Page   [record.PageSize]byte // the data page
}

// Runner is the program that executes.
type Runner struct {
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	stderr bytes.Buffer
	job    []byte
	result []byte
	maps   []span
}

// span is addresses that are the program's own.
type span struct{ start, end uint64 }

// Build makes the program in a folder.
func Build(dir string) (file string, err error) {
	c := filepath.Join(dir, "run.c")
	if err := os.WriteFile(c, source, 0o600); err != nil {
		return "", err
	}
	file = filepath.Join(dir, "run")
	if msg, err := exec.Command("gcc", "-O2", "-static-pie", "-fPIE", "-fno-stack-protector", "-o", file, c).CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc: %w\n%s", err, msg)
	}
	return file, nil
}

// Start starts the program that Build made. It ends with the process that has
// started it.
func Start(file string) (*Runner, error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	defer stdout.Close()
	// Blocking, both answer sooner than through the poller.
	in.Fd()
	out.Fd()
	r := &Runner{cmd: exec.Command(file), in: in, out: out, job: make([]byte, 0, jobSize), result: make([]byte, resultSize)}
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = stdin, stdout, &r.stderr
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	// A first job, so that all mappings are there.
	if _, err := r.Run(&Job{Code: []byte{0x90}, Window: record.WindowMid}); err != nil {
		return nil, err
	}
	return r, r.readMaps()
}

// Close ends the program.
func (r *Runner) Close() error {
	_ = r.in.Close()
	defer r.out.Close()
	return r.cmd.Wait()
}

// stackRoom is how far below its stack the program's stack may grow.
const stackRoom = 16 << 20

func (r *Runner) readMaps() error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", r.cmd.Process.Pid))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		from, to, _ := strings.Cut(strings.Fields(line)[0], "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 != nil || err2 != nil {
			return fmt.Errorf("maps: %q", line)
		}
		if start == record.PageAddr || start == record.CodeAddr&^0xfff {
			continue
		}
		if strings.Contains(line, "[stack]") {
			start -= stackRoom
		}
		r.maps = append(r.maps, span{start, end})
	}
	return nil
}

// Owns says whether an address, or one a few bytes around it, is the program's
// own: there an instruction finds what the stage does not have.
func (r *Runner) Owns(addr uint64) bool {
	const around = 64
	for _, s := range r.maps {
		if addr+around >= s.start && addr < s.end+around {
			return true
		}
	}
	return false
}

// Run has the processor execute a job. After an error the Runner is of no use.
func (r *Runner) Run(j *Job) (*Result, error) {
	if len(j.Code) > MaxCode || len(j.Steps) > MaxSteps {
		return nil, fmt.Errorf("%d bytes and %d steps are too many", len(j.Code), len(j.Steps))
	}
	r.job = j.append(r.job[:0])
	if _, err := r.in.Write(r.job); err != nil {
		return nil, r.failed(err)
	}
	if _, err := io.ReadFull(r.out, r.result); err != nil {
		return nil, r.failed(err)
	}
	return parse(r.result), nil
}

func (r *Runner) failed(err error) error {
	_ = r.in.Close()
	ended := r.cmd.Wait()
	return fmt.Errorf("the program that executes: %w; %w: %s", err, ended, r.stderr.String())
}

func (j *Job) append(b []byte) []byte {
	var code [MaxCode]byte
	copy(code[:], j.Code)
	b = append(b, code[:]...)
	sequence := 0
	if j.Sequence {
		sequence = len(j.Code)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(sequence))
	b = binary.LittleEndian.AppendUint64(b, j.Window)
	for _, v := range j.Before.R {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint64(b, j.Before.RIP)
	b = binary.LittleEndian.AppendUint64(b, uint64(j.Before.Flags))
	b = append(b, j.Before.Mem[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(j.Steps)))
	for _, s := range j.Steps {
		b = binary.LittleEndian.AppendUint64(b, s.RIP)
		b = binary.LittleEndian.AppendUint16(b, s.Mask)
		b = binary.LittleEndian.AppendUint16(b, s.Flags)
		rep := byte(0)
		if s.Rep {
			rep = 1
		}
		b = append(b, rep, 0, 0, 0)
	}
	return append(b, make([]byte, jobSize-len(b))...)
}

// statusFlags are the flags that instructions change in user mode: CF PF AF ZF SF DF OF.
const statusFlags = 0xcd5

func parse(b []byte) *Result {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	r := &Result{Vector: uint8(word(0)), Error: word(1), CR2: word(2), Steps: int(word(3))}
	for i := range r.After.R {
		r.After.R[i] = word(4 + i)
	}
	r.After.RIP = word(20)
	r.After.Flags = uint16(word(21))&statusFlags | 0x202
	copy(r.After.Mem[:], b[22*8:])
	copy(r.Page[:], b[22*8+record.WindowSize:])
	return r
}

// Settle writes the outcome down as the case's, as it would be in kernel mode.
func (r *Result) Settle(form string, c *record.Case) error {
	c.Vector, c.Code32, c.CR2 = r.Vector, 0, 0
	switch c.Vector {
	case 13:
		c.Code32 = r.Error
	case 14:
		c.Code32, c.CR2 = r.Error&^4, r.CR2
	}
	c.After = r.After
	if strings.HasPrefix(form, "PUSHF") && c.Vector == record.NoVector {
		c.After.Mem[c.After.R[4]-c.Window+1] &^= 1 // the single-step flag
	}
	window := c.Window - record.PageAddr
	for i, b := range r.Page {
		if b != record.Filler && uint64(i)-window >= record.WindowSize {
			return fmt.Errorf("memory outside of the window changed, at %#x", record.PageAddr+i)
		}
	}
	return nil
}
