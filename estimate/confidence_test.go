package estimate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/test/testfile"
)

// A firstSight is an answer about a model that nobody had looked at when it was given, and what the run then took.
type firstSight struct {
	set, model string
	way        module.Way
	infer      bool
	own        bool // the criterion is the authors' own, so that the question was about another loss

	device, bound, varies, measured int64
}

// short is by what share of what a run varies by its bound was short: the margin that it needed.
func (f firstSight) short() float64 { return float64(f.measured-f.bound) / float64(f.varies) }

// over is how far a bound with a margin is above what was measured, as a share of it.
func (f firstSight) over(share float64) float64 {
	return float64(max(f.device, f.bound+int64(share*float64(f.varies))))/float64(f.measured) - 1
}

// states is how many copies of the parameters an optimizer keeps.
var states = map[string]int64{"adam": 2, "adamw": 2, "adamw-fused": 2, "radam": 2, "adadelta": 2, "sgdm": 1,
	"rmsprop": 1, "adagrad": 1, "sgd": 0}

// firstSights reads them: three sets of models, exported, as the program of their day answered, and the published
// ones.
func firstSights(t testing.TB) (all []firstSight) {
	t.Helper()
	ways := map[string]module.Way{"recording": RecordedWay, "ts-train": module.TorchScript,
		"dynamo-train": module.TorchExport, "default": module.DefaultExport}
	var sets struct {
		Sets []struct {
			Set  string `json:"set"`
			Runs []struct {
				measuredCase
				answered
			} `json:"runs"`
		} `json:"sets"`
	}
	testfile.JSON(t, "testdata/first_sight.json.gz", &sets)
	for _, s := range sets.Sets {
		for _, r := range s.Runs {
			all = append(all, firstSight{s.Set, r.Model, ways[r.Way], r.Mode == "infer", false, r.Device, r.Bound,
				varying(r.Reserved, r.State), r.SMI << 20})
		}
	}
	for _, dir := range append([]string{"testdata/published97"}, firstSightSets...) {
		all = append(all, publishedSights(t, dir, ways)...)
	}
	return all
}

// publishedSights reads the answers about a set of published models. Those about the 97 have the context.
func publishedSights(t testing.TB, dir string, ways map[string]module.Way) (all []firstSight) {
	t.Helper()
	set := strings.TrimPrefix(dir, "testdata/")
	type answer struct {
		measuredCase
		answered
		AtMost int64 `json:"at_most_bytes"`
	}
	var first struct{ Answers, Others []answer }
	testfile.JSON(t, dir+"/first.json.gz", &first)
	type run struct {
		model, mode, dtype string
		batch              int64
	}
	type measured struct {
		measuredCase
		Criterion  string `json:"criterion"`
		Parameters int64  `json:"param_bytes"`
	}
	var steps struct {
		Cases []measured `json:"cases"`
	}
	testfile.JSON(t, dir+"/steps.json.gz", &steps)
	if set != "published97" {
		for i := range first.Answers { // in the order of the cases
			first.Answers[i].measuredCase, first.Answers[i].Way = steps.Cases[i].measuredCase, "recording"
		}
		recorded := first.Answers
		first.Answers = nil
		testfile.JSON(t, dir+"/exports.json.gz", &first)
		first.Answers = slices.Concat(recorded, first.Answers, first.Others)
		for i := range first.Answers {
			a := &first.Answers[i]
			a.Device, a.Bound = a.Reserved, a.AtMost
		}
	}
	cases := map[run]measured{}
	for _, c := range steps.Cases {
		cases[run{c.Model, c.Mode, c.DType, c.Batch}] = c
	}
	for _, a := range first.Answers {
		if a.Device == 0 { // no answer
			continue
		}
		c, ok := cases[run{a.Model, a.Mode, a.DType, a.Batch}]
		if !ok {
			t.Fatalf("%s %s %s b%d was not measured", a.Model, a.Mode, a.DType, a.Batch)
		}
		if a.Criterion != "" && a.Way != "recording" { // in the export, or its authors' own has a name
			c.Criterion = a.Criterion
		}
		f := firstSight{set, a.Model, ways[a.Way], a.Mode == "infer", c.Criterion == "own" && a.Mode != "infer", a.Device,
			a.Bound, 0, c.PeakReserved + a.Device - a.Reserved}
		state := a.State
		if state == 0 {
			state = c.Parameters
			if !f.infer {
				state *= 2 + states[c.Opt]
			}
		}
		f.varies = varying(a.Reserved, state)
		all = append(all, f)
	}
	return all
}

