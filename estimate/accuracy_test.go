package estimate

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/test/testfile"
)

var (
	onlyModel = flag.String("accuracy.model", "", "only cases of these models, comma-separated")
	onlyForm  = flag.String("accuracy.form", "", "only this export form")
	onlyCase  = flag.String("accuracy.case", "", "only cases whose name contains this")
	casesFile = flag.String("accuracy.truth", "testdata/truth/steps.json.gz", "the measured cases")
	graphs    = flag.String("accuracy.onnx", "", "a folder of MODEL.FORM.onnx files, instead of the built-in models")
	verbose   = flag.Bool("accuracy.cases", false, "print every case")
)

// A measured case: see testdata/truth/README.md.
type measuredCase struct {
	Model        string             `json:"model"`
	Mode         string             `json:"mode"`
	DType        string             `json:"dtype"`
	Opt          string             `json:"opt"`
	Batch        int64              `json:"batch"`
	PeakAlloc    int64              `json:"peak_alloc"`
	PeakReserved int64              `json:"peak_reserved"`
	SMI          int64              `json:"smi_mib"`
	Saved        int64              `json:"saved_bytes"`
	MemTracker   int64              `json:"memtracker_peak"`
	Criterion    string             `json:"criterion"` // own where its authors wrote it; none in inference
	ChannelsLast truthy             `json:"channels_last"`
	Steps        []map[string]int64 `json:"steps"`
}

// truthy reads true, 1 and the like.
type truthy bool

func (t *truthy) UnmarshalJSON(b []byte) error {
	*t = string(b) == "true" || string(b) == "1"
	return nil
}

func (c measuredCase) name() string {
	s := fmt.Sprintf("%s %s %s %s b%d", c.Model, c.Mode, c.DType, c.Opt, c.Batch)
	if c.ChannelsLast {
		s += " channels_last"
	}
	return s
}

func readCases(t testing.TB, file string) []measuredCase {
	t.Helper()
	var all struct {
		Cases []measuredCase `json:"cases"`
	}
	testfile.JSON(t, file, &all)
	return all.Cases
}

func (c measuredCase) step() Step {
	s := torch.Settings{Precision: torch.Precision(c.DType), Optimizer: c.Opt, ChannelsLast: bool(c.ChannelsLast)}
	if c.Criterion != "own" {
		s.Loss = c.Criterion
	}
	return Step{Infer: c.Mode == "infer", Settings: s}
}

// formOf is the export whose accuracy is judged: ts-train, else dynamo-train, unless a flag says which.
// It is "" when the model has none.
func formOf(model string) string {
	for _, form := range models.Forms() {
		if *onlyForm != "" && form != *onlyForm {
			continue
		}
		if *graphs == "" {
			if info, err := models.Info(model); err != nil || !slices.Contains(info.Forms, form) {
				continue
			}
		} else if graphFile(model, form) == "" {
			continue
		}
		return form
	}
	return ""
}

// openModel opens an export of a model.
func openModel(t testing.TB, model, form string) *onnxload.Model {
	t.Helper()
	return openGraph(t, *graphs, model, form)
}

// openGraph opens an export of a model in a folder, or of a built-in model where that is "".
func openGraph(t testing.TB, dir, model, form string) *onnxload.Model {
	t.Helper()
	var b []byte
	var err error
	if dir == "" {
		b, err = models.Open(model + ":" + form)
	} else {
		b, err = readGraph(graphFileIn(dir, model, form))
	}
	if err != nil {
		t.Fatal(err)
	}
	m := readModel(t, b, model)
	return m
}

func simulate(t testing.TB, c measuredCase, form string) (*Simulation, error) {
	t.Helper()
	bound, err := Bind(openModel(t, c.Model, form), Options{Batch: c.Batch, BuiltIn: *graphs == ""})
	if err != nil {
		return nil, err
	}
	return bound.Simulate(c.step())
}

type outcome struct {
	c               measuredCase
	form            string
	alloc, reserved float64 // signed relative errors
	device, saved   float64
	bound           float64 // upper bound over the measured device memory, less 1
	likely, safe    float64 // the same of what is likely and safe
}

// graphFile returns the file of a model in the folder of the flag, "" when it has none.
func graphFile(model, form string) string { return graphFileIn(*graphs, model, form) }

func graphFileIn(dir, model, form string) string {
	for _, ext := range []string{".onnx", ".onnx.zst"} {
		f := filepath.Join(dir, model+"."+form+ext)
		if _, err := os.Stat(f); err == nil {
			return f
		}
	}
	return ""
}

func readGraph(file string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil || !strings.HasSuffix(file, ".zst") {
		return b, err
	}
	r, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.DecodeAll(b, nil)
}

