//go:build !js

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/cluster"
	"github.com/memestimate/memestimate/cluster/slurm"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/spelling"
)

// sizes reads the file in which a site says how much memory its GPUs have.
func (j *slurmJob) sizes() (cluster.Sizes, error) {
	if j.site == "" {
		return cluster.Sizes{}, nil
	}
	f, err := openFile(j.site)
	if err != nil {
		return cluster.Sizes{}, err
	}
	defer f.Close()
	sizes, err := cluster.ReadSizes(f, spelling.Size)
	if err != nil {
		return sizes, fail(exitInput, "%s: %w", quoteArg(j.site), err)
	}
	return sizes, nil
}

// A slurmJob is a slurm command as the command line describes it.
type slurmJob struct {
	model   subject
	need    slurm.Need
	count   gpuCount
	format  string
	site    string
	options []string
}

func (j *slurmJob) flags(fs *pflag.FlagSet) {
	j.format = "text"
	addFlags(fs, []flagRow{
		{"count n", 0, gpuCountFlag(&j.count), "how many GPUs"},
		{"share", 0, &j.need.Share, "a part of a GPU will do: ask for shards where the cluster has them"},
		{"format f", 0, &j.format, "form of the answer: text, json"},
		{"site", 0, &j.site, "YAML file with the memory of the cluster's GPUs by name, where names do not tell:\n" +
			"gpus: {big: 79GiB, vram40: 39GiB}"},
		{"partition", 0, &j.need.Partition, "Slurm's partition; the default one otherwise"},
		{"constraint", 0, &j.need.Constraint, "a feature that Slurm's nodes must have; may be given again"},
		{"mem", 0, bytesFlag(&j.need.Host),
			"memory of the host that the job takes on each node (default: what a MODEL's parameters suggest)"},
		{"slurm-option", 0, &j.options, "an option handed on to Slurm, such as --time=2:00:00; may be given again"},
	})
	j.model.needFlags(fs)
}

// slurmCommand prints the request for a job.
func slurmCommand(e *env) *cobra.Command {
	var j slurmJob
	cmd := &cobra.Command{
		Use:   "slurm [MODEL] [flags] [-- COMMAND [ARG]...]",
		Short: "The smallest request to a Slurm cluster that holds a job",
		Long: `Slurm asks the cluster for its nodes (sinfo) and prints the smallest request that holds what is safe
by a MODEL's estimate, or --need: the GPUs with least memory among those with enough, on as few
nodes as can be, by GRES type, MIG profile, or node feature. With --share it asks for shards where
the cluster has them.

How much memory a GPU has is told by its type's name, by a feature of nodes whose GPUs are all
alike, or by the file --site. A size read off a name is nominal: 93 % of it is counted on.

The answer is options for srun, or with a COMMAND a script for sbatch. Exit codes: 0 there is a
request, 1 no node could hold the job even if it were idle, 4 the cluster cannot be asked.`,
		Example: `  memestimate slurm resnet50 --batch 256
  memestimate slurm gpt2 --batch 32 -n 4 -- torchrun --nproc-per-node 4 train.py | sbatch
  srun $(memestimate slurm resnet50 --batch 256) python train.py`,
		RunE: func(cmd *cobra.Command, args []string) error {
			command, usage := j.model.take(cmd.Name(), cmd.UseLine(), args, cmd.ArgsLenAtDash())
			if usage != nil {
				return usage
			}
			o := output{format: j.format, formats: []string{"text", "json"}}
			if err := o.check(); err != nil {
				return err
			}
			bytes, err := j.model.asked(e, cmd)
			if err != nil {
				return err
			}
			bytes += j.model.margin
			r, err := j.ask(e, bytes)
			if err != nil {
				return err
			}
			return o.write(e, func(w io.Writer) error { return j.write(w, r, bytes, command) })
		},
	}
	j.flags(cmd.Flags())
	return cmd
}

// What Slurm's commands may take to answer, and how much they may say.
var (
	slurmTime  = 30 * time.Second
	slurmBytes = 64 << 20
)

// askSlurm runs one of Slurm's commands and returns what it says.
func askSlurm(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, slurmTime)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	detach(c)
	c.WaitDelay = time.Second // a child of it may hold the pipe
	out := &limited{room: slurmBytes}
	c.Stdout, c.Stderr = out, &limited{room: 64 << 10}
	err := c.Run()
	switch {
	case out.full:
		return nil, fmt.Errorf("it says more than %s", report.Size(int64(slurmBytes)))
	case context.Cause(ctx) == context.DeadlineExceeded:
		return nil, fmt.Errorf("no answer within %v", slurmTime)
	case err != nil:
		if text := strings.TrimSpace(c.Stderr.(*limited).b.String()); text != "" {
			return nil, errors.New(oneLine(text))
		}
		return nil, err
	}
	return out.b.Bytes(), nil
}

