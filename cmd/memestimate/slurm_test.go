//go:build linux && cgo && slurm

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/must"
)

// slurmConf is a cluster of four nodes on this host, whose GPUs are null devices: a slurmd takes them without a driver.
const slurmConf = `ClusterName=fake
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
SlurmctldPort=%[2]d
AuthType=auth/munge
AuthInfo=socket=%[1]s/munge.sock
CredType=cred/munge
StateSaveLocation=%[1]s/state
SlurmdSpoolDir=%[1]s/spool/%%n
SlurmctldPidFile=%[1]s/slurmctld.pid
SlurmdPidFile=%[1]s/slurmd.%%n.pid
SlurmctldLogFile=%[1]s/slurmctld.log
SlurmdLogFile=%[1]s/slurmd.%%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SlurmdParameters=config_overrides
GresTypes=gpu,shard
KillWait=2
MinJobAge=3600
AccountingStorageType=accounting_storage/none
JobSubmitPlugins=lua
NodeName=gpu40 NodeHostname=localhost NodeAddr=127.0.0.1 Port=%[3]d CPUs=8 RealMemory=128000 Gres=gpu:a100-40:4 Feature=gpu,vram40
NodeName=gpu80 NodeHostname=localhost NodeAddr=127.0.0.1 Port=%[4]d CPUs=16 RealMemory=256000 Gres=gpu:a100-80:2 Feature=gpu,vram80
NodeName=gpumix NodeHostname=localhost NodeAddr=127.0.0.1 Port=%[5]d CPUs=16 RealMemory=256000 Gres=gpu:a100-80:1,gpu:rtx4090:2,shard:8 Feature=gpu
NodeName=cpu1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=%[6]d CPUs=8 RealMemory=32000 Feature=cpu
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

const gresConf = `NodeName=gpu40 Name=gpu Type=a100-40 File=%[1]s/dev/gpu[0-3]
NodeName=gpu80 Name=gpu Type=a100-80 File=%[1]s/dev/gpu[4-5]
NodeName=gpumix Name=gpu Type=a100-80 File=%[1]s/dev/gpu6
NodeName=gpumix Name=gpu Type=rtx4090 File=%[1]s/dev/gpu[7-8]
NodeName=gpumix Name=shard Count=8 File=%[1]s/dev/gpu[7-8]
`

var slurmNodes = []string{"gpu40", "gpu80", "gpumix", "cpu1"}

// startSlurm starts the cluster, and ends it with the test.
func startSlurm(t *testing.T) (environ []string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("a Slurm cluster is started as root")
	}
	for _, program := range []string{"slurmctld", "slurmd", "munged", "sinfo", "srun", "sbatch"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatal("no Slurm here: ", err)
		}
	}
	dir, err := os.MkdirTemp("", "memestimate-slurm")
	must.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must.OK(t, os.Chmod(dir, 0o755))
	path := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	for _, d := range []string{"state", "spool", "dev"} {
		must.OK(t, os.Mkdir(path(d), 0o755))
	}
	for i := range 9 {
		must.OK(t, os.Symlink(os.DevNull, path("dev", fmt.Sprint("gpu", i))))
	}
	base := 20000 + os.Getpid()%20000
	must.OK(t, os.WriteFile(path("slurm.conf"), fmt.Appendf(nil, slurmConf, dir, base, base+1, base+2, base+3, base+4),
		0o644))
	must.OK(t, os.WriteFile(path("gres.conf"), fmt.Appendf(nil, gresConf, dir), 0o644))
	script, err := os.ReadFile("../../docs/cluster/job_submit.lua")
	must.OK(t, err)
	must.OK(t, os.WriteFile(path("job_submit.lua"), script, 0o644))
	must.OK(t, os.WriteFile(path("cgroup.conf"), []byte("CgroupPlugin=cgroup/v1\n"), 0o644))
	must.OK(t, os.WriteFile(path("munge.key"), bytes.Repeat([]byte{'k'}, 1024), 0o400))
	environ = append(os.Environ(), "SLURM_CONF="+path("slurm.conf"))
	start := func(name string, args ...string) {
		c := exec.Command(name, args...)
		c.Env = environ
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	stop := func(file string) {
		b, err := os.ReadFile(path(file))
		if err != nil {
			return
		}
		var pid int
		if n, _ := fmt.Sscan(string(b), &pid); n == 1 && pid > 1 {
			syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	t.Cleanup(func() {
		for _, n := range slurmNodes {
			stop("slurmd." + n + ".pid")
		}
		stop("slurmctld.pid")
		stop("munged.pid")
		time.Sleep(300 * time.Millisecond)
	})
	start("munged", "--force", "--key-file="+path("munge.key"), "--socket="+path("munge.sock"),
		"--pid-file="+path("munged.pid"), "--log-file="+path("munged.log"), "--seed-file="+path("munge.seed"))
	start("slurmctld", "-f", path("slurm.conf"))
	for _, n := range slurmNodes {
		must.OK(t, os.MkdirAll(path("spool", n), 0o755))
		start("slurmd", "-N", n, "-f", path("slurm.conf"))
	}
	idle := waitFor(func() bool {
		c := exec.Command("sinfo", "-h", "-N", "-t", "idle", "-o", "%N")
		c.Env = environ
		out, _ := c.Output()
		return len(strings.Fields(string(out))) == len(slurmNodes)
	})
	if !idle {
		log, _ := os.ReadFile(path("slurmctld.log"))
		t.Fatalf("the nodes do not come up:\n%s", log)
	}
	return environ
}

// TestSlurm places jobs of models on a real cluster.
func TestSlurm(t *testing.T) {
	environ := startSlurm(t)
	program, err := exec.LookPath("memestimate")
	must.OK(t, err)
	out := t.TempDir()
	command := func(args ...string) *exec.Cmd {
		c := exec.Command(program, args...)
		c.Env, c.Dir = environ, out
		return c
	}
	// What is asked for follows from the model's size alone.
	sizes := []struct {
		model []string
		gres  string
		node  string
	}{
		{[]string{"resnet18", "--batch", "32"}, "gpu:rtx4090:1", "gpumix"},
		{[]string{"swin_t", "--batch", "128"}, "gpu:rtx4090:1", "gpumix"},
		{[]string{"densenet121", "--batch", "256"}, "gpu:a100-40:1", "gpu40"},
		{[]string{"vit_b_16", "--batch", "256"}, "gpu:a100-40:1", "gpu40"},
		{[]string{"resnet50", "--batch", "600"}, "gpu:a100-80:1", "gpu80 gpumix"},
		{[]string{"bert_base", "--batch", "352"}, "gpu:a100-80:1", "gpu80 gpumix"},
	}
	for _, s := range sizes {
		o, err := command(append([]string{"slurm"}, s.model...)...).Output()
		if err != nil || !strings.HasPrefix(string(o), "--nodes=1 --gres="+s.gres) {
			t.Errorf("%v: %v, %s, want %s", s.model, err, o, s.gres)
		}
	}

	t.Run("thirty jobs", func(t *testing.T) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		ran := map[string]int{}
		for i := range 30 {
			s := sizes[i%len(sizes)]
			wg.Go(func() {
				request, err := command(append(append([]string{"slurm"}, s.model...), "--mem", "1GiB")...).Output()
				must.OK(t, err)
				c := exec.Command("srun", append(strings.Fields(string(request)), "sh", "-c",
					"sleep 0.3; echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES")...)
				c.Env, c.Dir = environ, out
				var errors bytes.Buffer
				c.Stderr = &errors
				o, err := c.Output()
				f := strings.Fields(string(o))
				if err != nil || len(f) != 2 || !strings.Contains(s.node, f[0]) {
					t.Errorf("%v: %v, ran on %q, want %s\n%s", s.model, err, o, s.node, errors.String())
					return
				}
				mu.Lock()
				ran[f[0]]++
				mu.Unlock()
			})
		}
		wg.Wait()
		t.Logf("jobs by node: %v", ran)
		if ran["gpu40"] != 10 || ran["gpu80"]+ran["gpumix"] != 20 {
			t.Errorf("jobs by node: %v", ran)
		}
	})

	t.Run("refused", func(t *testing.T) {
		c := command("slurm", "--need", "90GiB", "--", "true")
		o, _ := c.CombinedOutput()
		if exitCode(c) != exitNo || !strings.Contains(string(o),
			"gpu80 comes closest, with 2 of gpu:a100-80 (79.14 GiB): 10.86 GiB short on each") {
			t.Errorf("exit code %d: %s", exitCode(c), o)
		}
		c = command("slurm", "--need", "30GiB", "-n", "5")
		o, _ = c.CombinedOutput()
		if exitCode(c) != exitNo || !strings.Contains(string(o),
			"gpu40 comes closest, with 4 of gpu:a100-40 (39.38 GiB): 1 short") {
			t.Errorf("exit code %d: %s", exitCode(c), o)
		}
	})

	t.Run("a site's job_submit.lua", func(t *testing.T) {
		submit := func(need string) (string, error) {
			c := exec.Command("srun", "--comment=gpu-memory="+need, "--mem=1G", "sh", "-c",
				"echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES")
			c.Env = environ
			o, err := c.CombinedOutput()
			return string(o), err
		}
		if o, err := submit("30GiB"); err != nil || !strings.HasPrefix(o, "gpu40 ") || len(strings.Fields(o)) != 2 {
			t.Errorf("%v: %s", err, o)
		}
		if o, err := submit("100GiB"); err == nil ||
			!strings.Contains(o, "no GPU of this cluster has 100 GiB: the largest is a100-80 with 79.1 GiB") {
			t.Errorf("%v: %s", err, o)
		}
	})

	t.Run("shards", func(t *testing.T) {
		o, err := command("slurm", "--need", "5GiB", "--share", "--format", "json").Output()
		var r struct{ GRES string }
		if err != nil || json.Unmarshal(o, &r) != nil || r.GRES != "shard:rtx4090:1" {
			t.Errorf("%v: %s", err, o)
		}
	})

	t.Run("several GPUs and a script", func(t *testing.T) {
		o, err := command("slurm", "--need", "30GiB", "-n", "4", "--", "torchrun", "train it.py").Output()
		want := "#!/bin/sh\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:a100-40:4\n#SBATCH --ntasks-per-node=1\nexec " +
			"torchrun 'train it.py'\n"
		if err != nil || string(o) != want {
			t.Errorf("%v: %q, want %q", err, o, want)
		}
	})
}
