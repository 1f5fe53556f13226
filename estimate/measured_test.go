package estimate

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

// A variantCase is a measured run that differs by a flag or two from the plain loop: see
// testdata/README.md.
type variantCase struct {
	measuredCase
	Accumulate int     `json:"accum"`
	Clip       float64 `json:"clip"`
	SetToNone  *bool   `json:"set_to_none"`
	Foreach    *bool   `json:"foreach"`
	Scaler     truthy  `json:"scaler"`
	AllocConf  string  `json:"alloc_conf"`
	CapMiB     int64   `json:"cap_mib"`
	OOM        bool    `json:"oom"`
	Tried      string  `json:"tried"`
	Retries    int64   `json:"alloc_retries"`
}

// kind names what is special about a case; cases of one kind are judged together.
func (c variantCase) kind() string {
	if c.CapMiB > 0 {
		return "memory cap"
	}
	parts := []string{}
	if c.Mode == "infer" || c.DType != "fp32" {
		parts = append(parts, c.Mode, c.DType)
	}
	if c.Opt != "" && (c.Opt != "adamw" || c.DType != "fp32") {
		parts = append(parts, c.Opt)
	}
	if c.Scaler {
		parts = append(parts, "scaler")
	}
	if c.Accumulate > 1 {
		parts = append(parts, fmt.Sprintf("accumulate %d", c.Accumulate))
	}
	if c.Clip > 0 {
		parts = append(parts, "clip")
	}
	if c.SetToNone != nil && !*c.SetToNone {
		parts = append(parts, "zeros")
	}
	if c.Foreach != nil && !*c.Foreach {
		parts = append(parts, "for-loop")
	}
	if c.AllocConf != "" {
		parts = append(parts, c.AllocConf)
	}
	return strings.Join(parts, " ")
}

func (c variantCase) step() Step {
	s := c.measuredCase.step()
	s.Accumulate, s.ClipNorm, s.Scaler, s.AllocConf = c.Accumulate, c.Clip > 0, bool(c.Scaler), c.AllocConf
	s.ZeroGrads = c.SetToNone != nil && !*c.SetToNone
	s.ForLoop = c.Foreach != nil && !*c.Foreach
	if c.CapMiB > 0 { // the fraction that set_per_process_memory_fraction was given, of what the device has
		total := float64(gpu.Default().Memory)
		s.MemoryLimit = int64(float64(c.CapMiB<<20) / total * total)
	}
	return s
}

func readVariants(t testing.TB) []variantCase {
	t.Helper()
	var all struct {
		Cases []variantCase `json:"cases"`
	}
	testfile.JSON(t, "testdata/truth/variants.json.gz", &all)
	return all.Cases
}

// TestMemoryCaps replays runs under caps on the process's memory: which of them run out of memory was measured.
func TestMemoryCaps(t *testing.T) {
	capped, right := 0, 0
	for _, c := range readVariants(t) {
		if c.CapMiB == 0 {
			continue
		}
		bound, err := Bind(openModel(t, c.Model, formOf(c.Model)), Options{Batch: c.Batch})
		must.OK(t, err)
		sim, err := bound.Simulate(c.step())
		if err != nil {
			t.Fatalf("%s: %v", c.name(), err)
		}
		capped++
		if oom := sim.OOM(); (oom != nil) == c.OOM {
			right++
		} else {
			t.Logf("%s under %d MiB: predicted to run out of memory %v, measured %v %s", c.name(), c.CapMiB, oom != nil, c.OOM,
				c.Tried)
		}
	}
	if capped != 40 || right < 38 {
		t.Errorf("%d of %d runs under a memory cap are rightly called, want 38 of 40", right, capped)
	}
}

// A measuredCase is a run that was measured: see testdata/README.md.
type measuredCase struct {
	Model        string             `json:"model"`
	Mode         string             `json:"mode"`
	DType        string             `json:"dtype"`
	Opt          string             `json:"opt"`
	Batch        int64              `json:"batch"`
	PeakAlloc    int64              `json:"peak_alloc"`
	PeakReserved int64              `json:"peak_reserved"`
	SMI          int64              `json:"smi_mib"`
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

// formOf is the export of a built-in model that is asked about: ts-train, else dynamo-train.
func formOf(model string) string {
	info, err := models.Info(model)
	if err != nil {
		return ""
	}
	return info.Forms[0]
}

// openModel opens an export of a built-in model.
func openModel(t testing.TB, model, form string) *onnxload.Model {
	t.Helper()
	return openGraph(t, "", model, form)
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
	must.OK(t, err)
	return readModel(t, b, model)
}

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

func rel(got, want int64) float64 { return float64(got-want) / float64(want) }

// medianOf is the median of some figures; 0 of none.
func medianOf(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	return x[len(x)/2]
}

// An outcome is by how much a run's estimate is off: signed relative errors.
type outcome struct {
	c                       measuredCase
	alloc, reserved, device float64
}

// A spread is the median, the 90th percentile and the worst of absolute errors, in percent.
type spread struct{ median, p90, worst float64 }

func spreadOf(g []outcome, f func(outcome) float64) spread {
	if len(g) == 0 {
		return spread{}
	}
	var e []float64
	for _, o := range g {
		e = append(e, 100*math.Abs(f(o)))
	}
	slices.Sort(e)
	return spread{e[len(e)/2], e[min(len(e)-1, len(e)*9/10)], e[len(e)-1]}
}

func (s spread) String() string {
	return fmt.Sprintf("median %.2f%% p90 %.2f%% worst %.2f%%", s.median, s.p90, s.worst)
}

func allocated(o outcome) float64 { return o.alloc }

func reserved(o outcome) float64 { return o.reserved }

func readModel(t testing.TB, b []byte, path string) *onnxload.Model {
	t.Helper()
	m, err := onnxload.Read(bytes.NewReader(b), int64(len(b)), onnxload.Options{Path: path})
	must.OK(t, err)
	return m
}

// at returns the value below which a share of the values lie.
func at(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	return values[min(int(share*float64(len(values))), len(values)-1)]
}
