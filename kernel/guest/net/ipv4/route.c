// Routes: only 127.0.0.0/8, on the loopback device.
#include <net/sock.h>
#include <linux/netdevice.h>
#include <linux/rcupdate.h>

static struct dst_entry loopback_dst;

noinline __noclone struct dst_entry *ip_route_output_key_hash_rcu(void *net, __be32 daddr, __be32 *saddr)
{
	if ((daddr & htonl(0xff000000)) != htonl(0x7f000000))
		return ERR_PTR(-ENETUNREACH);
	if (!*saddr)
		*saddr = daddr;
	loopback_dst.dev = loopback_dev;
	return &loopback_dst;
}

noinline __noclone struct dst_entry *ip_route_output_key_hash(void *net, __be32 daddr, __be32 *saddr)
{
	struct dst_entry *dst;

	rcu_read_lock();
	dst = ip_route_output_key_hash_rcu(net, daddr, saddr);
	rcu_read_unlock();
	return dst;
}

// ip_route_output_flow returns the route to daddr, and sets *saddr if it is not set.
struct dst_entry *ip_route_output_flow(void *net, __be32 daddr, __be32 *saddr)
{
	return ip_route_output_key_hash(net, daddr, saddr);
}
