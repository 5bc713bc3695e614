package native

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/native/emit/emittest"
)

var update = flag.Bool("update", false, "write testdata/translations anew")

// guestCode are blocks of guest code, at least one for each way to translate an instruction.
var guestCode = []string{
	// moves
	"4889d8", "6689d8", "88d8", "b805000000", "48b88877665544332211", "48c7c0ffffffff", "b005",
	"488b4310", "8a4310", "48894310", "c7431005000000", "65488b042528000000", "488b84cb00010000", "4d89f5",
	"480fb6c3", "0fb74310", "4863c3", "480fbec3", "8d4310", "488d84cb00010000", "488d0500010000",
	"480f45c3", "480f454310", "0f94c3", "0f944310", "4887d8", "480fc8", "4898", "98", "4899", "99",
	// arithmetic and logic, without and with their flags
	"4801d8", "4801d8 7502", "4883c010", "4881c000100000", "48034310", "48014310", "80634310",
	"4811d8", "4819d8", "48134310", "4839d8 7402", "4885c0 7802", "a801 7402", "f6431001 7402",
	"48ffc0", "48ffc0 7402", "48f7d8", "48f7d0", "ff4310", "f75310",
	"480fafc3", "486bc30a 7002", "48f7e3", "48f7eb", "48f7f3",
	"4809d8", "4821d8", "31c0", "48ffc8",
	// shifts and bits
	"48c1e803", "48c1f803", "48c1f003", "48c1c803", "480fb3d8", "480fbaf805",
	"48c1e003", "48c1e003 7402", "48d3e0", "48d3e0 7402", "c1e800", "48c1c003", "48c1c003 7202",
	"480fa3d8 7202", "480fbae805 7202", "f3480fb8c3",
	// the stack
	"53", "54", "6a05", "ff7310", "5b", "9c", "9d", "c9", "53 55 4883ec10 48895c2408", "5b 5d c3",
	// branches
	"eb10", "7410", "e810000000", "ffe0", "ff6310", "ffd0", "ff5310", "c3", "c20800", "0f01c1", "cc",
	// flags, and what is left to the interpreter
	"fc", "fa", "90", "9c fb",
	// LOCK
	"f0480118", "f0830001 7402", "f0ff00", "f0f718", "488718", "f0480fc118", "480fc118", "f0480fb118", "f0480fba2805 7202",
}

// TestTranslations shows the host's instructions for each of guestCode, without what all
// blocks begin and end with and what all misses of the TLB have. After a change, -update
// writes the file anew, whose differences are then to be read.
func TestTranslations(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "the routine that fills a slot:\n%s", indent(fillSlot(offRTLB)))
	shown := map[decode.Code]bool{}
	for _, text := range guestCode {
		guest, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		insts := blockOf(guest, 0xffffffff81000000)
		for i := range insts {
			shown[insts[i].Code] = true
		}
		n := len(insts)
		if insts[n-1].Code == decode.FETCH {
			n--
		}
		var tr translator
		tr.begin(0xffffffff81000000, insts)
		tr.instructions(n)
		made := tr.Len()
		tr.finish()
		fmt.Fprintf(&b, "\n%s%s", emittest.Text(guest), indent(tr.B[:made]))
		if tr.Len() > made && tr.misses == nil {
			fmt.Fprintf(&b, "out of the way:\n%s", indent(tr.B[made:]))
		}
	}
	shown[decode.FETCH] = true
	for _, escape := range []string{"", "\x0f"} {
		for op := range 0x10000 { // opcode and ModRM
			code := "\x48" + escape + string([]byte{byte(op >> 8), byte(op), 0x24, 0, 0, 0, 0, 0, 0, 0, 0})
			if o, _ := decode.Decode([]byte(code), 0); Translatable(&o) && !shown[o.Code] {
				shown[o.Code] = true
				t.Errorf("guestCode has nothing like % x", code)
			}
		}
	}
	const file = "testdata/translations"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("translations differ from %s; -update writes it", file)
	}
}

// blockOf is the block that code makes at rip.
func blockOf(code []byte, rip uint64) (insts []decode.Inst) {
	at := uint64(0)
	for at < uint64(len(code)) {
		o, _ := decode.Decode(code[at:], rip+at)
		at += uint64(o.Len)
		if o.Code == decode.INT || o.Code == decode.VMCALL {
			o.Disp = rip + at
		}
		insts = append(insts, o)
		if decode.PropertiesOf(o.Code).Ends {
			return insts
		}
	}
	return append(insts, decode.Inst{Code: decode.FETCH, Imm: rip + at})
}

// indent is the text of host code.
func indent(code []byte) string {
	text := emittest.Text(code)
	if len(code) == 0 {
		return "\tnothing\n"
	}
	return "\t" + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n\t") + "\n"
}
