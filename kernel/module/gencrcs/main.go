// Command gencrcs writes kernel/module/crcs-6.1: the CRCs that Debian's kernels have for
// the symbols that the guest exports. It is run in the top folder when the guest exports
// other symbols or Debian has a new kernel:
//
//	go run ./kernel/module/gencrcs [FOLDER]...
//
// It reads the Module.symvers of each linux-headers-6.1.0-NN-amd64 in /usr/src and in the
// folders. The columns of other kernels stay, and have nothing for new symbols.
package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/image"
)

const table = "kernel/module/crcs-6.1"

// plain is a kernel of Debian that is no variant.
var plain = regexp.MustCompile(`^6\.1\.0-\d+-amd64$`)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gencrcs:", err)
		os.Exit(1)
	}
}

func run() error {
	img, err := image.Load(guest.Image("6.1"))
	if err != nil {
		return err
	}
	names := append(img.Exports, "module_layout")
	slices.Sort(names)
	names = slices.Compact(names)

	of, err := read()
	if err != nil {
		return err
	}
	for _, folder := range append([]string{"/usr/src"}, os.Args[1:]...) {
		files, err := filepath.Glob(filepath.Join(folder, "linux-headers-6.1.0-*-amd64", "Module.symvers"))
		if err != nil {
			return err
		}
		for _, file := range files {
			kernel := strings.TrimPrefix(filepath.Base(filepath.Dir(file)), "linux-headers-")
			if !plain.MatchString(kernel) {
				continue
			}
			if of[kernel], err = symvers(file); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(table, format(names, of), 0o644)
}

// symvers reads a Module.symvers: CRC, symbol, object and kind of export in each line.
func symvers(file string) (map[string]string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	crcs := map[string]string{}
	for line := range strings.Lines(string(b)) {
		w := strings.Fields(line)
		if len(w) >= 3 {
			crcs[w[1]] = strings.TrimPrefix(w[0], "0x")
		}
	}
	return crcs, nil
}

// read returns the table that is there, by kernel and symbol.
func read() (map[string]map[string]string, error) {
	of := map[string]map[string]string{}
	b, err := os.ReadFile(table)
	if err != nil {
		return nil, err
	}
	var kernels []string
	for line := range strings.Lines(string(b)) {
		w := strings.Fields(line)
		if kernels == nil {
			kernels = w[1:]
			for _, k := range kernels {
				of[k] = map[string]string{}
			}
			continue
		}
		last := ""
		for i, crc := range w[1:] {
			if crc == "-" {
				continue
			}
			if crc != "=" {
				last = crc
			}
			of[kernels[i]][w[0]] = last
		}
	}
	return of, nil
}

// format writes the table, the oldest kernel first.
func format(names []string, of map[string]map[string]string) []byte {
	number := func(kernel string) int {
		n, _ := strconv.Atoi(strings.Split(strings.TrimPrefix(kernel, "6.1.0-"), "-")[0])
		return n
	}
	kernels := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return number(a) - number(b) })
	var b bytes.Buffer
	fmt.Fprintln(&b, strings.Join(append([]string{"symbol"}, kernels...), " "))
	for _, name := range names {
		row, last, found := []string{name}, "", false
		for _, k := range kernels {
			crc := of[k][name]
			switch {
			case crc == "":
				row = append(row, "-")
				continue
			case crc == last:
				crc = "="
			default:
				last = crc
			}
			row, found = append(row, crc), true
		}
		if found {
			fmt.Fprintln(&b, strings.Join(row, " "))
		}
	}
	return b.Bytes()
}
