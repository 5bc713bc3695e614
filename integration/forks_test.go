package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/internal/exec/activity"
)

// forksProgram makes processes while signals come for which it has a handler that does not restart calls, three at a
// time, and prints how many forks have failed and how many processes have ended otherwise than they wanted.
const forksProgram = `#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void on(int s) {}
int main(int argc, char **argv) {
	struct sigaction a = {.sa_handler = on};
	int failed = 0, wrong = 0;
	sigaction(SIGCHLD, &a, NULL);
	for (int i = 0; i < atoi(argv[1]); i++) {
		pid_t p[3];
		for (int j = 0; j < 3; j++) {
			p[j] = fork();
			if (p[j] == 0) {
				kill(getppid(), SIGCHLD);
				_exit(3);
			}
			failed += p[j] < 0;
		}
		for (int j = 0; j < 3; j++) {
			int status = 0;
			while (p[j] > 0 && waitpid(p[j], &status, 0) < 0 && errno == EINTR)
				;
			wrong += p[j] > 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 3);
		}
	}
	printf("failed %d, wrong %d\n", failed, wrong);
	return 0;
}
`

// TestForkSignals: a signal does not end a fork, an exit or a kill, armed or not, and each is seen once.
func TestForkSignals(t *testing.T) {
	needTime(t)
	needFUSE(t)
	dir := publicDir(t)
	putC(t, dir, "forks", forksProgram)
	const times = 300
	put(t, dir, "script", fmt.Sprintf(`T=/sys/kernel/tracing
for i in 1 2 3; do ./forks 1500 & done; wait
for f in clone exit_group kill; do echo "p:$f __x64_sys_$f" >>$T/kprobe_events; done
echo 'comm == "forks"' >$T/events/kprobes/filter
echo 1 >$T/events/kprobes/enable
./forks %d
echo 0 >$T/events/kprobes/enable
for f in clone exit_group kill; do echo $f $(grep -c " $f: " $T/trace); done
`, times))
	if !activity.Reported() {
		t.Skip("the supervisor is notified of forks")
	}
	for _, mirror := range []string{"all", "stops"} {
		out, status := asUser(nil).exec(t, dir, nil, []string{"--mirror", mirror}, "sh", "script")
		want := strings.Repeat("failed 0, wrong 0\n", 4) + fmt.Sprintf("clone %d\nexit_group %d\nkill %d\n", 3*times, 3*times+1, 3*times)
		if status != 0 || out != want {
			t.Errorf("--mirror=%s: status %d\n%s", mirror, status, diff(want, out))
		}
	}
}
