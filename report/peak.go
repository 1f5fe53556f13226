package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/estimate"
)

// categories are those of Peak.ByCategory in the order in which they are shown, with the words for
// people. Their names are those of PyTorch's profiler.
var categories = []struct{ name, word, about string }{
	{"parameter", "parameters", ""},
	{"buffer", "buffers", ""},
	{"gradient", "gradients", "of the parameters"},
	{"optimizer_state", "optimizer state", ""},
	{"input", "inputs", "and labels"},
	{"activation", "activations", "that autograd saved, or the forward pass still uses"},
	{"autograd_detail", "backward", "gradients of activations"},
	{"temporary", "temporaries", "of operators and of the optimizer"},
	{"workspace", "workspaces", "cuBLAS, cuDNN, attention"},
	{"unknown", "unknown", ""},
	{"rounding", "rounding", "blocks are multiples of 512 bytes, or larger than asked for"},
}

// CategoryWord returns the words for a category of Peak.ByCategory.
func CategoryWord(name string) string {
	for _, c := range categories {
		if c.name == name {
			return c.word
		}
	}
	return name
}

// A part is a line of the breakdown: an addend, or the sum of all before it.
type part struct {
	what  string
	bytes int64
	about string
	sum   bool
}

// parts returns the breakdown of the peak. The addends up to each sum add up to it exactly.
func parts(r *estimate.Report) []part {
	p := r.Peak
	var out []part
	for _, c := range categories {
		if n := p.ByCategory[c.name]; n != 0 {
			out = append(out, part{c.word, n, c.about, false})
		}
	}
	out = append(out,
		part{"allocated", p.Allocated, "torch.cuda.max_memory_allocated()", true},
		part{"fragmentation", p.Reserved - p.Allocated, "reserved and not allocated: cached, or between blocks", false},
		part{"reserved", p.Reserved, "torch.cuda.max_memory_reserved()", true},
		part{"context", r.Context - r.NCCL, "CUDA context, kernels and library handles", false},
	)
	if r.NCCL > 0 {
		out = append(out, part{"NCCL", r.NCCL, "its buffers and kernels, for several GPUs", false})
	}
	return append(out, part{"device", p.Device, "nvidia-smi", true})
}

// Breakdown returns what holds the memory at the peak. In the column of bytes the addends
// above each sum add up to it.
func Breakdown(r *estimate.Report) *Grid {
	unit := unitFor(r.Peak.Device)
	g := &Grid{Columns: []Column{{Title: "at the peak"}, {Title: "bytes", Right: true, Spare: 1},
		{Title: unit.name, Right: true}, {Title: "", Spare: 2}}}
	for _, p := range parts(r) {
		what := p.what
		if p.sum {
			what = "= " + what
		}
		g.Rows = append(g.Rows, []string{what, Count(p.bytes), unit.format(p.bytes), p.about})
	}
	rows := []part{
		{"at most", r.Peak.UpperBound, "should workspaces, addresses or lifetimes differ", false},
		{"likely", r.Peak.Likely, "one run in twenty takes more", false},
		{"safe", r.Peak.Safe, estimate.SafeRate(r.Peak.SafeShare), false},
	}
	if unless := proviso(r); unless != "" { // then nothing is
		rows = rows[1:]
		rows[0].about, rows[1].about = unless, unless
	}
	for _, row := range rows {
		g.Rows = append(g.Rows, []string{row.what, Count(row.bytes), unit.format(row.bytes), row.about})
	}
	return g
}

// proviso says under which condition the bound, and what follows from it, holds; "" where there is none.
func proviso(r *estimate.Report) string {
	switch {
	case r.Incomplete(): // nobody knows how much is missing
		return "if only what is modelled counts"
	case r.Depends != nil && !r.Depends.Bound:
		return "no bound: only if the values are as taken"
	case r.Settings.NoBound != "":
		return "no bound: " + r.Settings.NoBound
	}
	return ""
}

// Guesses returns what the run rests on and the file does not say, the heaviest first; what was found to weigh nothing
// is left out.
func Guesses(r *estimate.Report) *Grid {
	unit := unitFor(most(r.Guesses, func(x *estimate.Guess) int64 { return max(x.Bytes, -x.Bytes, x.Tensors) }))
	g := &Grid{Columns: []Column{{Title: "guess"}, {Title: "what for what", Spare: 1}, {Title: "made"},
		{Title: "places", Right: true}, {Title: "first layer", File: true, Spare: 3},
		{Title: "tensors there, " + unit.name, Right: true, Spare: 2},
		{Title: "otherwise, " + unit.name, Right: true}}}
	for i := range r.Guesses {
		x := &r.Guesses[i]
		if x.Weighed && x.Bytes == 0 && x.Fewer == 0 {
			continue
		}
		made, layer, weight := "no", "", "?"
		if x.Made {
			made = "yes"
		}
		if len(x.Layers) > 0 {
			layer = x.Layers[0]
		}
		if x.Weighed {
			weight = unit.change(x.Bytes)
		}
		if x.Fewer > 0 {
			weight = unit.change(-x.Fewer) + " to " + weight
		}
		g.Rows = append(g.Rows, []string{x.Name, x.Takes, made, Count(int64(x.Places)), layer, unit.format(x.Tensors),
			weight})
	}
	return g
}

