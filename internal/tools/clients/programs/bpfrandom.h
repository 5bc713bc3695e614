/* Numbers that follow from a seed. */
static unsigned long long state;

static unsigned rnd(unsigned n)
{
	unsigned long long z = (state += 0x9e3779b97f4a7c15ull);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % n;
}
