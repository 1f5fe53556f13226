package estimate

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

// Ways in, as the table of cells names them.
const (
	recordedWay   = "recording"
	constructsWay = "constructs" // small models that no run was measured of: they are listed and not judged
	withLines     = ", with lines"
	stripped      = ", stripped"
)

// formWays are the ways in of the forms of exports.
var formWays = map[string]string{"ts-train": "TorchScript", "ts-eval": "TorchScript, evaluation",
	"dynamo-train": "torch.export", "dynamo": "default export", "steps-train": "torch.export"}

// measuredSets are folders of models that are not built in, each measured before anybody had worked on it, with exports:
// TorchScript's, torch.export's kept for training, and of the last two default ones.
var measuredSets = []string{"testdata/unseen", "testdata/lines", "testdata/further51", "testdata/further54",
	"testdata/further60a", "testdata/further60b", "testdata/published86", "testdata/published109", "testdata/published75",
	"testdata/published78"}

// imagesOf is how many images a query or pair has, of the models whose batch counts those.
var imagesOf = map[string]int64{"netvlad_vgg16": 7, "simclr_resnet18": 2, "supcon": 2}

// A cellRun is a run that is asked about, and what it took.
type cellRun struct {
	text                     string // what it is, without the graph
	mode, precision          string
	step                     Step
	allocated, reserved, smi int64 // bytes, of nvidia-smi too
	eitherEnd                bool  // of a race between two streams: which one was measured is not known
	options                  Options
}

// A cellGraph is a graph or recording and the runs of it.
type cellGraph struct {
	name, way string
	open      func() *onnxload.Model
	rec       func() *recording.Recording
	runs      []cellRun
}

// answer answers the runs that are taken.
func (g *cellGraph) answer(took func(string) bool) (all []*figure) {
	variants := []string{""}
	if g.rec == nil && g.open().Stacks != nil {
		variants = []string{withLines, stripped}
	} else if g.rec == nil && strings.Contains(g.way, "export") {
		variants = []string{stripped}
	}
	for _, v := range variants {
		name, way := g.name, g.way+v
		if v == stripped && len(variants) > 1 {
			name += stripped
		}
		if g.way == constructsWay {
			way = g.way
		}
		var bound *Model
		var batch int64
		for _, r := range g.runs {
			f := &figure{cellKey: cellKey{way, r.mode, r.precision}, name: name + ": " + r.text, measured: r.allocated,
				measuredReserved: r.reserved}
			if !took(f.name) {
				continue
			}
			all = append(all, f)
			var sim *Simulation
			var err error
			if g.rec != nil {
				sim, _, err = replayRecording(g.rec(), r.step)
			} else {
				if bound == nil || batch != r.options.Batch {
					m := g.open()
					if v == stripped {
						stripLines(m)
					}
					bound, err = Bind(m, r.options)
					batch = r.options.Batch
				}
				if err == nil {
					sim, err = r.simulate(bound)
				}
			}
			if err != nil {
				f.err, bound = strings.ReplaceAll(err.Error(), "\n", " "), nil
				continue
			}
			p := sim.Peak
			f.allocated, f.reserved, f.safe = fmt.Sprint(p.Allocated), fmt.Sprint(p.Reserved), fmt.Sprint(p.Safe)
			if f.device = r.smi; r.smi == 0 && r.reserved > 0 { // what the process takes beside is the same
				f.device = r.reserved + p.Device - p.Reserved
			}
		}
	}
	return all
}

// simulate simulates a run, of two ends of a race the one nearer to what was measured.
func (r *cellRun) simulate(b *Model) (*Simulation, error) {
	sim, err := b.Simulate(r.step)
	if err != nil || !r.eitherEnd {
		return sim, err
	}
	s := r.step
	s.late = true
	other, err := b.Simulate(s)
	if err == nil && math.Abs(rel(other.Peak.Allocated, r.allocated)) < math.Abs(rel(sim.Peak.Allocated, r.allocated)) {
		sim = other
	}
	return sim, err
}

