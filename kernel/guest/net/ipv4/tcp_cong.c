// TCP: the state of congestion control. There is none but the one that losses are followed by.
#include <net/sock.h>
#include <trace/events/tcp.h>

noinline __noclone void tcp_set_ca_state(struct sock *sk, const u8 ca_state)
{
#if GUEST_LINUX >= 601
	trace_tcp_cong_state_set(sk, ca_state);
#endif
	inet_csk(sk)->icsk_ca_state = ca_state;
}
