package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/memestimate/memestimate/estimate"
)

// An Answer is what a terminal shows of a report: what a person wants to know first, on one screen.
type Answer struct {
	Report  *estimate.Report
	GPUs    []GPUFit          // known GPUs, in the order in which they are shown
	Fitting *estimate.Fitting // the largest batch on the GPU that was asked for; nil where none was
	Next    []string          // what to try next
	Brief   bool              // nothing but what was asked and whether it fits: a table follows
}

// A GPUFit says whether a run fits a GPU.
type GPUFit struct {
	Name  string
	Fits  bool // what is predicted does
	Tight bool // and what is safe does not
}

// answerLines is how many lines an answer has at most at 80 columns: a terminal of 24 shows it with the command above
// it and the prompt below.
const answerLines = 20

// ANSI colours of what holds the memory. Those that a terminal's theme sets are readable on its background.
var colours = map[string]string{
	"parameters": "34", "gradients": "31", "optimizer state": "35", "activations": "33", "backward": "36",
	"temporaries": "96", "workspaces": "32", "fragmentation": "37", "context": "90",
}

// letters stand for the categories where there are no colours.
var letters = map[string]string{
	"parameters": "P", "gradients": "G", "optimizer state": "O", "activations": "A", "backward": "B", "inputs": "I",
	"temporaries": "T", "workspaces": "W", "fragmentation": "F", "context": "C",
}

// Text writes the answer. Where remarks need the room it has no empty lines.
func (a *Answer) Text(w io.Writer, look Look) error {
	look.Width = cmp.Or(look.Width, 80)
	lines, cut := a.lines(look, false)
	if cut {
		lines, _ = a.lines(look, true)
	}
	b := bufio.NewWriter(w)
	for _, l := range lines {
		fmt.Fprintln(b, l)
	}
	return b.Flush()
}

// lines returns the answer's lines, and whether remarks were cut to keep it on a screen.
func (a *Answer) lines(look Look, dense bool) (lines []string, cut bool) {
	s, tail := screen{Look: look, dense: dense}, screen{Look: look}
	a.head(&s)
	if a.Brief {
		return s.lines, false
	}
	if a.Report.Peak != nil {
		a.figures(&s)
		a.bar(&s)
		a.places(&s)
	}
	tail.row("next", a.Next)
	cut = a.remarks(&s, answerLines-len(s.lines)-len(tail.lines))
	lines = append(s.lines, tail.lines...)
	return lines, cut || len(lines) > answerLines
}

// Asked names the model and its sizes: "resnet50, batch 32". Of a recording the batch is the first dimension that all
// inputs have.
func Asked(r *estimate.Report) string {
	name, batch := r.Model.Name, r.Settings.Batch
	if r.Settings.Recorded {
		name = strings.TrimSuffix(name, ".mrec")
		for i, in := range r.Model.Inputs {
			if batch = 0; len(in.Shape) == 0 || in.Shape[0] != r.Model.Inputs[0].Shape[0] {
				break
			} else if i+1 == len(r.Model.Inputs) {
				batch = in.Shape[0]
			}
		}
		batch = cmp.Or(r.Settings.Batch, batch)
	}
	asked := Show(name, nameWidth)
	if batch > 0 {
		asked += ", batch " + Count(batch)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Settings.Dims)) {
		asked += ", " + Show(name, nameWidth) + " " + Count(r.Settings.Dims[name])
	}
	return asked
}

