// Package emittest prints code for the tests of those who make it.
package emittest

import (
	"fmt"
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// Text is code in the AT&T syntax, an instruction a line. Jumps are shown with the
// distance from their ends.
func Text(code []byte) string {
	var b strings.Builder
	for len(code) > 0 {
		i, err := x86asm.Decode(code, 64)
		if err != nil {
			return fmt.Sprintf("%s% x: %v\n", b.String(), code, err)
		}
		text := x86asm.GNUSyntax(i, 0, nil)
		if code[0] == 0xf0 { // GNUSyntax shows a LOCK before a few instructions only
			text = "lock " + strings.TrimPrefix(text, "lock ")
		}
		fmt.Fprintln(&b, text)
		code = code[i.Len:]
	}
	return b.String()
}
