static __attribute__((noinline)) unsigned long fib(unsigned long n);

unsigned long run(unsigned long n, void *mem)
{
	return fib(n);
}

static __attribute__((noinline)) unsigned long fib(unsigned long n)
{
	if (n < 2)
		return n;
	return fib(n - 1) + fib(n - 2);
}
