/* Insertion sort of 200 numbers, n times. */
unsigned long run(unsigned long n, void *mem)
{
	long *a = mem;
	unsigned long sum = 0, x = 1;

	while (n--) {
		for (int i = 0; i < 200; i++) {
			x = x * 6364136223846793005ul + 1442695040888963407ul;
			a[i] = x >> 33;
		}
		for (int i = 1; i < 200; i++) {
			long v = a[i];
			int j = i;

			for (; j > 0 && a[j - 1] > v; j--)
				a[j] = a[j - 1];
			a[j] = v;
		}
		sum += a[0] + a[100] * 3 + a[199] * 5;
	}
	return sum;
}
