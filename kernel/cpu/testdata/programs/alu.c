/* Each program is one function at the start of its text: (n, memory). */
unsigned long run(unsigned long n, void *mem)
{
	unsigned long x = 88172645463325252ul, sum = 0;

	for (unsigned long i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		sum += (x & 0xff) + (unsigned int)i * 3;
	}
	return sum;
}
