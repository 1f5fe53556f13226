//go:build !js

package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/gpu"
)

// A tuning is one way to train a model that is known by its configuration, as the Python package reads it.
type tuning struct {
	File       string `json:"file"`
	Batch      int64  `json:"batch"`
	Seq        int64  `json:"seq,omitempty"`
	Precision  string `json:"precision,omitempty"`
	Mode       string `json:"mode,omitempty"`
	Optimizer  string `json:"optimizer,omitempty"`
	LoRA       string `json:"lora,omitempty"`
	QLoRA      string `json:"qlora,omitempty"`
	Checkpoint bool   `json:"checkpoint,omitempty"`
	Compile    bool   `json:"compile,omitempty"`
	Attention  string `json:"attention,omitempty"`
	GPUs       int    `json:"gpus,omitempty"`
	Parallel   string `json:"parallel,omitempty"`
}

// name is how the answer calls a way: "QLoRA r=16, 1 x 2,048, checkpointing".
func (t *tuning) name() string {
	parts := []string{t.method()}
	if t.Seq > 0 {
		parts = append(parts, fmt.Sprintf("%d x %s", t.Batch, report.Count(t.Seq)))
	} else if t.Batch > 1 {
		parts = append(parts, fmt.Sprintf("batch %d", t.Batch))
	}
	if t.Checkpoint {
		parts = append(parts, "checkpointing")
	}
	if t.Compile {
		parts = append(parts, "compiled")
	}
	if t.GPUs > 1 {
		parts = append(parts, fmt.Sprintf("%s on %d", t.Parallel, t.GPUs))
	}
	return strings.Join(parts, ", ")
}

// of is how the answer calls a model that is trained in this way: "Llama-3.1-8B+QLoRA-16+checkpointing".
func (t *tuning) of(word string) string {
	name := filepath.Base(word)
	if name == configurationName {
		if full, err := filepath.Abs(word); err == nil {
			name = filepath.Base(filepath.Dir(full))
		}
	}
	if t.LoRA+t.QLoRA != "" {
		name += "+" + strings.NewReplacer(" r=", "-", " targets=", "-", " ", "-").Replace(t.method())
	}
	if t.Checkpoint {
		name += "+checkpointing"
	}
	if t.GPUs > 1 {
		name += fmt.Sprintf("+%s-%d", t.Parallel, t.GPUs)
	}
	return name
}

// method is what is trained: all parameters, or adapters.
func (t *tuning) method() string {
	rank := func(s string) string {
		r, rest, _ := strings.Cut(strings.TrimPrefix(s, "r="), ",")
		if rest != "" {
			return "r=" + r + " " + rest
		}
		return "r=" + r
	}
	switch {
	case t.QLoRA != "":
		return "QLoRA " + rank(t.QLoRA)
	case t.LoRA != "":
		return "LoRA " + rank(t.LoRA)
	case t.Mode == "infer":
		return "inference"
	}
	return "all parameters"
}

// bfloat reports whether the way computes in bf16.
func (t *tuning) bfloat() bool { return t.Precision == "" || strings.HasSuffix(t.Precision, "bf16") }

// A tuner is the command for a configuration.
type tuner struct {
	recorder
	way     tuning
	noCache bool
	noWays  bool
	seqs    []int64 // the first is that of way
}

// tuneCommand is memestimate for a model of the Hugging Face Hub, or its configuration.
func tuneCommand(e *env) *cobra.Command {
	t := tuner{way: tuning{Batch: 1}}
	cmd := &cobra.Command{
		Use:   "memestimate ORG/NAME|config.json|FOLDER [flags]",
		Short: "How much GPU memory training a Hugging Face model takes",
		Long: `Tells how much GPU memory training a Hugging Face model takes, from its configuration: without weights and
without a GPU. The step is that of the Trainer of transformers, with the adapters of PEFT; the Python of the active
environment records it on a pretended GPU. The configuration of a name comes from the Hub's cache on this machine, from
a table of well-known models, or from the Hub.

Without --lora or --qlora all parameters are trained. Below the answer other ways to train the model are listed, each
recorded as well; --no-ways leaves them out. Answers are kept in ~/.cache/memestimate.`,
		Example: `  memestimate meta-llama/Llama-3.1-8B --qlora 16 --seq 2048 --gpu rtx-4090
  memestimate Qwen/Qwen2.5-7B --lora r=16,targets=all-linear --batch 4
  memestimate Qwen/Qwen2.5-7B --qlora 16 --seq 2048,1024,4096,8192 --gpu l4
  memestimate ./my-model/config.json --optimizer adamw8bit`,
		Args:        exactly("MODEL"),
		Annotations: map[string]string{recordsFirst: "a configuration"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.way.QLoRA != "" && !cmd.Flags().Changed("checkpoint") {
				t.way.Checkpoint = true // the default of prepare_model_for_kbit_training
			}
			return t.answerFor(cmd.Context(), e, cmd, args[0])
		},
	}
	prepare(e, cmd)
	fs := cmd.Flags()
	t.recorder.flags(fs)
	t.flags(fs)
	return cmd
}

