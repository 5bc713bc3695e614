package look

import "strings"

// Definition is how an event of kprobe_events is defined.
type Definition struct {
	Name      string     `json:"name"` // GROUP/EVENT
	Text      string     `json:"definition"`
	Arguments []Argument `json:"arguments"`
}

// Argument is what an event records of a hit.
type Argument struct {
	Name    string `json:"name"`
	Fetched string `json:"fetched"` // where it comes from: %di, $stack0, +8(%si):u64
}

// Definitions reads how the events of a name are defined, which is GROUP/EVENT, or an event's name in
// any group.
func Definitions(read ReadFile, name string) ([]Definition, error) {
	b, err := read("tracing/kprobe_events")
	if err != nil {
		return nil, err
	}
	all := []Definition{}
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		_, event, _ := strings.Cut(words[0], ":")
		if event != name && event[strings.IndexByte(event, '/')+1:] != name {
			continue
		}
		d := Definition{Name: event, Text: strings.TrimSuffix(line, "\n"), Arguments: []Argument{}}
		for _, word := range words[2:] {
			argument, fetched, _ := strings.Cut(word, "=")
			d.Arguments = append(d.Arguments, Argument{argument, fetched})
		}
		all = append(all, d)
	}
	return all, nil
}
