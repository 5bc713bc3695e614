package cpu

import (
	"bytes"
	"os"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/record"
)

// statusFlags are decode's flags in RFLAGS.
var statusFlags = map[decode.Flags]uint16{
	decode.CF: abi.FlagCF, decode.PF: abi.FlagPF, decode.AF: abi.FlagAF,
	decode.ZF: abi.FlagZF, decode.SF: abi.FlagSF, decode.OF: abi.FlagOF,
}

// TestProperties holds the table of properties against what a processor did: an instruction
// changes no flag that the table does not say (but those that manuals leave undefined), and
// one that cannot fault has not. (An int is no fault.)
func TestProperties(t *testing.T) {
	if testEngine != Interp {
		t.Skip("no engine takes part: once is enough")
	}
	for _, file := range []string{"testdata/native.gz", "testdata/system.gz"} {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		writes, faults := map[decode.Code]bool{}, map[decode.Code]bool{}
		err = record.Read(f, func(form record.Form) bool {
			if record.IsSequence(form.Name) {
				return true
			}
			for i := range form.Cases {
				c := &form.Cases[i]
				in, short := decode.Decode(append(bytes.Clone(c.Code), make([]byte, 15)...), record.CodeAddr)
				if short || int(in.Len) != len(c.Code) && in.Code != decode.UD {
					t.Errorf("%s: % x has %d bytes", form.Name, c.Code, in.Len)
					return false
				}
				p := decode.PropertiesOf(in.Code)
				if c.Vector != record.NoVector {
					faults[in.Code] = true
					if in.Code != decode.INT && !p.Faults && in.Form&decode.HasMem == 0 {
						t.Errorf("%s: % x, exception %d", form.Name, c.Code, c.Vector)
						return true
					}
					continue
				}
				changed := (c.Before.Flags ^ c.After.Flags) &^ undefined(form.Name, c)
				for flag, bit := range statusFlags {
					if changed&bit == 0 {
						continue
					}
					writes[in.Code] = true
					if p.Writes&flag == 0 {
						t.Errorf("%s: % x has changed flags %#x", form.Name, c.Code, changed)
						return true
					}
				}
			}
			return true
		})
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d codes have changed flags, %d have faulted", file, len(writes), len(faults))
		if len(writes) == 0 || len(faults) == 0 {
			t.Errorf("%s: nothing was looked at", file)
		}
	}
}
