package tracingtest

// Lines returns the lines of a file that is read line by line.
func Lines(line func(int) (string, bool)) (lines []string) {
	for i := 0; ; i++ {
		s, ok := line(i)
		if !ok {
			return lines
		}
		lines = append(lines, s)
	}
}
