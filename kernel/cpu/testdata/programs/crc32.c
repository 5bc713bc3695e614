/* crc32 of 4096 bytes, n times; the table and the bytes are made first. */
unsigned long run(unsigned long n, void *mem)
{
	unsigned int *table = mem;
	unsigned char *buf = mem + 1024;
	unsigned int crc = 0xffffffff;

	for (unsigned int i = 0; i < 256; i++) {
		unsigned int v = i;

		for (int k = 0; k < 8; k++)
			v = v & 1 ? v >> 1 ^ 0xedb88320 : v >> 1;
		table[i] = v;
	}
	for (unsigned int i = 0; i < 4096; i++)
		buf[i] = i * 7 + 3;
	while (n--)
		for (unsigned int i = 0; i < 4096; i++)
			crc = table[(crc ^ buf[i]) & 0xff] ^ crc >> 8;
	return ~crc;
}