// LiveTensors returns the largest tensors at the peak, n at most, by layer and category.
func LiveTensors(r *estimate.Report, n int) *Grid {
	live := r.Peak.Live[:min(n, len(r.Peak.Live))]
	unit := unitFor(most(live, func(l *estimate.Live) int64 { return l.Bytes }))
	g := &Grid{Columns: []Column{{Title: "largest at the peak"}, {Title: "of layer", File: true},
		{Title: "tensors", Right: true, Spare: 1}, {Title: unit.name, Right: true}}}
	for _, l := range live {
		g.Rows = append(g.Rows, []string{CategoryWord(l.Category), l.Layer, Count(int64(l.Tensors)), unit.format(l.Bytes)})
	}
	return g
}

// Phases returns the phases of the first and of a steady step, and of the one in which the peak is.
func Phases(r *estimate.Report) *Grid {
	unit := unitFor(most(r.Phases, func(p *estimate.Phase) int64 { return p.Peak }))
	g := &Grid{Columns: []Column{{Title: "step"}, {Title: "phase"}, {Title: "peak, " + unit.name, Right: true},
		{Title: "after it, " + unit.name, Right: true}}}
	phases := shownPhases(r.Phases)
	for i, p := range phases {
		step := ""
		if i == 0 || phases[i-1].Step != p.Step {
			step = stepWord(p.Step, phases[len(phases)-1].Step)
		}
		g.Rows = append(g.Rows, []string{step, p.Name, unit.format(p.Peak), unit.format(p.End)})
	}
	return g
}

// shownPhases leaves out a step that is like the last one.
func shownPhases(all []estimate.Phase) (out []estimate.Phase) {
	of := func(step int) (ps []estimate.Phase) {
		for _, p := range all {
			if p.Step == step {
				p.Step = 0
				ps = append(ps, p)
			}
		}
		return ps
	}
	for _, p := range all {
		if last := all[len(all)-1].Step; p.Step < 2 || p.Step == last || !slices.Equal(of(p.Step), of(last)) {
			out = append(out, p)
		}
	}
	return out
}

// stepWord names a step: the first one, and the last, after which nothing changes any more.
func stepWord(step, last int) string {
	switch step {
	case 0:
		return "before"
	case 1:
		return "first"
	case last:
		return "steady"
	}
	return "step " + strconv.Itoa(step)
}

// Change writes how much larger or smaller a size became: "+12.5 %". Too little to be seen has no sign.
func Change(from, to int64) string {
	if from == 0 {
		return ""
	}
	percent := fmt.Sprintf("%+.1f %%", 100*float64(to-from)/float64(from))
	if percent == "+0.0 %" || percent == "-0.0 %" {
		return "0.0 %"
	}
	return percent
}

// Statistics returns the figures of torch.cuda.memory_stats.
func Statistics(r *estimate.Report) *Grid {
	g := &Grid{Columns: []Column{{Title: "torch.cuda.memory_stats()"}, {Title: "value", Right: true}}}
	for _, key := range slices.Sorted(maps.Keys(r.Stats)) {
		g.Rows = append(g.Rows, []string{key, strconv.FormatInt(r.Stats[key], 10)})
	}
	return g
}

// Headline says what a run takes, when it is most, and whether it fits: sentences that begin
// with what they are about and a colon.
func Headline(r *estimate.Report) []string { return append(sentences(r), verdicts(r)...) }

// sentences say in two lines what the run takes, and when; before them, that it is not the program's own.
func sentences(r *estimate.Report) []string {
	p := r.Peak
	lower, upper := "", fmt.Sprintf(", %s safe", Size(p.Safe))
	if r.Incomplete() { // nobody knows how much is missing
		lower, upper = "at least ", ""
	} else if r.Depends != nil && !r.Depends.Bound {
		upper += " if the values are as taken"
	} else if r.Settings.Eagerly != "" {
		upper += " unless compiled code takes more"
	} else if r.Settings.Ended {
		upper += " in the steps that were recorded"
	} else if r.Settings.Contracted {
		upper += " in that order"
	}
	said := []string{
		fmt.Sprintf("%s: %s%s allocated, %s reserved, %s on the device%s", Setting(r.Settings), lower, Size(p.Allocated),
			Size(p.Reserved), Size(p.Device), upper),
		"peak: " + Moment(p.Phase, p.Step, p.Layer),
	}
	if r.Settings.Eagerly != "" {
		said = append([]string{"not the compiled program: " + Clean(r.Settings.Eagerly)}, said...)
	}
	if r.Settings.Contracted {
		said = append([]string{"recorded without opt_einsum: einsum contracts from left to right, and PyTorch " +
			"in the cheapest order where opt_einsum is installed"}, said...)
	}
	return said
}