// head says what was asked, and whether it fits what it was held against.
func (a *Answer) head(s *screen) {
	r := a.Report
	asked := Asked(r)
	if r.Peak == nil {
		s.text("", s.bold(asked)+": how it runs is not known, so no peak either")
		for _, row := range Summary(r).Rows {
			s.line(fmt.Sprintf("%-12s %14s   %s", row[0], row[1], row[2]))
		}
		return
	}
	run := r.Settings
	if len(r.Fits) > 0 {
		run.GPU = "" // which the line before names
	} else {
		s.text("", s.bold(asked)+": "+Setting(run))
	}
	for i := range r.Fits {
		f := &r.Fits[i]
		colour, first := "32", ""
		if !f.Fits {
			colour = "31"
		}
		if i == 0 {
			first = s.bold(asked) + ": "
		}
		s.text("", first+s.paint(colour, FitWords(r, f))+" "+s.judgement(f))
	}
	if len(r.Fits) > 0 {
		s.text("", Setting(run))
	}
	if r.OOM == nil && r.Retries > 0 {
		s.text("", s.paint("31", "goes on")+" only while the allocator gives back its cache, to ask again: "+
			Count(r.Retries)+" times in the steps simulated")
	}
	if r.OOM != nil && !a.Brief {
		s.text("", s.paint("31", "out of memory")+" "+Moment(r.OOM.Phase, r.OOM.Step, r.OOM.Layer)+
			": tried to allocate "+Size(r.OOM.Tried))
	}
}

// judgement is Judgement in few words.
func (s *screen) judgement(f *estimate.Fit) string {
	what := limitWords[f.Limit]
	if f.Name != "" {
		what = oneLine(f.Name)
	}
	unit := largeUnit(max(f.Need, f.Bytes))
	over, word := f.Need-f.Bytes, "too much"
	if over <= 0 {
		over, word = -over, "to spare"
	}
	return fmt.Sprintf("%s: %s of %s %s, %s %s %s", what, unit.format(f.Need), unit.format(f.Bytes), unit.name,
		unit.format(over), unit.name, word)
}

// figures are the three that people check, each beside the name that they check it by, and the one to plan with.
func (a *Answer) figures(s *screen) {
	p, unit := a.Report.Peak, largeUnit(a.Report.Peak.Safe)
	s.gap()
	least, safe := "", estimate.SafeRate(p.SafeShare)
	if a.Report.Incomplete() { // nobody knows how much is missing
		least = "at least "
	}
	if unless := proviso(a.Report); unless != "" {
		safe = unless
	}
	if a.Report.OOM != nil || a.Report.Retries > 0 { // the lines above are about another moment
		s.line("with enough memory it would take")
	}
	for _, f := range []struct {
		what  string
		bytes int64
		about string
	}{
		{least + "allocated", p.Allocated, "torch.cuda.max_memory_allocated()"},
		{least + "reserved", p.Reserved, "torch.cuda.max_memory_reserved()"},
		{least + "on the GPU", p.Device, "nvidia-smi"},
		{"safe", p.Safe, safe},
	} {
		size := unit.format(f.bytes) + " " + unit.name
		line := fmt.Sprintf("%-*s  %s", len(least)+10, f.what, s.bold(fmt.Sprintf("%12s", size)))
		if visible(line)+2+utf8.RuneCountInString(f.about) <= s.Width {
			line += "  " + f.about
		}
		s.line(line)
	}
}

// places says when the peak is, which layers hold most then, and where the run fits.
func (a *Answer) places(s *screen) {
	r, unit := a.Report, largeUnit(a.Report.Peak.Safe)
	s.gap()
	s.gpus(r, unit)
	s.text("peak", Moment(r.Peak.Phase, r.Peak.Step, r.Peak.Layer))
	s.layers(LargestLayers(r, 5), unit)
	var items []string
	for _, g := range a.GPUs {
		word := s.paint("32", "yes")
		switch {
		case !g.Fits:
			word = s.paint("31", "no")
		case g.Tight:
			word = s.paint("33", "not safe")
		}
		items = append(items, g.Name+" "+word)
	}
	s.row("fits", items)
	if f := a.Fitting; f != nil {
		text := "not even one sample fits " + f.GPU
		switch {
		case f.Batch > 0 && f.Safe == f.Batch:
			text = fmt.Sprintf("%s is the largest that fits %s", Count(f.Batch), f.GPU)
		case f.Batch > 0 && f.Safe > 0:
			text = fmt.Sprintf("%s is the largest that fits %s, %s the largest that is safe", Count(f.Batch), f.GPU,
				Count(f.Safe))
		case f.Batch > 0:
			text = fmt.Sprintf("%s is the largest that fits %s, none is safe", Count(f.Batch), f.GPU)
		}
		s.text("batch", text)
	}
}

