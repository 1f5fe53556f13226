//go:build linux && cgo

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/memestimate/memestimate/devices/fakenvml"
	"github.com/memestimate/memestimate/test/must"
)

// waitFor waits until ok, at most two minutes.
func waitFor(ok func() bool) bool {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return ok()
}

// job is a command that takes a lock of its GPU for so many milliseconds: it exits 99 when another job has that GPU.
// One that shares, as a third word says, lets others that share be there too, but for the third of them: GPUs have room
// for two. It says when it got the GPU.
// The GPU has to be free before the reservation is, which the job has inherited: one that ends by itself gives it back
// first. Of one that is killed Linux lets go the file with the highest number first (task work is done from the last
// to the first), as it is with the device files of a driver, which are opened after the reservation.
const job = `
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>
static int high(const char *dir, const char *gpu, const char *part)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s%s", dir, gpu, part);
	int low = open(path, O_RDONLY);
	int f = fcntl(low, F_DUPFD, 200);
	if (f < 0) { perror(path); exit(98); }
	close(low);
	return f;
}
int main(int n, char **arg)
{
	const char *gpu = getenv("CUDA_VISIBLE_DEVICES");
	int f = high(arg[1], gpu, ""), place = -1, share = n > 3;
	if (flock(f, (share ? LOCK_SH : LOCK_EX) | LOCK_NB)) return 99;
	if (share) {
		place = high(arg[1], gpu, ".1");
		if (flock(place, LOCK_EX | LOCK_NB)) {
			close(place);
			place = high(arg[1], gpu, ".2");
			if (flock(place, LOCK_EX | LOCK_NB)) return 99;
		}
	}
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	printf("%lld\n", t.tv_sec * 1000000000ll + t.tv_nsec);
	fflush(stdout);
	usleep(1000 * atoi(arg[2]));
	if (place >= 0) close(place);
	close(f);
	return 0;
}
`

// notStarted stands for the exit code of a command that could not be started, which is no process's exit code.
const notStarted = -1000

// A site is a host with a fake driver, a state directory and the job, which every user may use.
type site struct {
	dir, program string
	env          []string
}

func newSite(t *testing.T, machine string) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	dir, err := os.MkdirTemp("", "memestimate-site")
	must.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &site{dir: dir, program: filepath.Join(dir, "memestimate")}
	self, err := exec.LookPath("memestimate")
	must.OK(t, err)
	program, err := os.ReadFile(self)
	must.OK(t, err)
	writeProgram(t, s.program, program)
	must.OK(t, os.Chmod(dir, 0o755))
	if _, err := exec.LookPath("gcc"); err != nil {
		lacking(t, "the fake driver and the job need a C compiler")
	}
	parts, err := compiled()
	must.OK(t, err)
	must.OK(t, os.Mkdir(s.path("driver"), 0o755))
	must.OK(t, os.WriteFile(s.path("driver", fakenvml.Library), parts.driver, 0o755))
	writeProgram(t, s.path("job"), parts.job)
	must.OK(t, os.Chmod(s.path("driver"), 0o755)) // whatever the umask
	must.OK(t, os.Chmod(s.path("job"), 0o755))
	must.OK(t, os.WriteFile(s.path("machine"), []byte(machine), 0o644))
	must.OK(t, os.Mkdir(s.path("gpus"), 0o755))
	for i := range 8 {
		for _, part := range []string{"", ".1", ".2"} {
			must.OK(t, os.WriteFile(s.path("gpus", fmt.Sprintf("GPU-%d%s", i, part)), nil, 0o644))
		}
	}
	s.env = append(os.Environ(), "FAKE_NVML="+s.path("machine"), "LD_LIBRARY_PATH="+s.path("driver"),
		"MEMESTIMATE_STATE_DIR="+s.path("state"))
	return s
}

// compiled returns the fake driver of today and the job, which every site has a copy of.
var compiled = sync.OnceValues(func() (parts struct{ driver, job []byte }, err error) {
	dir, err := os.MkdirTemp("", "memestimate-compiled")
	if err != nil {
		return parts, err
	}
	defer os.RemoveAll(dir)
	driver, err := fakenvml.Build(dir)
	if err != nil {
		return parts, err
	}
	to := filepath.Join(dir, "job")
	if err := os.WriteFile(to+".c", []byte(job), 0o644); err != nil {
		return parts, err
	}
	if out, err := exec.Command("gcc", "-O1", "-o", to, to+".c").CombinedOutput(); err != nil {
		return parts, fmt.Errorf("gcc: %w\n%s", err, out)
	}
	parts.driver, err = os.ReadFile(driver)
	if err != nil {
		return parts, err
	}
	parts.job, err = os.ReadFile(to)
	return parts, err
})

// writeProgram writes a file that is run next. No process is started meanwhile: one that is, by a test beside this
// one, would hold the file open for writing until it runs its own program, and Linux runs no file that is (ETXTBSY,
// "text file busy"; https://go.dev/issue/22315).
func writeProgram(t *testing.T, to string, program []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	must.OK(t, os.WriteFile(to, program, 0o755))
}

func (s *site) path(elem ...string) string { return filepath.Join(append([]string{s.dir}, elem...)...) }

// command returns the program with these arguments.
func (s *site) command(args ...string) *exec.Cmd {
	c := exec.Command(s.program, args...)
	c.Env = s.env
	return c
}

// job returns a launcher that waits for a GPU and then has it for so many milliseconds.
func (s *site) job(milliseconds int) *exec.Cmd {
	return s.command("run", "--wait", "--need", "40GiB", "--", s.path("job"), s.path("gpus"), strconv.Itoa(milliseconds))
}

// reserved returns how many reservations the program sees.
func (s *site) reserved(t *testing.T) int {
	t.Helper()
	out, err := s.command("devices", "--format", "json").Output()
	must.OK(t, err)
	var list struct {
		Devices []struct{ Reservations []struct{ ID string } }
	}
	must.OK(t, json.Unmarshal(out, &list))
	n := 0
	for _, d := range list.Devices {
		n += len(d.Reservations)
	}
	return n
}

// exitCode returns a finished command's exit code, or minus the signal that ended it. One that could not be started
// has none: notStarted.
func exitCode(c *exec.Cmd) int {
	if c.ProcessState == nil {
		return notStarted
	}
	if s := c.ProcessState.Sys().(syscall.WaitStatus); s.Signaled() {
		return -int(s.Signal())
	}
	return c.ProcessState.ExitCode()
}
