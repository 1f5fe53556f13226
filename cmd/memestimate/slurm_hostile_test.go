//go:build linux && cgo

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/must"
)

// slurmCommands writes commands of Slurm's names that say something else, and puts them first in PATH.
func slurmCommands(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o777))
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