func (t *tuner) flags(fs *pflag.FlagSet) {
	w := &t.way
	w.Optimizer = "adamw"
	addFlags(fs, []flagRow{
		{"batch b", 0, batchFlag(&w.Batch), "sequences, or images, in a batch"},
		{"seq", 0, sizesFlag(&t.seqs), "tokens in a sequence; by default 2048, or as many as the model takes.\n" +
			"Of several, 2048,4096,8192, the others are in the table of ways"},
		{"lora", 0, &w.LoRA, "train adapters of this `RANK`, as PEFT's LoraConfig: 16, or\nr=16,targets=all-linear"},
		{"qlora", 0, &w.QLoRA, "the same beside weights of 4 bits: nf4 with double quantization"},
		{"checkpoint", 0, &w.Checkpoint, "recompute activations: gradient_checkpointing_enable(); on with\n" +
			"--qlora, as PEFT has it, unless --checkpoint=false"},
		{"optimizer", 0, &w.Optimizer, "an optimizer of torch.optim, or of bitsandbytes: adamw8bit,\n" +
			"paged_adamw_8bit, lion_8bit; adamw-fused is the Trainer's own"},
		{"precision", 0, oneOf("precision", &w.Precision, precisions),
			"element types; by default bf16: weights, and adapters in fp32"},
		{"mode", 0, oneOf("mode", &w.Mode, []string{"train", "infer"}), "a training step or an inference: train, infer"},
		{"compile", 0, &w.Compile, "torch.compile(model)"},
		{"attention", 0, &w.Attention, "attn_implementation: sdpa or eager; by default what transformers takes"},
		{"gpus", 0, &w.GPUs, "how many GPUs train together, as accelerate has the Trainer do: the answer is\n" +
			"for one of them, and --batch is its own"},
		{"parallel", 0, oneOf("parallel", &w.Parallel, []string{program.DDP, program.FSDP}),
			"how they do: ddp, the default, or fsdp (fully_shard, FSDP2)"},
		{"no-cache", 0, &t.noCache, "record anew, and keep nothing"},
		{"no-ways", 0, &t.noWays, "list no other ways to train the model"},
	})
}

// checkGPUs says how several GPUs train together, where nothing is said of it, and refuses what they cannot do.
func (t *tuning) checkGPUs() error {
	switch {
	case t.GPUs < 0:
		return usagef("--gpus: %d is not a number of GPUs, want 1 or more", t.GPUs)
	case t.GPUs < 2 && t.Parallel != "":
		return usagef("--parallel is about several GPUs: want --gpus of 2 or more").withHint("--gpus 2")
	case t.GPUs < 2:
		t.GPUs = 0
		return nil
	case t.Mode == "infer" || t.Compile:
		return usagef("--gpus: of a configuration several GPUs train, and nothing is compiled").withHint("the script that "+
			"does it can be recorded: memestimate torchrun --nproc-per-node %d train.py", t.GPUs)
	}
	t.Parallel = cmp.Or(t.Parallel, program.DDP)
	return nil
}

// answerFor answers the question about a model, and then about the other ways to train it.
func (t *tuner) answerFor(ctx context.Context, e *env, cmd *cobra.Command, word string) error {
	if err := t.way.checkGPUs(); err != nil {
		return err
	}
	if t.way.LoRA != "" && t.way.QLoRA != "" {
		return usagef("--lora and --qlora are two ways, want one of them")
	}
	if len(t.seqs) > 0 {
		t.way.Seq = t.seqs[0]
	}
	if len(t.seqs) > 1 && !t.listsWays() {
		return usagef("--seq: several are for the table of ways, which this answer has not; want one")
	}
	in := source{arg: word, name: t.way.of(word), made: true}
	if t.settings.batch = t.way.Batch; t.way.Seq > 0 {
		in.sizes = map[string]int64{"seq": t.way.Seq}
	}
	device, path, p, err := t.ready(e, in)
	if err != nil {
		return err
	}
	defer p.delete()
	if g, err := gpu.Find(device); err == nil && !g.MemoryOnly && g.Capability.Major < 8 && t.way.bfloat() {
		fmt.Fprintf(e.stderr, "memestimate: %s has no units for bf16, which PyTorch emulates, slowly; for fp16: --precision "+
			"amp-fp16\n", g.Name)
	}
	work, err := os.MkdirTemp("", "memestimate-")
	if err != nil {
		return fail(exitOutput, "a temporary folder: %w", cause(err))
	}
	defer os.RemoveAll(work)
	q := &question{Model: modelWord(word), GPU: device, Steps: 2}
	c := &answerCache{folder: cacheFolder(e), python: path, question: q, fixed: []string{p.digest, configurationOf(e, word),
		e.getenv("PYTHONPATH"), e.getenv("PYTORCH_CUDA_ALLOC_CONF"), e.getenv("PYTORCH_ALLOC_CONF")}}
	if t.noCache || e.getenv("PYTHONPATH") != "" { // whose modules no stamp is of
		c.folder = ""
	}
	ways := []tuning{t.way}
	if t.listsWays() {
		ways = append(ways, otherWays(t.way, t.seqs)...)
	}
	var table *waysTable
	err = t.recordAll(ctx, e, p, path, work, c, ways, func(i int, file string, why error) error {
		if i > 0 {
			return table.row(ways[i], file, why)
		}
		in.file = file // Python ends where the first cannot be recorded
		if t.keep != "" {
			if err := keepRecording(file, t.keep); err != nil {
				return err
			}
		}
		err := t.firstAnswer(e, cmd, in, c)
		if t.listsWays() && (err == nil || codeOf(err) == exitNo) {
			if table, err = t.beginWays(e, c, err); table != nil {
				return table.row(ways[0], file, nil)
			}
		}
		return err
	})
	if table != nil && err == nil {
		err = table.verdict
	}
	return err
}