// A limited writer refuses what there is no room for.
type limited struct {
	b    bytes.Buffer
	room int
	full bool
}

// Write fails where there is no room.
func (l *limited) Write(p []byte) (int, error) {
	if l.b.Len()+len(p) > l.room {
		l.full = true
		return 0, io.ErrShortWrite
	}
	return l.b.Write(p)
}

// ask finds the request for a job.
func (j *slurmJob) ask(e *env, bytes uint64) (*slurm.Request, error) {
	sizes, err := j.sizes()
	if err != nil {
		return nil, err
	}
	out, noList := askSlurm(context.Background(), "sinfo", "-N", "-h", "-o", slurm.Format)
	seen := !errors.Is(noList, exec.ErrNotFound) || j.site == "" && len(j.need.Constraint) == 0
	if seen && noList != nil {
		return nil, fail(exitDevice, "slurm: sinfo: %w", noList).withHint("where Slurm's commands are not, --site FILE or " +
			"--constraint FEATURE says which GPUs there are")
	}
	nodes, err := slurm.ParseNodes(string(out))
	if err != nil {
		return nil, fail(exitDevice, "slurm: %w", err)
	}
	need := j.need
	need.Bytes, need.GPUs = bytes, j.count.least()
	guess := need.Host == 0 && j.model.arg != ""
	if guess {
		r, err := j.model.estimate(e, "slurm")
		if err != nil {
			return nil, err
		}
		need.Host = hostGuess(r.Parameters.Bytes)
	}
	r, err := slurm.Choose(nodes, need, sizes)
	if !seen {
		r, err = slurm.Unseen(need, sizes)
	}
	if err != nil {
		return nil, fail(exitNo, "slurm: %w", err)
	}
	if !seen {
		fmt.Fprintf(e.stderr, "memestimate: slurm: there is no sinfo here: whether the cluster has %s is not known\n",
			oneLine(r.Type))
	}
	if r.Guessed {
		fmt.Fprintf(e.stderr, "memestimate: slurm: %s: a size read off its name, of which 93 %% are counted on: %s; --site "+
			"FILE says what it has\n", oneLine(r.Type), report.Size(int64(r.Bytes)))
	}
	if r.Family {
		fmt.Fprintf(e.stderr, "memestimate: slurm: %s: several GPUs have this name, the smallest %s; --site FILE says what "+
			"these have\n", oneLine(r.Type), report.Size(int64(r.Bytes)))
	}
	if guess {
		fmt.Fprintf(e.stderr, "memestimate: slurm: --mem=%s is a guess: 8 GiB for Python, CUDA's libraries and loading "+
			"data, and the parameters twice; --mem SIZE sets it\n", report.Size(int64(need.Host)))
	}
	return r, nil
}

// hostGuess is the memory of the host that a training process takes as a rule: Python and CUDA's libraries take some 4
// GiB, workers that load data as much again; a checkpoint is read into memory before the model takes it over.
func hostGuess(parameters int64) uint64 { return 8<<30 + 2*uint64(max(parameters, 0)) }

// slurmJSON is the answer of slurm.
type slurmJSON struct {
	Schema string `json:"schema"`
	Need   uint64 `json:"need_bytes"` // on each GPU
	GPUs   int    `json:"gpus"`
	*slurm.Request
	Options []string `json:"options"`
}

// write writes the request, or with a command the script for sbatch.
func (j *slurmJob) write(w io.Writer, r *slurm.Request, bytes uint64, command []string) (err error) {
	switch {
	case j.format == "json":
		return report.JSON(w, slurmJSON{slurmForm, bytes, j.count.least(), r, j.args(r)})
	case len(command) > 0:
		_, err = io.WriteString(w, j.script(r, command))
	default:
		_, err = fmt.Fprintln(w, strings.Join(j.args(r), " "))
	}
	return err
}

// args are the options for Slurm.
func (j *slurmJob) args(r *slurm.Request) []string {
	return append(append(r.Args(), "--ntasks-per-node=1"), j.options...)
}

// script returns a batch script for the command: on several nodes it runs once on each.
func (j *slurmJob) script(r *slurm.Request, command []string) string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n")
	for _, a := range j.args(r) {
		fmt.Fprintf(&b, "#SBATCH %s\n", a)
	}
	b.WriteString("exec ")
	if r.Nodes > 1 {
		b.WriteString("srun ")
	}
	words := make([]string, len(command))
	for i, w := range command {
		words[i] = shellQuote(w)
	}
	b.WriteString(strings.Join(words, " ") + "\n")
	return b.String()
}

// shellQuote quotes a word for sh where it needs that.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
