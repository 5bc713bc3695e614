package integration

import (
	"fmt"
	"regexp"
	"strings"
)

// maxMasks is the maximum number of rules in the file masks. Each rule hides
// differences; there should be few.
const maxMasks = 10

// A Mask replaces what must differ between two kernels, or two runs.
type Mask struct {
	re   *regexp.Regexp
	with string
}

// Masks returns the rules of the file masks in order.
func Masks() ([]Mask, error) {
	b, err := shared.ReadFile("masks")
	if err != nil {
		return nil, err
	}
	return parseMasks(string(b))
}

func parseMasks(text string) ([]Mask, error) {
	var masks []Mask
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		re, with, ok := strings.Cut(line, " => ")
		if !ok {
			return nil, fmt.Errorf("masks:%d: no ' => '", i+1)
		}
		r, err := regexp.Compile("(?m)" + re)
		if err != nil {
			return nil, fmt.Errorf("masks:%d: %w", i+1, err)
		}
		masks = append(masks, Mask{r, with})
	}
	if len(masks) > maxMasks {
		return nil, fmt.Errorf("masks: %d rules, at most %d", len(masks), maxMasks)
	}
	return masks, nil
}

// Apply masks a text, and appends a newline if it does not end with one, as txtar
// requires.
func Apply(masks []Mask, text string) string {
	for _, m := range masks {
		text = m.re.ReplaceAllString(text, m.with)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}