// Setting says which run was simulated: "training in fp32 with adamw, cross-entropy".
func Setting(s estimate.Settings) string {
	text := "inference in " + string(s.Precision)
	switch {
	case s.Recorded && s.Mode == "train":
		text = "training as recorded"
	case s.Recorded:
		text = "inference as recorded"
	case s.Mode == "train":
		text = fmt.Sprintf("training in %s with %s, loss %s", s.Precision, s.Optimizer, s.Loss)
	}
	for _, o := range []struct {
		set  bool
		word string
	}{
		{s.ChannelsLast, "channels last"}, {s.Accumulate > 1,
			fmt.Sprintf("%d backward passes a step", s.Accumulate)}, {s.ClipNorm, "gradients clipped"},
		{s.ZeroGrads, "gradients zeroed"}, {s.ForLoop, "foreach=False"}, {s.Scaler, "GradScaler"}, {s.DropOutput,
			"output not kept"}, {s.Benchmark, "cudnn.benchmark"},
		{s.AllocConf != "", Show(s.AllocConf, nameWidth)}, {s.GPU != "", "on " + s.GPU},
	} {
		if o.set {
			text += ", " + o.word
		}
	}
	for _, word := range s.Plan.Words() {
		text += ", " + Clean(word)
	}
	if s.World > 1 {
		text += fmt.Sprintf(", per GPU of %d", s.World)
	}
	return text
}

// Moment says when something happens.
func Moment(phase string, step int, layer string) string {
	var b strings.Builder
	switch phase {
	case "":
		return "nothing is allocated"
	case "load":
		b.WriteString("while the model moves to the GPU")
	case "forward", "backward":
		fmt.Fprintf(&b, "in the %s pass of step %d", phase, step)
	default:
		fmt.Fprintf(&b, "in the %s of step %d", phase, step)
	}
	if layer != "" {
		b.WriteString(", at " + Show(layer, nameWidth))
	}
	return b.String()
}

// OutOfMemory describes where a limited run fails, in PyTorch's words.
func OutOfMemory(r *estimate.Report) string {
	return oneLine(fmt.Sprintf("out of memory %s: %s", Moment(r.OOM.Phase, r.OOM.Step, r.OOM.Layer), r.OOM.Message))
}

// limitWords say what a run was held against.
var limitWords = map[string]string{estimate.Budget: "the budget", estimate.Capacity: "the memory",
	estimate.MemoryLimit: "the limit of the allocator"}

// needWords say which figure was held against it.
var needWords = map[string]string{"device_bytes": "on the device", "likely_bytes": "likely on the device",
	"safe_bytes": "on the device to be safe", "reserved_bytes": "reserved"}

// Judgement says how a run and a limit compare.
func Judgement(f *estimate.Fit) string {
	limit := limitWords[f.Limit]
	if f.Name != "" {
		limit += " of " + oneLine(f.Name)
	}
	text := fmt.Sprintf("%s %s, %s is %s", Size(f.Need), needWords[f.By], limit, Size(f.Bytes))
	switch over := f.Need - f.Bytes; {
	case over > 0:
		text += ": " + Size(over) + " too much"
	case over < 0:
		text += ": " + Size(-over) + " to spare"
	}
	return text
}

// FitWords say whether a run fits a limit, and where no bound is known that it may not.
func FitWords(r *estimate.Report, f *estimate.Fit) string {
	switch {
	case !f.Fits:
		return "does not fit"
	case r.Depends != nil && !r.Depends.Bound:
		return "fits if the values are as taken"
	}
	return "fits"
}

// verdicts say for each limit whether the run fits it.
func verdicts(r *estimate.Report) (out []string) {
	for i := range r.Fits {
		f := &r.Fits[i]
		out = append(out, FitWords(r, f)+": "+Judgement(f))
	}
	if r.OOM != nil {
		out = append(out, OutOfMemory(r))
	}
	return out
}

// Notes writes notes, a line each.
func Notes(w io.Writer, notes []estimate.Note) error {
	for _, n := range notes {
		if _, err := fmt.Fprintf(w, "%s: %s\n", noteWord(n.Level), oneLine(n.Text)); err != nil {
			return err
		}
	}
	return nil
}
