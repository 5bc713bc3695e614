// Command generate makes the recorded files of kernel/cpu/testdata.
// native.gz is what the processor that
// it runs on does with some 200,000 random instructions, at least 200 of each
// form. It invents instructions and states, has them executed (package native), and writes
// down the outcome in the format of package record. With -machine it makes
// system.gz, privileged instructions, which a small kernel (machine/) executes
// under QEMU. It needs Linux on x86-64 with BMI2, gcc and QEMU; the same
// processor gives the same file again.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"github.com/kprobefs/kprobefs/kernel/cpu/record"
	"github.com/kprobefs/kprobefs/kernel/cpu/record/native"
	"github.com/kprobefs/kprobefs/kernel/cpu/record/templates"
)

// casesPerForm is how many cases each form gets.
const casesPerForm = 200

func main() {
	machine := flag.String("machine", "", "the folder of the kernel that executes privileged instructions: record these")
	accel := flag.String("accel", "tcg", "QEMU's accelerator")
	out := flag.String("o", "native.gz", "the file to write")
	flag.Parse()
	var err error
	if *machine != "" {
		err = generateSystem(*machine, *accel, *out)
	} else {
		err = generate(*out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate(out string) error {
	l := invent(templates.Native())
	if err := execute(l); err != nil {
		return err
	}
	return write(l, out)
}

func write(l []record.Form, out string) error {
	var b bytes.Buffer
	if err := record.Write(&b, l); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d forms, %d bytes\n", len(l), b.Len())
	return os.WriteFile(out, b.Bytes(), 0o644)
}

// invent makes all cases, without outcomes.
func invent(l []templates.Template) []record.Form {
	var all []record.Form
	for _, t := range l {
		f := record.Form{Name: t.Name, Cases: make([]record.Case, casesPerForm)}
		for i := range f.Cases {
			f.Cases[i] = t.Case(i)
		}
		all = append(all, f)
	}
	return all
}

// execute has every case run, and writes down the outcomes.
func execute(l []record.Form) error {
	dir, err := os.MkdirTemp("", "record")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file, err := native.Build(dir)
	if err != nil {
		return err
	}
	r, err := native.Start(file)
	if err != nil {
		return err
	}
	for _, f := range l {
		for i := range f.Cases {
			if err := execute1(r, f.Name, &f.Cases[i]); err != nil {
				return fmt.Errorf("%s, case %d: %w", f.Name, i, err)
			}
		}
	}
	return r.Close()
}

func execute1(r *native.Runner, form string, c *record.Case) error {
	result, err := r.Run(&native.Job{Code: c.Code, Sequence: record.IsSequence(form), Window: c.Window, Before: c.Before})
	if err != nil {
		return err
	}
	return result.Settle(form, c)
}
