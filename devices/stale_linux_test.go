package devices

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memestimate/memestimate/test/must"
)

// What launchers of another user left behind when they were killed costs the next one little: each file is opened once,
// not once for every other. How long that takes says BenchmarkStale.
func TestManyStaleFiles(t *testing.T) {
	const files = 2000
	s := state(t)
	for i := range files {
		name := s.path(fmt.Sprintf("%s%d-%d", holdPrefix, i, i))
		must.Write(t, name, []byte(`{"grants":[],"pid":1}`))
		if os.Getuid() == 0 {
			must.OK(t, os.Chown(name, 20000, 20000))
		}
	}
	opened := opens(t, filepath.Dir(s.path("x")))
	hold(t, s, 1, HoldRequest{}).Release()
	n := opened()
	t.Logf("%d opens of %d files", n, files)
	if n < files || n > 2*files {
		t.Errorf("%d stale files were opened %d times", files, n)
	}
}

// opens counts how often files of a directory are opened from now on, as the kernel tells it.
func opens(t *testing.T, dir string) func() int {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	must.OK(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	return func() (n int) {
		buf := make([]byte, 1<<16)
		for {
			got, err := unix.Read(fd, buf)
			if err != nil || got <= 0 {
				return n
			}
			for at := 0; at < got; n++ {
				at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[at+12:]))
			}
		}
	}
}