// outcomes estimates the measured cases that the flags and keep select.
func outcomes(t *testing.T, keep func(measuredCase) bool) []outcome {
	t.Helper()
	var all []outcome
	for _, c := range readCases(t, *casesFile) {
		if *onlyModel != "" && !slices.Contains(strings.Split(*onlyModel, ","), c.Model) ||
			!strings.Contains(c.name(), *onlyCase) || !keep(c) {
			continue
		}
		form := formOf(c.Model)
		if form == "" {
			continue
		}
		e := graphCase{*graphs, c.Model, form, c.Batch}.estimate(t, c.step())
		if e.err != nil {
			t.Errorf("%s: %v", c.name(), e.err)
			continue
		}
		o := outcome{c: c, form: form, alloc: rel(e.allocated, c.PeakAlloc), reserved: rel(e.reserved, c.PeakReserved)}
		if c.SMI > 0 {
			o.device = rel(e.device, c.SMI<<20)
			o.bound = rel(e.upper, c.SMI<<20)
			o.likely, o.safe = rel(e.likely, c.SMI<<20), rel(e.safe, c.SMI<<20)
		}
		if c.Saved > 0 {
			o.saved = rel(e.saved, c.Saved)
		}
		all = append(all, o)
		if *verbose {
			t.Logf("%-60s alloc %+7.2f%%  reserved %+7.2f%%  device %+7.2f%%  bound %+7.2f%%   (%d, want %d)", c.name(),
				100*o.alloc, 100*o.reserved, 100*o.device, 100*o.bound, e.allocated, c.PeakAlloc)
		}
	}
	return all
}

// limits are the errors, in percent, that a kind of run must stay within.
type limits struct {
	kind            string
	alloc, reserved spread // 0: not held
}

// TestAccuracy holds the estimate against measured steps of the built-in models. What the limits say was reached
// when they were written, rounded up; nothing may get worse unseen.
func TestAccuracy(t *testing.T) {
	every := outcomes(t, func(measuredCase) bool { return true })
	summarize(t, every)
	if *onlyModel == "" && *onlyForm == "" && *onlyCase == "" && *graphs == "" {
		hold(t, every, []limits{
			{"train", spread{0.1, 0.5, 3}, spread{0.5, 3, 0}},
			{"train fp32", spread{0.1, 0.5, 3}, spread{0.5, 3, 0}},
			{"train amp-bf16", spread{0.1, 0.5, 1}, spread{0.5, 3, 0}},
			{"train bf16", spread{0.1, 0.5, 1}, spread{0.5, 3, 0}},
			{"infer fp32", spread{0.2, 2, 6}, spread{1, 6, 0}},
			{"infer bf16", spread{0.2, 2, 4}, spread{1, 12, 0}},
		})
		holdBound(t, every, upper, 99, 5)
		holdBound(t, every, likely, 95, 5)
		holdBound(t, every, safe, 99, 5)
		holdDoc(t, builtInTitle, every)
	}
}

// TestAccuracyOfForms holds training steps against what the other exports of the built-in models give.
func TestAccuracyOfForms(t *testing.T) {
	needsEveryCase(t)
	if *onlyForm != "" || *graphs != "" {
		t.Skip("a flag says which graphs")
	}
	defer func() { *onlyForm = "" }()
	for _, form := range []string{"ts-eval", "dynamo", "dynamo-train"} {
		*onlyForm = form
		all := outcomes(t, func(c measuredCase) bool {
			return c.Mode == "train" && c.DType == "fp32" &&
				!bool(c.ChannelsLast)
		})
		t.Log(form)
		summarize(t, all)
		if *onlyModel == "" && *onlyCase == "" {
			hold(t, all, []limits{{"train fp32", spread{0.2, 1.5, 15}, spread{0.5, 5, 0}}})
		}
	}
}

// TestAccuracyOnUnseenModels holds the estimate against the first 35 models that were measured after the rules: unseen
// then.
func TestAccuracyOnUnseenModels(t *testing.T) {
	if *graphs != "" {
		t.Skip("a flag says which graphs")
	}
	all := furtherSet{dir: "testdata/unseen"}.outcomes(t, "", func(measuredCase) bool { return true })
	summarize(t, all)
	if *onlyModel == "" && *onlyForm == "" && *onlyCase == "" {
		hold(t, all, []limits{
			{"train fp32", spread{0.2, 1, 0}, spread{1, 6, 0}},
			{"train amp-bf16", spread{0.2, 1, 2}, spread{1, 8, 0}},
			{"train bf16", spread{0.2, 1, 2}, spread{1, 10, 0}},
			{"infer fp32", spread{0.2, 5, 0}, spread{1, 18, 0}},
			{"infer bf16", spread{0.2, 3, 8}, spread{1, 10, 0}},
		})
		holdBound(t, all, upper, 98, 5)
		holdDoc(t, unseenTitle, all)
	}
}

// holdBound fails the test where a bound holds in less than so many percent of the cases, or is more than so many
// percent too high on average.
func holdBound(t *testing.T, all []outcome, f func(outcome) float64, least, above float64) {
	t.Helper()
	if b := boundsOf(all, f); 100*float64(b.holds) < least*float64(b.of) || b.mean > above {
		t.Errorf("a bound %v; wanted at least %v %% of them, and at most %v %%", b, least, above)
	}
}

// hold fails the test where errors are above the limits.
func hold(t *testing.T, all []outcome, want []limits) {
	t.Helper()
	_, groups := byKind(all)
	for _, l := range want {
		g := groups[l.kind]
		if len(g) == 0 {
			t.Errorf("%s: no cases", l.kind)
			continue
		}
		for _, x := range []struct {
			what       string
			got, limit spread
		}{{"allocated", spreadOf(g, allocated), l.alloc}, {"reserved", spreadOf(g, reserved), l.reserved}} {
			if x.got.median > x.limit.median || x.got.p90 > x.limit.p90 || x.limit.worst > 0 && x.got.worst > x.limit.worst {
				t.Errorf("%s, %s: %v, want at most %v", l.kind, x.what, x.got, x.limit)
			}
		}
	}
}
