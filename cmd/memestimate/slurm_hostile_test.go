//go:build linux && cgo

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slurmCommands writes commands of Slurm's names that say something else, and puts them first in PATH.
func slurmCommands(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o777))
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// A cluster that answers nonsense, without an end or not at all gets one line within the limits.
func TestSlurmThatMisbehaves(t *testing.T) {
	was := slurmTime
	slurmTime = 2 * time.Second
	defer func() { slurmTime = was }()
	for sinfo, want := range map[string]string{
		"echo 'n1|idle|gpu*|1|1|(null)|gpu:a100-80:-4'": "wanted a count from 0",
		"yes 'n1|idle|gpu*|1|1|(null)|gpu:a100-80:4'":   "it says more than 64.00 MiB",
		"sleep 60; true": "no answer within 2s",
		"sleep 60 & echo 'n1|idle|gpu*|1|1|(null)|gpu:t4'":   "",
		"yes 'no such cluster' | head -c 1000000 >&2; false": "sinfo",
	} {
		slurmCommands(t, map[string]string{"sinfo": sinfo})
		start := time.Now()
		stdout, stderr, code := try(t, "slurm", "--need", "1MiB", "--share")
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("%s: it took %v", sinfo, took)
		}
		if want != "" && (code != exitDevice || stdout != "" || !strings.Contains(stderr, want) ||
			!strings.HasPrefix(stderr, "memestimate: slurm: ")) {
			t.Errorf("%s: exit code %d, %.200q, %.200q, want %q", sinfo, code, stdout, stderr, want)
		}
	}
}

// A job that failed is a failure, whatever its code; a signal cancels the job while Slurm does not answer.
func TestBatchJobThatFails(t *testing.T) {
	const sinfo, sbatch = "echo 'n1|idle|gpu*|1|1|(null)|gpu:t4:1'", "cat >/dev/null; echo 17"
	slurmCommands(t, map[string]string{"sinfo": sinfo, "sbatch": sbatch,
		"scontrol": `echo "JobId=17 JobState=FAILED ExitCode=256:0"`})
	args := []string{"run", "--cluster", "slurm", "--batch-job", "--need", "1MiB", "--", "true"}
	if _, stderr, code := try(t, args...); code != 1 {
		t.Errorf("exit code %d, want 1: %s", code, stderr)
	}
	cancelled := filepath.Join(t.TempDir(), "cancelled")
	slurmCommands(t, map[string]string{"sinfo": sinfo, "sbatch": sbatch, "scontrol": "sleep 60; true",
		"scancel": "echo $1 >" + cancelled})
	cmd := exec.Command(os.Getenv(programEnv), args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	check(t, cmd.Start())
	time.Sleep(3 * time.Second) // scontrol runs by now
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	start := time.Now()
	cmd.Wait()
	job, err := os.ReadFile(cancelled)
	if code := exitCode(cmd); code != 128+15 || strings.TrimSpace(string(job)) != "17" || time.Since(start) > 20*time.Second {
		t.Errorf("exit code %d after %v, %q is cancelled (%v): %s", code, time.Since(start), job, err, said.String())
	}
}

// Where Slurm's commands are not, the site's table or a feature says what to ask for, and that nobody looked is said.
func TestSlurmWithoutSinfo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	site := filepath.Join(t.TempDir(), "gpus.yaml")
	write(t, site, "gpus: {big: 79GiB, small: 11GiB, middle: 39GiB}\n")
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"--need 20GiB", exitDevice, "hint: where Slurm's commands are not, --site FILE or --constraint FEATURE says"},
		{"--need 20GiB -n 2 --site " + site, exitOK, "--nodes=1 --gres=gpu:middle:2 --ntasks-per-node=1\n"},
		{"--need 60GiB --constraint a100-80gb --partition gpu", exitOK,
			"--nodes=1 --gres=gpu:1 --constraint=a100-80gb --partition=gpu "},
		{"--need 20GiB --constraint fast", exitNo, "neither a feature that is asked for nor the site's table"},
		{"--need 200GiB --site " + site, exitNo, "has GPUs that large"},
	} {
		stdout, stderr, code := try(t, append([]string{"slurm"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(stdout+stderr, tt.says) ||
			code == exitOK && !strings.Contains(stderr, "whether the cluster has ") {
			t.Errorf("%s: exit code %d, %q, %q, want %q", tt.args, code, stdout, stderr, tt.says)
		}
	}
}
