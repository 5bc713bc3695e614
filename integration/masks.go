package integration

import (
	"fmt"
	"regexp"
	"strings"
)

// maxMasks is how many rules the file masks may hold. Each one hides a
// difference; who needs an eleventh should ask why.
const maxMasks = 10

// A Mask replaces what must differ between two kernels, or two runs.
type Mask struct {
	re   *regexp.Regexp
	with string
}

// Masks gives the rules of the file masks, in its order.
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

// Apply masks a text and ends it with a newline, as txtar keeps it.
func Apply(masks []Mask, text string) string {
	for _, m := range masks {
		text = m.re.ReplaceAllString(text, m.with)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}