// An answered run is what the program of its day said of it.
type answered struct {
	Way      string `json:"way"`
	Reserved int64  `json:"reserved_bytes"`
	Device   int64  `json:"device_bytes"`
	Bound    int64  `json:"upper_bound_bytes"`
	State    int64  `json:"state_bytes"` // parameters, gradients and the optimizer's state
}

// leastMargin is the least margin that holds in so large a share of all runs, those that nobody has seen included: of n
// runs and one more, the last may be anywhere among them. Of too few it is what the worst one needed. It is rounded up.
func leastMargin(runs []firstSight, share float64) float64 {
	var short []float64
	for _, f := range runs {
		short = append(short, f.short())
	}
	slices.Sort(short)
	at := int(math.Ceil(share*float64(len(short)+1))) - 1
	return math.Ceil(1000*short[min(at, len(short)-1)]) / 1000
}

// What Likely and Safe promise.
const likelyShare, safest = 0.95, 0.98

// safeShare is what Safe promises of a way in: less of trainings from default exports, see Report.SafeRate.
func (c calibration) safeShare() float64 {
	if c.way == module.DefaultExport && !c.infer {
		return 0.97
	}
	return safest
}

// A promise is what a margin comes to on some runs.
type promise struct {
	holds, runs int
	over        float64 // on average
}

func (p *promise) add(f firstSight, share float64) {
	p.runs++
	if f.short() <= share || f.measured <= f.device {
		p.holds++
	}
	p.over += f.over(share)
}

func (p promise) String() string {
	n := float64(max(p.runs, 1))
	return fmt.Sprintf("%.1f %% at +%.1f %%", 100*float64(p.holds)/n, 100*p.over/n)
}

// A calibration is the runs of one way in and mode.
type calibration struct {
	way   module.Way
	title string
	infer bool
	both  bool // of training and inference together, as there are few of either
}

var calibrations = []calibration{
	{RecordedWay, "recording", false, true},
	{module.TorchExport, "torch.export, kept for training: training", false, false},
	{module.TorchExport, "torch.export, kept for training: inference", true, false},
	{module.TorchScript, "TorchScript, kept for training: training", false, false},
	{module.TorchScript, "TorchScript, kept for training: inference", true, false},
	{module.DefaultExport, "default export: training", false, false},
	{module.DefaultExport, "default export: inference", true, false},
}

func (c calibration) runs(all []firstSight) (mine []firstSight) {
	for _, f := range all {
		// A recording has its criterion in it.
		if f.way == c.way && (c.both || f.infer == c.infer) && (!f.own || f.way == RecordedWay) {
			mine = append(mine, f)
		}
	}
	return mine
}