// A question is what the Python package is asked.
type question struct {
	Model string   `json:"model"`
	GPU   string   `json:"gpu,omitempty"`
	Steps int      `json:"steps"`
	Runs  []tuning `json:"runs"`
}

// recordAll tells of the recording of each way in their order, or of why there is none: of those that are kept at once,
// of the others as Python makes them. Python is started once, where it is needed.
func (t *tuner) recordAll(ctx context.Context, e *env, p *pythonPackage, python, work string, c *answerCache,
	ways []tuning, told func(i int, file string, why error) error) error {
	kept := make([]string, len(ways))
	var missing []int
	q := *c.question
	for i := range ways {
		if kept[i] = c.find(&ways[i]); kept[i] == "" {
			w := ways[i]
			w.File = filepath.Join(work, fmt.Sprintf("%d.mrec", i))
			q.Runs, missing = append(q.Runs, w), append(missing, i)
		}
	}
	at := 0
	upTo := func(end int) error { // those that are kept and come before the next that is made
		for ; at < end; at++ {
			if err := told(at, kept[at], nil); err != nil {
				return err
			}
		}
		return nil
	}
	if len(missing) == 0 {
		return upTo(len(ways))
	}
	if err := upTo(missing[0]); err != nil {
		return err
	}
	data, err := json.Marshal(q)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lines, answers := io.Pipe()
	inner := *e
	inner.stdin = strings.NewReader(string(data))
	done := make(chan error, 1)
	e.say("recording %s with %s", ways[missing[0]].name(), quoteArg(python))
	go func() {
		err := p.run(ctx, &inner, python, work, answers, "config")
		answers.CloseWithError(io.EOF)
		done <- err
	}()
	var stopped error
	scan := bufio.NewScanner(lines)
	scan.Buffer(nil, 16<<20) // a path may have thousands of folders
	for scan.Scan() {
		var line struct {
			Folders []string `json:"folders"`
			Run     *int     `json:"run"`
			Error   string   `json:"error"`
		}
		if json.Unmarshal(scan.Bytes(), &line) != nil || stopped != nil {
			continue
		}
		if line.Run == nil {
			c.installed(line.Folders)
			continue
		}
		if *line.Run < 0 || *line.Run >= len(missing) {
			continue
		}
		i := missing[*line.Run]
		if stopped = upTo(i); stopped == nil {
			if line.Error != "" {
				stopped = told(i, "", errors.New(line.Error))
			} else {
				c.put(&ways[i], q.Runs[*line.Run].File)
				stopped = told(i, q.Runs[*line.Run].File, nil)
			}
			at = i + 1
		}
		if stopped != nil {
			stop()
		}
	}
	lines.Close() // where a line is longer than that, Python does not wait to be read
	err = <-done
	if stopped != nil {
		return stopped
	}
	if err != nil {
		if x, ok := err.(*scriptError); ok {
			return fail(exitInput, "%s: Python ended with exit code %d, as it says above", quoteArg(python), x.code)
		}
		return err
	}
	return upTo(len(ways))
}

// modelWord is what the Python package is told: a path, or a name on the Hub.
func modelWord(word string) string {
	if exists(word) {
		if full, err := filepath.Abs(word); err == nil {
			return full
		}
		return word
	}
	return hubName(word)
}

// keepRecording copies a recording to where it is kept.
func keepRecording(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fail(exitOutput, "%s: %w", quoteArg(from), cause(err))
	}
	return putFile(to, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
