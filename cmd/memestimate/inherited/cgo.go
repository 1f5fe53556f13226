//go:build cgo && unix

package inherited

/*
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

static int closed; // bit n: descriptor n
static unsigned long long ignored; // bit n: signal n

__attribute__((constructor)) static void look(void) {
	struct sigaction now;
	for (int s = 1; s < 32; s++)
		if (!sigaction(s, 0, &now) && now.sa_handler == SIG_IGN)
			ignored |= 1ull << s;
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) == -1 && errno == EBADF)
			closed |= 1 << fd;
}

static int closed_at_start(void) { return closed; }
static unsigned long long ignored_at_start(void) { return ignored; }
*/
import "C"

// Known says whether this build can tell.
const Known = true

func closedAtStart() int { return int(C.closed_at_start()) }

func ignoredAtStart() uint64 { return uint64(C.ignored_at_start()) }