// leftOut calibrates without each part of the runs in turn, and says what that comes to on the part. Parts are the
// sets, or a tenth of the models each where there is one set.
func leftOut(runs []firstSight, share float64) (all promise, bySet map[string]promise) {
	part := func(f firstSight) string { return f.set }
	if !slices.ContainsFunc(runs, func(f firstSight) bool { return f.set != runs[0].set }) {
		names := []string{}
		for _, f := range runs {
			names = append(names, f.model)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		part = func(f firstSight) string { return fmt.Sprint(slices.Index(names, f.model) % 10) }
	}
	bySet = map[string]promise{}
	parts := map[string][2][]firstSight{}
	for _, f := range runs {
		parts[part(f)] = [2][]firstSight{}
	}
	for name := range parts {
		var in, out []firstSight
		for _, f := range runs {
			if part(f) == name {
				out = append(out, f)
			} else {
				in = append(in, f)
			}
		}
		parts[name] = [2][]firstSight{in, out}
	}
	for name, p := range parts {
		m := leastMargin(p[0], share)
		var of promise
		for _, f := range p[1] {
			of.add(f, m)
		}
		bySet[name] = of
		all.holds, all.runs, all.over = all.holds+of.holds, all.runs+of.runs, all.over+of.over
	}
	return all, bySet
}

// TestMargins holds the margins to what the runs at first sight needed, and the documentation to what they come to.
func TestMargins(t *testing.T) {
	all := firstSights(t)
	var w strings.Builder
	fmt.Fprintln(&w, "\n| way in | runs | models | bound alone | likely: margin | holds, above | left out | safe: "+
		"margin | holds, above | left out |")
	fmt.Fprintln(&w, "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, c := range calibrations {
		runs := c.runs(all)
		models := map[string]bool{}
		var bound, likely, safe promise
		want := marginOf(c.way, c.infer)
		for _, f := range runs {
			models[f.model] = true
			bound.add(f, 0)
			likely.add(f, want.likely)
			safe.add(f, want.safe)
		}
		if l, s := leastMargin(runs, likelyShare), leastMargin(runs, c.safeShare()); l != want.likely || s != want.safe {
			t.Errorf("%s: the margins are %v and %v; the runs needed %v and %v", c.title, want.likely, want.safe, l, s)
		}
		needed := fmt.Sprintf("all but %d of %d first trainings", safe.runs-safe.holds, safe.runs)
		if n, ok := wayNote(c.way, c.infer); ok && !strings.Contains(n.Text, needed) {
			t.Errorf("%s: %s\nwant %s", c.title, n.Text, needed)
		}
		likelyOut, _ := leftOut(runs, likelyShare)
		safeOut, _ := leftOut(runs, c.safeShare())
		fmt.Fprintf(&w, "| %s | %d | %d | %v | %.3f | %v | %v | %.3f | %v | %v |\n", c.title, len(runs), len(models), bound,
			want.likely, likely, likelyOut, want.safe, safe, safeOut)
	}
	w.WriteString(bySets(all))
	holdPart(t, "margins", w.String())
}

// bySets is what calibrating without a set comes to on that set, where there are several.
func bySets(all []firstSight) string {
	var w strings.Builder
	fmt.Fprintln(&w, "\n| left out | way in | runs | likely | safe |\n|---|---|---:|---:|---:|")
	for _, c := range calibrations {
		runs := c.runs(all)
		_, likely := leftOut(runs, likelyShare)
		_, safe := leftOut(runs, c.safeShare())
		for _, set := range []string{"further54", "further60a", "further60b", "published97", "published86",
			"published109", "published75", "published78", "published66", "published94", "published94b",
			"published64", "published41", "published82"} {
			if p, ok := safe[set]; ok {
				fmt.Fprintf(&w, "| %s | %s | %d | %v | %v |\n", set, c.title, p.runs, likely[set], p)
			}
		}
	}
	own := map[module.Way]*[2]promise{}
	for _, f := range all {
		if f.own && f.way != RecordedWay {
			if own[f.way] == nil {
				own[f.way] = &[2]promise{}
			}
			own[f.way][0].add(f, margins[f.way].train.likely)
			own[f.way][1].add(f, margins[f.way].train.safe)
		}
	}
	for _, c := range calibrations {
		if p := own[c.way]; p != nil && !c.infer {
			fmt.Fprintf(&w, "| criteria of their authors, which no flag names | %s | %d | %v | %v |\n", c.title, p[0].runs, p[0],
				p[1])
		}
	}
	return w.String()
}

// holdPart holds what stands between two marks of the documentation to text, and writes it with -accuracy.write.
func holdPart(t *testing.T, mark, text string) {
	t.Helper()
	part := testfile.Between(t, docFile, "<!-- "+mark+": a test writes them -->\n", "<!-- end of "+mark+" -->\n")
	switch {
	case *writeDoc:
		part.Write(t, text)
	case part.Text != text:
		t.Errorf("%s: %q is not what is computed, which is:\n%s", docFile, mark, text)
	}
}

// TestWayIn recognises how every built-in model was exported. Where a file kept all there was to keep, it cannot be
// told from one that was made for training.
func TestWayIn(t *testing.T) {
	want := map[string][]module.Way{
		"ts-train": {module.TorchScript, OtherWay}, "dynamo-train": {module.TorchExport, module.DefaultExport},
		"ts-eval": {OtherWay, module.TorchScript}, "dynamo": {module.DefaultExport},
	}
	count := map[string]map[module.Way][]string{}
	for _, name := range models.Names() {
		info, err := models.Info(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range info.Forms {
			b, err := Bind(openModel(t, name, form), Options{Batch: 2})
			if _, fixed := errors.AsType[*shape.BindError](err); fixed {
				b, err = Bind(openModel(t, name, form), Options{})
			}
			if err != nil {
				t.Fatalf("%s:%s: %v", name, form, err)
			}
			if count[form] == nil {
				count[form] = map[module.Way][]string{}
			}
			count[form][b.way] = append(count[form][b.way], name)
			if !slices.Contains(want[form], b.way) {
				t.Errorf("%s:%s is taken for %q", name, form, b.way)
			}
		}
	}
	for form, ways := range count {
		all := 0
		for _, names := range ways {
			all += len(names)
		}
		if right := len(ways[want[form][0]]); 4*right < 3*all {
			t.Errorf("%s: %d of %d are recognised: %v", form, right, all, ways)
		}
	}
}