// gpus says what a process takes of each of its GPUs; all else is of the one with the most.
func (s *screen) gpus(r *estimate.Report, unit sizeUnit) {
	items := make([]string, len(r.GPUs))
	for i, g := range r.GPUs {
		items[i] = fmt.Sprintf("cuda:%d %s, safe %s %s", g.GPU, unit.format(g.Device), unit.format(g.Safe), unit.name)
		if g.Device == r.Peak.Device && g.Safe == r.Peak.Safe {
			items[i] += " (above)"
		}
	}
	s.row("GPUs", items)
}

// layers lists layers on two lines, with as much of their names as there is room for.
func (s *screen) layers(all []estimate.Live, unit sizeUnit) {
	before := len(s.lines)
	for room := 34; room >= 14; room -= 4 {
		items := make([]string, len(all))
		for i, l := range all {
			items[i] = s.end(Show(l.Layer, nameWidth), room) + " " + unit.format(l.Bytes)
		}
		if len(items) > 0 {
			items[len(items)-1] += " " + unit.name
		}
		s.lines = s.lines[:before]
		s.row("layers", items)
		if len(s.lines)-before <= 2 {
			return
		}
	}
}

// LargestLayers returns the layers that hold most at the peak, n at most, with all that they hold then. What the loss
// and its backward pass hold is the loss's.
func LargestLayers(r *estimate.Report, n int) []estimate.Live {
	sim := r.Simulation
	if sim == nil || sim.Replay.PeakAllocated.Event < 0 {
		return nil
	}
	log := sim.Run.Log
	sums := make([]estimate.Live, len(log.Layers)+1)
	for i, name := range log.Layers {
		sums[i].Layer = name
	}
	loss := len(log.Layers)
	sums[loss].Layer = "loss"
	for _, block := range log.Live(sim.Replay.PeakAllocated.Event) {
		q := log.Of(block)
		at := int(q.Layer)
		if at < 0 || at >= loss {
			if p := q.Phase.String(); p != "loss" && p != "backward" {
				continue
			}
			at = loss
		}
		sums[at].Bytes += q.Bytes
		sums[at].Tensors++
	}
	sums = slices.DeleteFunc(sums, func(l estimate.Live) bool { return l.Bytes == 0 })
	slices.SortStableFunc(sums, func(a, b estimate.Live) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return sums[:min(n, len(sums))]
}

// remarks writes warnings, the first ones in so many lines, and says how many notes there are beside. It reports
// whether some of a warning was left out.
func (a *Answer) remarks(s *screen, room int) (cut bool) {
	var warnings []string
	for _, n := range a.Report.Notes {
		if n.Level == estimate.Warning {
			warnings = append(warnings, oneLine(n.Text))
		}
	}
	others := len(a.Report.Notes) - len(warnings)
	guess, _ := a.heaviest()
	for i, text := range warnings {
		left := room // but for a line that says that there is more
		if others > 0 || i+1 < len(warnings) || guess != nil {
			left--
		}
		if left < 1 {
			others += len(warnings) - i
			cut = true
			break
		}
		before := len(s.lines)
		s.text("warning", text)
		if len(s.lines)-before > left {
			s.lines = s.lines[:before]
			s.beginning(text, left)
			cut = true
		}
		room -= len(s.lines) - before
	}
	lines := a.guessed(s, room)
	if lines > room && room > 0 {
		s.text("notes", guessLeftOut(others))
		return true
	}
	if room -= lines; others > 0 && room > 0 {
		s.text("notes", strconv.Itoa(others)+" more with --full")
	}
	return cut
}

// beginning writes as many whole sentences of a warning as there are lines for, or as much of the first one.
func (s *screen) beginning(text string, lines int) {
	before := len(s.lines)
	for end := len(text); ; {
		end = strings.LastIndex(text[:end], ". ")
		if end < 0 {
			break
		}
		s.text("warning", text[:end+1])
		if len(s.lines)-before <= lines {
			return
		}
		s.lines = s.lines[:before]
	}
	s.text("warning", text)
	s.lines = s.lines[:before+lines]
	last := &s.lines[before+lines-1]
	*last = strings.TrimRight(s.cut(*last, s.Width-4), " ") + " ..."
}
