// Tables of socks: connections by both addresses, listeners by port, and the users of
// local ports.
#include <linux/host.h>
#include <net/sock.h>
#include <linux/siphash.h>
#include <linux/random.h>
#include <linux/rcupdate.h>

#define BUCKETS 256
#define PORT_LOW 32768
#define PORT_HIGH 60999

static struct hlist_head ehash[BUCKETS], listening[BUCKETS], bhash[BUCKETS];
static DEFINE_SPINLOCK(hash_lock);
static siphash_key_t hash_key;

noinline u32 inet_ehashfn(const void *net, const __be32 laddr, const u16 lport, const __be32 faddr, const __be16 fport)
{
	if (!hash_key.key[0])
		get_random_bytes(&hash_key, sizeof(hash_key));
	return siphash_3u32(laddr, faddr, (u32)lport << 16 | fport, &hash_key);
}

static struct hlist_head *chain(__be32 laddr, u16 lport, __be32 faddr, __be16 fport)
{
	return &ehash[inet_ehashfn(NULL, laddr, lport, faddr, fport) % BUCKETS];
}

// __inet_lookup_established returns the sock whose peer is saddr:sport, with a
// reference.
struct sock *__inet_lookup_established(void *net, const __be32 saddr, const __be16 sport, const __be32 daddr, const u16 hnum)
{
	struct sock *sk, *found = NULL;

	spin_lock_bh(&hash_lock);
	hlist_for_each_entry(sk, chain(daddr, hnum, saddr, sport), __sk_common.skc_node) {
		if (inet_sk(sk)->inet_daddr == saddr && inet_sk(sk)->inet_dport == sport && inet_sk(sk)->inet_saddr == daddr && inet_sk(sk)->inet_num == hnum) {
			sock_hold(sk);
			found = sk;
			break;
		}
	}
	spin_unlock_bh(&hash_lock);
	return found;
}

static __noipa struct sock *inet_lhash2_lookup(const __be32 daddr, const u16 hnum)
{
	struct sock *sk, *any = NULL;

	hlist_for_each_entry(sk, &listening[hnum % BUCKETS], __sk_common.skc_node) {
		if (inet_sk(sk)->inet_num != hnum)
			continue;
		if (inet_sk(sk)->inet_saddr == daddr)
			return sk;
		if (!inet_sk(sk)->inet_saddr)
			any = sk;
	}
	return any;
}

struct sock *__inet_lookup_listener(void *net, const __be32 daddr, const u16 hnum)
{
	struct sock *sk;

	spin_lock_bh(&hash_lock);
	sk = inet_lhash2_lookup(daddr, hnum);
	if (sk)
		sock_hold(sk);
	spin_unlock_bh(&hash_lock);
	return sk;
}

// inet_ehash_insert returns false if there is such a connection already.
noinline __noclone bool inet_ehash_insert(struct sock *sk)
{
	struct hlist_head *head = chain(inet_sk(sk)->inet_saddr, inet_sk(sk)->inet_num, inet_sk(sk)->inet_daddr, inet_sk(sk)->inet_dport);
	struct sock *other;

	hlist_for_each_entry(other, head, __sk_common.skc_node) {
		if (inet_sk(other)->inet_daddr == inet_sk(sk)->inet_daddr && inet_sk(other)->inet_dport == inet_sk(sk)->inet_dport &&
		    inet_sk(other)->inet_saddr == inet_sk(sk)->inet_saddr && inet_sk(other)->inet_num == inet_sk(sk)->inet_num)
			return false;
	}
	sock_hold(sk); // the table's reference
	hlist_add_head(&sk->__sk_common.skc_node, head);
	return true;
}

// inet_hash adds a sock to the tables: a listener by its port, others by both
// addresses.
void inet_hash(struct sock *sk)
{
	spin_lock_bh(&hash_lock);
	if (sk->sk_state == TCP_LISTEN) {
		sock_hold(sk);
		hlist_add_head(&sk->__sk_common.skc_node, &listening[inet_sk(sk)->inet_num % BUCKETS]);
	} else {
		inet_ehash_insert(sk);
	}
	spin_unlock_bh(&hash_lock);
}

void inet_unhash(struct sock *sk)
{
	bool hashed;

	spin_lock_bh(&hash_lock);
	hashed = !hlist_unhashed(&sk->__sk_common.skc_node);
	hlist_del_init(&sk->__sk_common.skc_node);
	spin_unlock_bh(&hash_lock);
	if (hashed)
		sock_put(sk);
}

static __always_inline bool port_in_use(const struct sock *sk, u16 port)
{
	struct sock *other;

	hlist_for_each_entry(other, &bhash[port % BUCKETS], __sk_common.skc_bind_node) {
		if (inet_sk(other)->inet_num == port &&
		    (!inet_sk(other)->inet_saddr || !inet_sk(sk)->inet_saddr || inet_sk(other)->inet_saddr == inet_sk(sk)->inet_saddr))
			return true;
	}
	return false;
}

static void take_port(struct sock *sk, u16 port)
{
	inet_sk(sk)->inet_num = port;
	inet_sk(sk)->inet_sport = htons(port);
	hlist_add_head(&sk->__sk_common.skc_bind_node, &bhash[port % BUCKETS]);
}

noinline __noclone void inet_sk_get_local_port_range(const struct sock *sk, int *low, int *high)
{
	*low = PORT_LOW;
	*high = PORT_HIGH;
}

// inet_csk_get_port binds to snum, or to any free port if it is 0. It returns 0 or
// -EADDRINUSE.
noinline __noclone int inet_csk_get_port(struct sock *sk, unsigned short snum)
{
	int low, high, i, offset, err = -EADDRINUSE;

	if (sk->sk_host)
		return host_made();
	inet_sk_get_local_port_range(sk, &low, &high);
	offset = get_random_u32() % (high - low + 1);
	spin_lock_bh(&hash_lock);
	for (i = 0; !snum && i <= high - low; i++) {
		u16 port = low + (offset + i) % (high - low + 1);

		if (!port_in_use(sk, port))
			snum = port;
	}
	if (snum && !port_in_use(sk, snum)) {
		take_port(sk, snum);
		err = 0;
	}
	spin_unlock_bh(&hash_lock);
	return err;
}

// inet_inherit_port binds a connection to its listener's port.
void inet_inherit_port(struct sock *sk, struct sock *child)
{
	spin_lock_bh(&hash_lock);
	take_port(child, inet_sk(sk)->inet_num);
	spin_unlock_bh(&hash_lock);
}

void inet_put_port(struct sock *sk)
{
	spin_lock_bh(&hash_lock);
	hlist_del_init(&sk->__sk_common.skc_bind_node);
	spin_unlock_bh(&hash_lock);
	inet_sk(sk)->inet_num = 0;
}

noinline __noclone int __inet_hash_connect(struct sock *sk)
{
	int err;
	bool inserted;

	if (sk->sk_host) {
		host_addresses(sk, host_tells(sk), true);
		return 0;
	}
	err = inet_sk(sk)->inet_num ? 0 : inet_csk_get_port(sk, 0);

	if (err)
		return err == -EADDRINUSE ? -EADDRNOTAVAIL : err;
	spin_lock_bh(&hash_lock);
	inserted = inet_ehash_insert(sk);
	spin_unlock_bh(&hash_lock);
	return inserted ? 0 : -EADDRNOTAVAIL;
}

// inet_hash_connect binds a connecting sock to a port, if it has none, and adds it to
// the tables.
int inet_hash_connect(struct sock *sk)
{
	return __inet_hash_connect(sk);
}
