package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/cpu/record"
	"github.com/kprobefs/kprobefs/kernel/cpu/record/templates"
)

const (
	nop = 0x90
	rsp = 4
)

// generateSystem records the privileged forms.
func generateSystem(dir, accel, out string) error {
	l := invent(templates.System())
	results, err := executeMachine(dir, accel, l)
	if err != nil {
		return err
	}
	for i := range l {
		for j := range l[i].Cases {
			if results, err = settleSystem(&l[i].Cases[j], l[i].Name, results); err != nil {
				return fmt.Errorf("%s, case %d: %w", l[i].Name, j, err)
			}
		}
	}
	if string(results) != "done" {
		return fmt.Errorf("%d bytes too many", len(results))
	}
	return write(l, out)
}

// executeMachine builds the kernel, and runs it with the jobs as its module.
func executeMachine(dir, accel string, l []record.Form) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "record")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	file := func(name string) string { return filepath.Join(tmp, name) }
	source := func(name string) string { return filepath.Join(dir, name) }
	if err := command("gcc", "-O2", "-ffreestanding", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-mno-red-zone",
		"-mgeneral-regs-only", "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fno-strict-aliasing",
		"-Wl,-T,"+source("machine.lds")+",--build-id=none,--no-warn-rwx-segments",
		"-o", file("machine.elf"), source("boot.S"), source("main.c")); err != nil {
		return nil, err
	}
	if err := command("objcopy", "-O", "binary", file("machine.elf"), file("machine.bin")); err != nil {
		return nil, err
	}
	var jobs []byte
	for _, f := range l {
		for i := range f.Cases {
			jobs = appendSystemJob(jobs, &f.Cases[i])
		}
	}
	if err := os.WriteFile(file("jobs"), jobs, 0o600); err != nil {
		return nil, err
	}
	args := []string{
		"-m", "64", "-cpu", "max,arch-capabilities=off", "-display", "none", "-nodefaults", "-no-reboot", "-kernel", file("machine.bin"), "-initrd", file("jobs"),
		"-chardev", "file,id=c,path=" + file("out"), "-device", "isa-debugcon,iobase=0xe9,chardev=c", "-device", "isa-debug-exit,iobase=0xf4,iosize=1", "-accel", accel,
	}
	var exit *exec.ExitError
	if err := command("timeout", append([]string{"120", "qemu-system-x86_64"}, args...)...); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return nil, err // 1 is what isa-debug-exit makes of 0
	}
	results, err := os.ReadFile(file("out"))
	if err == nil && len(results) < 16 {
		err = errors.New("the machine says nothing")
	}
	if err != nil {
		return nil, err
	}
	return results[16:], nil
}

func command(name string, args ...string) error {
	if msg, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, msg)
	}
	return nil
}

func appendSystemJob(b []byte, c *record.Case) []byte {
	code := [16]byte(bytes.Repeat([]byte{nop}, 16))
	copy(code[:], c.Code)
	b = append(b, code[:]...)
	b = binary.LittleEndian.AppendUint64(b, c.Window)
	for _, v := range c.Before.R {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint64(b, c.Before.RIP)
	b = binary.LittleEndian.AppendUint64(b, uint64(c.Before.Flags))
	b = append(b, c.Before.Mem[:]...)
	for _, v := range c.Before.Sys {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// systemState is struct state of machine/main.c, in bytes.
const systemState = 16*8 + 8 + 8 + record.WindowSize + 8*record.NSys

func readSystemState(s *record.State, b []byte) {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	for i := range s.R {
		s.R[i] = word(i)
	}
	s.RIP, s.Flags = word(16), uint16(word(17))&^0x100
	copy(s.Mem[:], b[18*8:])
	for i := range s.Sys {
		s.Sys[i] = word(18 + record.WindowSize/8 + i)
	}
}

// settleSystem takes the state before and the result of the first of results.
func settleSystem(c *record.Case, form string, results []byte) ([]byte, error) {
	if len(results) < 2*systemState+16 {
		return nil, errors.New("no result")
	}
	readSystemState(&c.Before, results)
	results = results[systemState:]
	vector := binary.LittleEndian.Uint64(results)
	c.Vector = uint8(vector)
	c.Code32 = binary.LittleEndian.Uint64(results[8:])
	readSystemState(&c.After, results[16:])
	if vector == 1 {
		c.Vector = record.NoVector
	}
	c.CR2 = 0
	if c.Vector == 14 {
		c.CR2 = c.After.Sys[record.CR2]
	}
	if form == "SYS STI" && c.After.RIP == record.CodeAddr+2 {
		c.After.RIP-- // QEMU puts off the trap, as an interrupt's, until the nop is over
	}
	if strings.HasPrefix(form, "SYS PUSHF") && c.Vector == record.NoVector {
		c.After.Mem[c.After.R[rsp]-c.Window+1] &^= 1 // the single-step flag
	}
	return results[16+systemState:], nil
}
