package integration

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/rc4"
	"crypto/sha3"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"regexp"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/internal/tools/linux"
)

// imageText is what the modules of ImageModules compute with.
const imageText = "The quick brown fox jumps over the lazy dog"

// TestImageModules loads modules of Debian's kernel package as they are, and modules that
// call them: what these compute is what package crypto and others compute. It skips where
// the package cannot be had.
func TestImageModules(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	objects, err := BuildImageModules(context.Background(), ImageModules)
	for _, missing := range []error{ErrNoHeaders, linux.ErrNoKernel, linux.ErrNoTools} {
		if errors.Is(err, missing) {
			t.Skipf("no modules of Debian's kernel package here: %v", err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	cases, err := LoadModuleCases(".", ImageModules, objects)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"crypto": imageDigests(t), "library": imageSums(t), "tests": nil}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			out, status := run(t, c, nil)
			if status != 0 {
				t.Errorf("exit status %d", status)
			}
			for _, refused := range regexp.MustCompile(`(?m)^# load .*\n\[.*`).FindAllString(out, -1) {
				t.Errorf("refused: %s", refused)
			}
			for _, wrong := range regexp.MustCompile(`(?m)^.*(back|same|right) 0$`).FindAllString(out, -1) {
				t.Error(wrong)
			}
			lines, ok := want[c.Name]
			if !ok {
				t.Error("no expectation")
			}
			for _, line := range lines {
				if !strings.Contains(out, line+"\n") {
					t.Errorf("no %q", line)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// imageDigests returns lines that module digests logs.
func imageDigests(t *testing.T) []string {
	text := []byte(imageText)
	sum512, sum384, sum3 := sha512.Sum512(text), sha512.Sum384(text), sha3.Sum256(text)
	crc := binary.LittleEndian.AppendUint32(nil, crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
	lines := []string{
		fmt.Sprintf("sha512 (sha512-generic): 0 %x", sum512),
		fmt.Sprintf("sha384 (sha384-generic): 0 %x", sum384),
		fmt.Sprintf("sha3-256 (sha3-256-generic): 0 %x", sum3),
		fmt.Sprintf("crc32c (crc32c-generic): 0 %x", crc),
		"nothing: error -2",
		"lz4: 0, 4096 bytes, the same 1",
		"lz4hc: 0, 4096 bytes, the same 1",
	}
	key := make([]byte, 32)
	for i := range key {
		key[i] = byte(7*i + 1)
	}
	for _, c := range []struct {
		name string
		make func([]byte) (cipher.Block, error)
		keys []int
	}{{"des", des.NewCipher, []int{8}}, {"des3_ede", des.NewTripleDESCipher, []int{24}}, {"aes-fixed-time", aes.NewCipher, []int{16, 24, 32}}} {
		for _, n := range c.keys {
			block, err := c.make(key[:n])
			if err != nil {
				t.Fatal(err)
			}
			out := make([]byte, block.BlockSize())
			block.Encrypt(out, text)
			lines = append(lines, fmt.Sprintf("%s, key of %d: %x, back 1", c.name, n, out))
		}
	}
	return lines
}

// imageSums returns lines that module sums logs.
func imageSums(t *testing.T) []string {
	arc4, err := rc4.NewCipher([]byte("a key"))
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 16)
	arc4.XORKeyStream(out, []byte(imageText[:16]))
	over := bytes.Index([]byte(imageText), []byte("over"))
	return []string{
		fmt.Sprintf("arc4 %x", out),
		fmt.Sprintf("crc32c %#x", ^crc32.Checksum([]byte(imageText), crc32.MakeTable(crc32.Castagnoli))),
		fmt.Sprintf("kmp: %d", over),
		fmt.Sprintf("bm: %d", over),
		"corrected 2, right 1",
		"errors 1, at bit 60",
		"cp437: 1 0x3a3, back 1",
		"iso8859-15: 1 0xe4, back 1",
		"koi8-r: 1 0x414, back 1",
	}
}