// stripLines takes the lines of Python out of a graph.
func stripLines(m *onnxload.Model) {
	m.Stacks = nil
	for i := range m.Graph.Nodes {
		m.Graph.Nodes[i].Stack = 0
	}
}

// runOf is the run of a case.
func runOf(c measuredCase, builtIn bool) cellRun {
	mode := map[string]string{"train": "training", "infer": "inference"}[c.Mode]
	if c.Criterion == "own" && c.Mode == "train" {
		mode += " with a criterion that no flag names"
	}
	_, name, _ := strings.Cut(c.name(), " ") // without the model
	return cellRun{text: name, mode: mode, precision: c.DType, step: c.step(), allocated: c.PeakAlloc, reserved: c.PeakReserved,
		smi: c.SMI << 20, options: Options{Batch: c.Batch, BuiltIn: builtIn}}
}

// cellGraphs lists all that the table is made of.
func cellGraphs(t *testing.T) (all []cellGraph) {
	t.Helper()
	at := map[string]int{}
	add := func(dir, model, form string, r cellRun) {
		name := strings.TrimPrefix(dir, "testdata/") + "/" + model + "." + form
		i, ok := at[name]
		if !ok {
			i = len(all)
			at[name] = i
			way := formWays[form]
			if dir == "testdata/constructs" {
				way = constructsWay
			}
			all = append(all, cellGraph{name: name, way: way,
				open: func() *onnxload.Model { return openGraph(t, dir, model, form) }})
		}
		for _, other := range all[i].runs { // the same again is another measurement
			if strings.TrimRight(other.text, "'") == r.text {
				r.text += "'"
			}
		}
		all[i].runs = append(all[i].runs, r)
	}
	builtIn := func(model string, r cellRun) {
		info, err := models.Info(model)
		must.OK(t, err)
		for _, form := range info.Forms {
			add("", model, form, r)
		}
	}
	for _, c := range readCases(t, "testdata/truth/steps.json.gz") {
		builtIn(c.Model, runOf(c, true))
	}
	for _, c := range readVariants(t) {
		r := runOf(c.measuredCase, true)
		if r.step = c.step(); c.CapMiB == 0 && !c.OOM {
			r.text += " " + c.kind()
			add("", c.Model, formOf(c.Model), r)
		}
	}
	for _, c := range readBeyond(t, "testdata/beyond/beyond.json.gz") {
		scheme := c.scheme()
		if scheme == "" {
			continue
		}
		r := runOf(c.measuredCase, false)
		r.step.Plan = c.plan()
		plan, err := json.Marshal(r.step.Plan) // its fields may change, the names in JSON do not
		must.OK(t, err)
		r.mode, r.text = "training, part frozen, checkpointed or adapted", fmt.Sprintf("%s, %s %s", r.text, scheme, plan)
		if c.Parallel != "" {
			r.mode, r.eitherEnd = "training on two GPUs", c.Parallel != "fsdp2"
		}
		add("", c.Model, formOf(c.Model), r)
	}
	for _, dir := range measuredSets {
		for _, c := range readCases(t, dir+"/steps.json.gz") {
			c.Batch *= max(imagesOf[c.Model], 1)
			for _, form := range []string{"ts-train", "dynamo-train", "dynamo"} {
				if graphFileIn(dir, c.Model, form) != "" {
					add(dir, c.Model, form, runOf(c, false))
				}
			}
		}
	}
	for _, dir := range []string{"testdata/constructs", "testdata/constructs_published"} {
		addConstructs(t, dir, add)
	}
	return append(all, cellRecordings(t)...)
}

