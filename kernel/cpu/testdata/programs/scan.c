/* strlen of a text of 1000 bytes and a copy of it, n times. */
unsigned long run(unsigned long n, void *mem)
{
	char *s = mem, *to = mem + 4096;
	unsigned long sum = 0;

	for (int i = 0; i < 1000; i++)
		s[i] = 'a' + i % 26;
	s[1000] = 0;
	while (n--) {
		char *p = s, *q = to;

		while (*p)
			p++;
		sum += p - s;
		p = s;
		while ((*q++ = *p++))
			;
		sum += to[n & 511];
	}
	return sum;
}
