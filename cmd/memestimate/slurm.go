package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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

// A siteTable is the flag that names the file in which a site says how much memory its GPUs have.
type siteTable struct{ file string }

func (s *siteTable) flags(fs *pflag.FlagSet) {
	fs.StringVar(&s.file, "site", "",
		"YAML file with the memory of the cluster's GPUs by name, where names do not tell:\ngpus: {big: "+
			"79GiB, vram40: 39GiB}")
}

func (s *siteTable) sizes() (cluster.Sizes, error) {
	if s.file == "" {
		return cluster.Sizes{}, nil
	}
	f, err := os.Open(s.file)
	if err != nil {
		return cluster.Sizes{}, fail(exitInput, "--site: %w", err)
	}
	defer f.Close()
	sizes, err := cluster.ReadSizes(f, spelling.Size)
	if err != nil {
		return sizes, fail(exitInput, "%s: %w", quoteArg(s.file), err)
	}
	return sizes, nil
}

// A slurmJob is the flags about a request to Slurm.
type slurmJob struct {
	site       siteTable
	partition  string
	constraint []string
	host       sizeValue
	options    []string
}

func (j *slurmJob) flags(fs *pflag.FlagSet) {
	j.site.flags(fs)
	fs.StringVar(&j.partition, "partition", "", "Slurm's partition; the default one otherwise")
	fs.StringArrayVar(&j.constraint, "constraint", nil, "a feature that Slurm's nodes must have; may be given again")
	fs.Var(&j.host, "mem", "memory of the host that the job takes on each node (default: what a MODEL's "+
		"parameters suggest)")
	fs.StringArrayVar(&j.options, "slurm-option", nil,
		"an option handed on to Slurm, such as --time=2:00:00; may be given again")
}

// slurmCommand prints the request for a job.
func slurmCommand(e *env) *cobra.Command {
	var l launch
	cmd := &cobra.Command{
		Use:   "slurm [MODEL] [flags] [-- COMMAND [ARG]...]",
		Short: "The smallest request to a Slurm cluster that holds a job",
		Long: `Slurm asks the cluster for its nodes (sinfo) and prints the smallest request that holds what is safe
by a MODEL's estimate, or --need: the GPUs with least memory among those with enough, on as few
nodes as can be, by GRES type, MIG profile, or node feature. With --share it asks for shards where
the cluster has them.

How much memory a GPU has is told by its type's name, by a feature of nodes whose GPUs are all
alike, or by the file --site. A size read off a name is nominal: 93 % of it is counted on.

With a COMMAND the answer is a script for sbatch. "memestimate run --cluster slurm" submits it
instead. Exit codes: 0 there is a request, 1 no node could hold the job even if it were idle, 4 the
cluster cannot be asked.`,
		Example: `  memestimate slurm resnet50 --batch 256
  memestimate slurm gpt2 --batch 32 -n 4 -- torchrun --nproc-per-node 4 train.py | sbatch
  memestimate run --cluster slurm resnet50 --batch 256 -- python train.py`,
		RunE: func(cmd *cobra.Command, args []string) error {
			l.cluster, l.print, l.choice.policy = "slurm", true, "best-fit"
			request, command, err := l.check(e, cmd, args)
			if err != nil {
				return err
			}
			return l.job.print(e, &l, request.Bytes+request.Margin, command)
		},
	}
	fs := cmd.Flags()
	fs.Var(&l.choice.need, "need", "memory that the command takes on each GPU, such as 20GiB; instead of a MODEL")
	fs.Var(&l.choice.margin, "margin", "memory that must be there beyond that")
	fs.VarP(&l.choice.count, "count", "n", "how many GPUs")
	fs.BoolVar(&l.choice.share, "share", false, "a part of a GPU will do: ask for shards where the cluster has them")
	fs.StringVarP(&l.format, "format", "f", "text", "form of the answer: text, json")
	l.model.needFlags(fs)
	l.job.flags(fs)
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
func (j *slurmJob) ask(e *env, l *launch, bytes uint64) (*slurm.Request, error) {
	sizes, err := j.site.sizes()
	if err != nil {
		return nil, err
	}
	out, noList := askSlurm(context.Background(), "sinfo", "-N", "-h", "-o", slurm.Format)
	seen := !errors.Is(noList, exec.ErrNotFound) || j.site.file == "" && len(j.constraint) == 0
	if seen && noList != nil {
		return nil, fail(exitDevice, "slurm: sinfo: %w", noList).withHint("where Slurm's commands are not, --site FILE or " +
			"--constraint FEATURE says which GPUs there are")
	}
	nodes, err := slurm.ParseNodes(string(out))
	if err != nil {
		return nil, fail(exitDevice, "slurm: %w", err)
	}
	need := slurm.Need{Bytes: bytes, GPUs: l.choice.count.least(), Host: uint64(j.host), Share: l.choice.share,
		Partition: j.partition, Constraint: j.constraint}
	guess := need.Host == 0 && l.model.arg != ""
	if guess {
		r, err := l.model.estimate(e, "slurm")
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
	Schema     string   `json:"schema"`
	Need       uint64   `json:"need_bytes"` // on each GPU
	GPUs       int      `json:"gpus"`
	GRES       string   `json:"gres"` // on each node
	Nodes      int      `json:"nodes"`
	Constraint string   `json:"constraint,omitempty"`
	GPUBytes   uint64   `json:"gpu_bytes"`
	Guessed    bool     `json:"gpu_bytes_guessed"` // read off the name
	Host       uint64   `json:"host_bytes,omitempty"`
	Options    []string `json:"options"`
}

// print writes the request, or with a command the script for sbatch.
func (j *slurmJob) print(e *env, l *launch, bytes uint64, command []string) error {
	r, err := j.ask(e, l, bytes)
	if err != nil {
		return err
	}
	o := output{format: l.format}
	return o.write(e, func(w io.Writer) error {
		switch {
		case l.format == "json":
			return encodeJSON(w, slurmJSON{slurmForm, bytes, l.choice.count.least(), r.GRES, r.Nodes, r.Constraint, r.Bytes,
				r.Guessed, r.Host, j.args(r)})
		case len(command) > 0:
			_, err := io.WriteString(w, j.script(r, command))
			return err
		}
		_, err := fmt.Fprintln(w, strings.Join(j.args(r), " "))
		return err
	})
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

// submit hands the command over to Slurm: it becomes srun.
func (j *slurmJob) submit(e *env, l *launch, bytes uint64, command []string) error {
	r, err := j.ask(e, l, bytes)
	if err != nil {
		return err
	}
	if l.verbose {
		fmt.Fprintf(e.stderr, "memestimate: slurm: %s\n", strings.Join(j.args(r), " "))
	}
	path, err := lookCommand("srun", e.getenv("PATH"))
	if err != nil {
		return err
	}
	return become(path, append(append([]string{"srun"}, j.args(r)...), command...), os.Environ())
}