// addConstructs adds exports of modules with one construct of published code each, with what recordings of the same
// steps allocate: scripts/measure/constructs.py makes both. What they reserve is not kept.
func addConstructs(t *testing.T, dir string, add func(dir, model, form string, r cellRun)) {
	t.Helper()
	var recorded map[string]map[string]int64 // by model and mode: what is allocated at the peak
	testfile.JSON(t, dir+"/recorded.json", &recorded)
	files, err := filepath.Glob(dir + "/*.onnx.zst")
	if err != nil || len(files) < len(recorded) {
		t.Fatalf("%d exports of %d models, %v", len(files), len(recorded), err)
	}
	for _, file := range files {
		model, form, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".onnx.zst"), ".")
		for _, kind := range []string{"train", "infer", "amp"} {
			allocated := recorded[model][kind]
			if allocated == 0 && kind == "amp" {
				continue // recorded in float32 alone
			}
			mode, precision := "training", torch.FP32
			switch kind {
			case "infer":
				mode = "inference"
			case "amp":
				precision = torch.AMPBF16
			}
			add(dir, model, form, cellRun{text: mode + " " + string(precision), mode: mode, precision: string(precision),
				step:      Step{Settings: torch.Settings{Loss: "mean", Precision: precision}, Infer: kind == "infer"},
				allocated: allocated})
		}
	}
}

// cellRecordings are the recordings. What those of published runs took was measured on other GPUs, not so that it could
// be compared here.
func cellRecordings(t *testing.T) (all []cellGraph) {
	t.Helper()
	add := func(name string, r cellRun, rec func() *recording.Recording) {
		if r.mode == "" {
			r.mode, r.precision = "not measured", "-"
		}
		all = append(all, cellGraph{name: recordedWay + " " + name, way: recordedWay, rec: rec, runs: []cellRun{r}})
	}
	for _, c := range recordedCases(t) {
		r := runOf(c.measured.measuredCase, false)
		r.step = Step{AllocConf: c.measured.AllocConf, MemoryLimit: c.measured.CapMiB << 20}
		add(c.name, r, func() *recording.Recording { return openRecordingAt(t, c.file) })
	}
	for _, pattern := range []string{"testdata/searches/*.mrec", "testdata/beyond/*.mrec"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			add(filepath.Base(file), searchedRun(t, filepath.Base(file)),
				func() *recording.Recording { return openRecordingAt(t, file) })
		}
	}
	for _, file := range []string{"/tokens.tar.zst", "/others.tar.zst"} {
		steps := publishedSteps{of: packedRecordings(t, publishedGPUs+file)}
		for name := range steps.of {
			add(name, cellRun{text: "as recorded"}, func() *recording.Recording { return steps.read(t, name) })
		}
	}
	return all
}

// searchedRun is what was measured of a recording under cudnn.benchmark, with its largest step.
func searchedRun(t *testing.T, file string) cellRun {
	t.Helper()
	var index []map[string]any
	testfile.JSON(t, "testdata/searches/index.json", &index)
	for _, entry := range index {
		if entry["file"] != file {
			continue
		}
		for _, raw := range rawCases(t, "testdata/searches/steps.json.gz") {
			var c measuredCase
			must.OK(t, json.Unmarshal(raw, &c))
			if c.Model != entry["model"] || c.Mode != entry["mode"] || c.DType != entry["dtype"] || c.Opt != entry["opt"] ||
				float64(c.Batch) != entry["batch"] || bool(c.ChannelsLast) != (entry["channels_last"] == true) {
				continue
			}
			c.PeakAlloc, c.PeakReserved = 0, 0
			for _, s := range c.Steps {
				c.PeakReserved = max(c.PeakReserved, s["reserved"])
				for key, v := range s {
					if strings.HasPrefix(key, "peak") {
						c.PeakAlloc = max(c.PeakAlloc, v)
					}
				}
			}
			r := runOf(c, false)
			r.mode, r.step = r.mode+" under cudnn.benchmark", Step{}
			return r
		}
	}
	return cellRun{text: "as recorded"}
}
