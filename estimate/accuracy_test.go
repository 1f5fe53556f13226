package estimate

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
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
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Cases []measuredCase `json:"cases"`
	}
	if err := json.NewDecoder(z).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all.Cases
}

func (c measuredCase) step() Step {
	return Step{Infer: c.Mode == "infer", Precision: c.DType, Optimizer: c.Opt, ChannelsLast: bool(c.ChannelsLast)}
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
		} else if _, err := os.Stat(filepath.Join(*graphs, model+"."+form+".onnx")); err != nil {
			continue
		}
		return form
	}
	return ""
}

// openModel opens an export of a model.
func openModel(t testing.TB, model, form string) *onnxload.Model {
	t.Helper()
	var b []byte
	var err error
	if *graphs == "" {
		b, err = models.Open(model + ":" + form)
	} else {
		b, err = os.ReadFile(filepath.Join(*graphs, model+"."+form+".onnx"))
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnxload.Read(bytes.NewReader(b), int64(len(b)), onnxload.Options{Path: model})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func simulate(t testing.TB, c measuredCase, form string) (*Simulation, error) {
	t.Helper()
	bound, err := Bind(openModel(t, c.Model, form), Options{Batch: c.Batch})
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
}

func TestAccuracy(t *testing.T) {
	var all []outcome
	for _, c := range readCases(t, *casesFile) {
		if *onlyModel != "" && !slices.Contains(strings.Split(*onlyModel, ","), c.Model) || !strings.Contains(c.name(), *onlyCase) {
			continue
		}
		form := formOf(c.Model)
		if form == "" {
			continue
		}
		sim, err := simulate(t, c, form)
		if err != nil {
			t.Errorf("%s: %v", c.name(), err)
			continue
		}
		o := outcome{c: c, form: form, alloc: rel(sim.Peak.Allocated, c.PeakAlloc), reserved: rel(sim.Peak.Reserved, c.PeakReserved)}
		if c.SMI > 0 {
			o.device = rel(sim.Peak.Device, c.SMI<<20)
			o.bound = rel(sim.Peak.UpperBound, c.SMI<<20)
		}
		if c.Saved > 0 {
			o.saved = rel(sim.Run.Saved, c.Saved)
		}
		all = append(all, o)
		if *verbose {
			t.Logf("%-60s alloc %+7.2f%%  reserved %+7.2f%%   (%d, want %d)", c.name(), 100*o.alloc, 100*o.reserved, sim.Peak.Allocated, c.PeakAlloc)
		}
	}
	groups := map[string][]outcome{}
	for _, o := range all {
		k := o.c.Mode + " " + o.c.DType
		groups[k] = append(groups[k], o)
	}
	for _, k := range slices.Sorted(mapsKeys(groups)) {
		g := groups[k]
		a, r := spread(g, func(o outcome) float64 { return o.alloc }), spread(g, func(o outcome) float64 { return o.reserved })
		t.Logf("%-16s %3d cases  allocated: median %.2f%% p90 %.2f%% worst %.2f%%   reserved: median %.2f%% p90 %.2f%% worst %.2f%%",
			k, len(g), a[0], a[1], a[2], r[0], r[1], r[2])
	}
	over, mean, near, saved := 0, 0.0, 0, 0
	for _, o := range all {
		if o.bound >= 0 {
			over++
		}
		mean += o.bound
		if o.c.Saved > 0 {
			saved++
			if math.Abs(o.saved) <= 0.01 {
				near++
			} else if *verbose {
				t.Logf("saved %s %+.2f%%", o.c.name(), 100*o.saved)
			}
		}
	}
	d := spread(all, func(o outcome) float64 { return o.device })
	t.Logf("device: median %.2f%% p90 %.2f%% worst %.2f%%; upper bound holds in %d of %d, on average %+.2f%%; saved within 1%% in %d of %d",
		d[0], d[1], d[2], over, len(all), 100*mean/float64(len(all)), near, saved)
	slices.SortFunc(all, func(x, y outcome) int { return cmp.Compare(math.Abs(y.alloc), math.Abs(x.alloc)) })
	for _, o := range all[:min(10, len(all))] {
		t.Logf("  worst: %-50s %s alloc %+.2f%% reserved %+.2f%%", o.c.name(), o.form, 100*o.alloc, 100*o.reserved)
	}
}

func mapsKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func rel(got, want int64) float64 { return float64(got-want) / float64(want) }

// spread returns the median, the 90th percentile and the worst of the absolute errors, in percent.
func spread(g []outcome, f func(outcome) float64) [3]float64 {
	var e []float64
	for _, o := range g {
		e = append(e, 100*math.Abs(f(o)))
	}
	slices.Sort(e)
	return [3]float64{e[len(e)/2], e[min(len(e)-1, len(e)*9/10)], e[len(e)-1]}
}
