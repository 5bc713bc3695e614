package insn

// form tells what follows an opcode: a letter of the tables below.
type form byte

const (
	bare       = '.' // nothing
	modRM      = 'm'
	modRMImm8  = 'B'
	modRMImmZ  = 'Z' // 2 bytes with 66, else 4
	modRMImm32 = 'D'
	imm8       = 'b'
	imm16      = 'w'
	immZ       = 'z'
	immV       = 'v' // 2, 4 or 8 bytes
	rel8       = 'j'
	rel32      = 'J'
	moffs      = 'O' // an absolute address
	enter      = 'e' // imm16, imm8
	farPtr     = 'P' // offset, selector: not valid in 64-bit mode, but Linux 6.1 decodes it
	group3b    = 'g' // f6: ModRM, imm8 if test
	group3v    = 'G' // f7: ModRM, immZ if test
)

func (f form) hasModRM() bool {
	switch f {
	case modRM, modRMImm8, modRMImmZ, modRMImm32, group3b, group3v:
		return true
	}
	return false
}

// oneByte is the one-byte map, with a row for each high digit. Prefixes and escapes
// are not looked up. Opcodes that are invalid in 64-bit mode have the form of 32-bit
// mode.
var oneByte = table([16]string{
	"mmmmbz..mmmmbz..", // 00 add or
	"mmmmbz..mmmmbz..", // 10 adc sbb
	"mmmmbz..mmmmbz..", // 20 and sub
	"mmmmbz..mmmmbz..", // 30 xor cmp
	"................", // 40 REX
	"................", // 50 push pop
	"...m....zZbB....", // 60 63 movsxd, 68 push, 69 imul, 6a push, 6b imul
	"jjjjjjjjjjjjjjjj", // 70 jcc
	"BZBBmmmmmmmmmmmm", // 80 group 1, test xchg mov lea pop
	"..........P.....", // 90 nop xchg cbw cwd callf pushf popf
	"OOOO....bz......", // a0 mov moffs, strings, test
	"bbbbbbbbvvvvvvvv", // b0 mov imm
	"BBw.mmBZe.w..b..", // c0 shifts ret mov enter leave retf int
	"mmmmbb..mmmmmmmm", // d0 shifts, aam aad, x87
	"jjjjbbbbJJPj....", // e0 loop in out call jmp
	"......gG......mm", // f0 group 3, 4, 5
})

// twoByte is the map after 0f, also for VEX.
var twoByte = table([16]string{
	"mmmm.........m.B", // 00 groups 6 and 7, lar lsl, prefetch, 3DNow (its opcode is an imm8)
	"mmmmmmmmmmmmmmmm", // 10 moves, hint nops
	"mmmm....mmmmmmmm", // 20 control registers, moves
	"................", // 30 wrmsr rdtsc rdmsr rdpmc
	"mmmmmmmmmmmmmmmm", // 40 cmovcc
	"mmmmmmmmmmmmmmmm", // 50
	"mmmmmmmmmmmmmmmm", // 60
	"BBBBmmm.mmmmmmmm", // 70 shuffles, emms
	"JJJJJJJJJJJJJJJJ", // 80 jcc
	"mmmmmmmmmmmmmmmm", // 90 setcc
	"...mBmmm...mBmmm", // a0 push fs, cpuid bt shld padlock, rsm bts shrd group 15 imul
	"mmmmmmmmmmBmmmmm", // b0 cmpxchg movzx popcnt ud1 group 8 bsf movsx
	"mmBmBBBm........", // c0 xadd cmpps movnti group 9, bswap
	"mmmmmmmmmmmmmmmm", // d0
	"mmmmmmmmmmmmmmmm", // e0
	"mmmmmmmmmmmmmmm.", // f0 ud0
})

func table(rows [16]string) (t [256]form) {
	for i := range t {
		t[i] = form(rows[i>>4][i&15])
	}
	return t
}

// set is a set of bytes.
type set [4]uint64

func (s *set) has(c byte) bool { return s[c>>6]>>(c&63)&1 != 0 }

// setOf returns the set of the given ranges: first, last, first, last, ...
func setOf(ranges ...byte) (s set) {
	for i := 0; i < len(ranges); i += 2 {
		for c := int(ranges[i]); c <= int(ranges[i+1]); c++ {
			s[c>>6] |= 1 << (c & 63)
		}
	}
	return s
}

// legacy0F38 and legacy0F3A are the opcodes of these maps that exist without VEX.
var (
	legacy0F38 = setOf(0x00, 0x0b, 0x10, 0x10, 0x14, 0x15, 0x17, 0x17, 0x1c, 0x1e, 0x20, 0x25, 0x28, 0x2b, 0x30, 0x35,
		0x37, 0x41, 0x80, 0x82, 0xc8, 0xcd, 0xcf, 0xcf, 0xd8, 0xd8, 0xdb, 0xdf, 0xf0, 0xf1, 0xf5, 0xf6, 0xf8, 0xfc)
	legacy0F3A = setOf(0x08, 0x0f, 0x14, 0x17, 0x20, 0x22, 0x40, 0x42, 0x44, 0x44, 0x60, 0x63, 0xcc, 0xcc, 0xce, 0xcf, 0xdf, 0xdf)
	// noVEX are opcodes after 0f that are invalid with VEX.
	noVEX = setOf(0x00, 0x0f, 0x18, 0x27, 0x30, 0x40, 0x43, 0x43, 0x48, 0x49, 0x4c, 0x4f, 0x80, 0x8f, 0x94, 0x97, 0x9a, 0xad,
		0xaf, 0xc1, 0xc3, 0xc3, 0xc7, 0xcf, 0xff, 0xff)
)

// boostable0F are the two-byte opcodes that Linux 6.1 boosts, as measured.
var boostable0F = setOf(0x02, 0x03, 0x06, 0x06, 0x08, 0x09, 0x1f, 0x23, 0x31, 0x31, 0x40, 0x4f, 0x60, 0x6b, 0x6e, 0x6f,
	0x74, 0x77, 0x7e, 0x7f, 0x90, 0x9f, 0xa0, 0xa1, 0xa3, 0xa5, 0xa8, 0xa9, 0xab, 0xad, 0xaf, 0xaf, 0xb0, 0xb7, 0xbb, 0xbf,
	0xc0, 0xc1, 0xc8, 0xcf, 0xd1, 0xd3, 0xd5, 0xd5, 0xd8, 0xd9, 0xdb, 0xdd, 0xdf, 0xdf, 0xe1, 0xe2, 0xe5, 0xe5, 0xe8, 0xe9,
	0xeb, 0xed, 0xef, 0xef, 0xf1, 0xf3, 0xf5, 0xf5, 0xf8, 0xfa, 0xfc, 0xfe)

// unboostable1 are the one-byte opcodes that Linux 6.1 does not boost; ff depends on
// its ModRM.
var unboostable1 = setOf(0x62, 0x62, 0x70, 0x7f, 0x9a, 0x9a, 0xc0, 0xc1, 0xcc, 0xce, 0xd0, 0xd3, 0xd6, 0xd6, 0xd8, 0xdf,
	0xe0, 0xe3, 0xe8, 0xe9, 0xeb, 0xeb, 0xf0, 0xf4, 0xf6, 0xf7, 0xfe, 0xff)
