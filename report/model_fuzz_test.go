package report_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// What one execution may take: far more than any does, on a computer that does much else.
const (
	longest    = 20 * time.Second
	allocation = 512 << 20 // bytes in all, of which most are garbage soon
)

// graphs are what mutants are made of: the smaller built-in graphs, and ONNX's operator tests, whose archives
// MEMESTIMATE_CORPUS has in a folder where the source is not at hand.
var graphs = sync.OnceValues(func() (all [][]byte, err error) {
	for _, name := range models.Names() {
		info, err := models.Info(name)
		if err != nil {
			return nil, err
		}
		for _, form := range info.Forms {
			b, err := models.Open(name + ":" + form)
			if err != nil {
				return nil, err
			}
			if len(b) < 40<<10 {
				all = append(all, b)
			}
		}
	}
	small := len(all)
	folder := cmp.Or(os.Getenv("MEMESTIMATE_CORPUS"), "../estimate/shape/testdata")
	err = onnxtest.Archives(filepath.Join(folder, "onnx-nodes*.tar.gz"), func(_ string, b []byte) {
		if len(b) < 16<<10 {
			all = append(all, b)
		}
	})
	for i := range small { // a graph of a whole model is worth ten tests of one operator
		for range 10 {
			all = append(all, all[i])
		}
	}
	return all, err
})

// mutant makes a model out of others: fields that change, and fields of another model.
func mutant(rng *rand.Rand, raw, other []byte) []byte {
	if rng.IntN(3) == 0 {
		raw = onnxtest.Cross(rng, raw, other)
	}
	if rng.IntN(4) > 0 {
		raw = onnxtest.Mutate(rng, raw)
	}
	return raw
}

// asked are settings that a mutant is estimated under.
func asked(rng *rand.Rand) (estimate.Options, *estimate.Step) {
	pick := func(names ...string) string { return names[rng.IntN(len(names))] }
	seldom := func(what string) string { // mostly ""
		if rng.IntN(8) > 0 {
			return ""
		}
		return what
	}
	s := &estimate.Step{Infer: rng.IntN(3) == 0, Settings: torch.Settings{
		Precision: torch.Precisions[rng.IntN(len(torch.Precisions))], ChannelsLast: rng.IntN(4) == 0,
		Optimizer: pick("", "sgd", "sgdm", "adam", "adafactor", "rmsprop"),
		Loss:      pick("", "", "mse", "mean", "cross-entropy"),
		ClipNorm:  rng.IntN(6) == 0, ZeroGrads: rng.IntN(6) == 0, ForLoop: rng.IntN(6) == 0, Scaler: rng.IntN(12) == 0,
		DropOutput: rng.IntN(8) == 0, Accumulate: max(0, rng.IntN(16)-13), Benchmark: rng.IntN(8) == 0,
	}}
	if rng.IntN(3) == 0 {
		s.Plan = program.Plan{Freeze: seldom(pick(".", "0|1")), Checkpoint: seldom(program.Blocks),
			LoRA: seldom("r=8,targets=."), Compile: rng.IntN(8) == 0, MetaDevice: rng.IntN(16) == 0}
		if rng.IntN(2) == 0 {
			s.Plan.GPUs, s.Plan.Parallel = 2<<rng.IntN(6), pick(program.Schemes...)
			switch s.Plan.Parallel {
			case program.FSDP:
				s.Plan.Shard, s.Plan.NoReshard = seldom(pick(program.Blocks, program.Whole)), rng.IntN(4) == 0
				s.Plan.ParamDType, s.Plan.ReduceDType = seldom(pick(program.DTypes...)), seldom(pick(program.DTypes...))
			case program.DDP:
				s.Plan.View, s.Plan.Bucket = rng.IntN(4) == 0, int64(rng.IntN(3))<<20
			}
		}
	}
	if rng.IntN(8) == 0 {
		s.AllocConf = pick("expandable_segments:True", "max_split_size_mb:32", "roundup_power2_divisions:4")
	}
	if rng.IntN(8) == 0 {
		s.MemoryLimit = int64(1) << (20 + rng.IntN(14))
	}
	return estimate.Options{Name: "mutant", Batch: int64(rng.IntN(4)), Dims: map[string]int64{},
		Weigh: rng.IntN(16) == 0, Strict: rng.IntN(16) == 0}, s
}

// execute runs the whole of reading, shapes, recovery, step and report, and returns what is wrong with the outcome, ""
// for nothing. ran says that there was a step.
func execute(rng *rand.Rand, raw []byte) (wrong string, ran bool) {
	defer func() {
		if p := recover(); p != nil {
			wrong = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	opt, step := asked(rng)
	form := rng.IntN(len(forms))
	twice := rng.IntN(8) == 0
	first, r, wrong := answer(raw, opt, step, form)
	if wrong != "" || r == nil {
		return wrong, false
	}
	if twice {
		second, _, _ := answer(raw, opt, step, form)
		if !bytes.Equal(first, second) {
			return "another answer the second time", true
		}
	}
	return "", r.Peak != nil
}

// answer estimates a model, and writes the report. A model that is refused has no report; the error must be one line.
func answer(raw []byte, opt estimate.Options, step *estimate.Step, form int) ([]byte, *estimate.Report, string) {
	m, err := onnxload.Read(bytes.NewReader(raw), int64(len(raw)),
		onnxload.Options{Path: "m.onnx", Limits: onnxload.Limits{Nodes: 10_000}})
	if err != nil {
		return nil, nil, line(err)
	}
	bound, err := estimate.Bind(m, opt)
	var open *estimate.UnboundError
	for try := 0; try < 3 && errors.As(err, &open); try++ {
		for _, d := range open.Dims {
			if d.Name != "" {
				opt.Dims[d.Name] = 2
			}
		}
		bound, err = estimate.Bind(m, opt)
	}
	if err != nil && opt.Batch > 0 && open == nil { // most have no batch dimension
		if wrong := line(err); wrong != "" {
			return nil, nil, wrong
		}
		opt.Batch = 0
		bound, err = estimate.Bind(m, opt)
	}
	if err != nil {
		return nil, nil, line(err)
	}
	opt.Step = step
	r, err := bound.Report(opt)
	if err != nil {
		return nil, nil, line(err)
	}
	types, err := shape.Infer(m, shape.Options{Batch: opt.Batch, Dims: opt.Dims})
	switch _, fixed := errors.AsType[*shape.BindError](err); {
	case fixed && opt.Batch > 0: // the model was rescaled, which shape inference alone does not do
	case err != nil:
		return nil, nil, "the estimate has an answer, shapes has none: " + err.Error()
	default:
		if wrong := agree(m, types, r); wrong != "" {
			return nil, nil, wrong
		}
	}
	if wrong := sound(r, step.Plan, doubles(m)); wrong != "" {
		return nil, nil, wrong
	}
	out, wrong := written(r, form)
	return out, r, wrong
}

// doubles is how many bytes of float64 a graph has as its weights, at most.
func doubles(m *onnxload.Model) (bytes int64) {
	add := func(t *onnxload.Tensor) {
		if t.DType == onnxload.Float64 {
			bytes += 8 * program.Numel(t.Dims)
		}
	}
	for _, id := range m.Graph.Inits {
		add(m.Values[id].Init)
	}
	for i := range m.Graph.Nodes {
		for k := range m.Graph.Nodes[i].Attrs {
			for _, t := range m.Graph.Nodes[i].Attrs[k].Tensors {
				add(t)
			}
		}
	}
	return bytes
}

// forms are those that a report is written in.
var forms = []func(io.Writer, *estimate.Report) error{
	func(w io.Writer, r *estimate.Report) error { return report.JSON(w, r) }, report.Markdown, report.CSV,
	func(w io.Writer, r *estimate.Report) error { return report.Text(w, r, 80) }}

// written is a report in one of the forms.
func written(r *estimate.Report, form int) ([]byte, string) {
	var out bytes.Buffer
	if err := forms[form](&out, r); err != nil {
		return nil, line(err)
	}
	if i := bytes.IndexFunc(out.Bytes(), func(c rune) bool { return c < ' ' && c != '\n' }); i >= 0 {
		return nil, fmt.Sprintf("the report has the control character %q", out.Bytes()[i])
	}
	return out.Bytes(), ""
}

// line says what is wrong with a message of an error. The symbols of a shape are not quoted in it: who prints it
// cleans it.
func line(err error) string {
	s := err.Error()
	if _, ok := errors.AsType[*shape.NodeError](err); ok {
		s = report.Clean(s)
	}
	if s == "" || strings.ContainsAny(s, "\n\r\x1b") {
		return fmt.Sprintf("the error is not one line: %q", s)
	}
	return ""
}

// agree holds the report's tensors against the inferred types.
func agree(m *onnxload.Model, types *shape.Result, r *estimate.Report) string {
	at := make(map[string]onnxload.ValueID, len(m.Values))
	for i := range m.Values {
		if name := m.Values[i].Name; name != "" {
			if _, twice := at[name]; twice {
				at[name] = onnxload.NoValue // in a subgraph too: which one a layer means is not said
			} else {
				at[name] = onnxload.ValueID(i)
			}
		}
	}
	tensors := slices.Concat(r.Model.Inputs, r.Model.Outputs)
	for i := range r.Layers {
		tensors = append(tensors, r.Layers[i].Outputs...)
	}
	for _, x := range tensors {
		id, ok := at[x.Name]
		if !ok || id == onnxload.NoValue || x.Shape == nil {
			continue
		}
		if wrong := sameShape(x, types.Type(id)); wrong != "" {
			return wrong
		}
	}
	return ""
}

func sameShape(x module.Tensor, t shape.Type) string {
	if t.Kind != onnxload.TensorType {
		return ""
	}
	same := (t.Elem == onnxload.Undefined || x.DType == t.Elem.String()) &&
		(!t.Shape.Ranked || len(t.Shape.Dims) == len(x.Shape))
	for i, d := range t.Shape.Dims {
		n, known := d.Int() // what depends on data is taken as large as it can be
		same = same && (!known || n == x.Shape[i])
	}
	if !same {
		return fmt.Sprintf("the estimate has %q as %s%v, shapes as %v", x.Name, x.DType, x.Shape, t)
	}
	return ""
}

// sound says what of a report cannot be. So many bytes of the weights are of float64.
func sound(r *estimate.Report, plan program.Plan, doubles int64) string {
	sizes := map[string]int64{
		"parameters": r.Parameters.Bytes, "parameters' count": r.Parameters.Count, "buffers": r.Buffers.Bytes,
		"constants": r.Constants.Bytes, "activations": r.Activations.Forward, "with backward": r.Activations.WithBackward,
		"saved": r.Activations.Saved, "context": r.Context,
	}
	for i := range r.Layers {
		l := &r.Layers[i]
		for what, n := range map[string]int64{"parameters": l.Params, "bytes": l.ParamBytes, "activation": l.Activation,
			"saved": l.SavedBytes} {
			if n < 0 {
				return fmt.Sprintf("layer %q: %s of %d", l.Name, what, n)
			}
		}
	}
	for _, p := range r.Phases {
		sizes["phase "+p.Name] = min(p.End, p.Peak, p.Peak-p.End)
	}
	for _, n := range r.Notes {
		if strings.Contains(n.Text, "replay: ") {
			return "the run asks for what no run can: " + n.Text
		}
	}
	p := r.Peak
	if p != nil {
		sizes["peak"], sizes["reserved"], sizes["device"] = p.Allocated, p.Reserved, p.Device
		sum := int64(0)
		for category, n := range p.ByCategory {
			sizes["at the peak "+category] = n
			sum += n
		}
		for _, x := range p.Live {
			sizes["live "+x.Category] = min(x.Bytes, int64(x.Tensors))
		}
		// The program takes float64 parameters for float32. FSDP has a part of them on each GPU.
		counted := min(r.Parameters.Bytes-min(doubles, r.Parameters.Bytes)/2, 4*r.Parameters.Count)
		whole := r.Settings.Precision == torch.FP32 && r.OOM == nil && slices.Contains(
			[]string{"", program.DDP, program.ZeRO1}, plan.Parallel)
		parameters := p.ByCategory[timeline.Parameter.String()]
		switch held := parameters + p.ByCategory[timeline.Buffer.String()]; {
		case sum != p.Allocated:
			return fmt.Sprintf("the categories at the peak are %d bytes, allocated are %d", sum, p.Allocated)
		case p.Allocated < held:
			return fmt.Sprintf("a peak of %d bytes is less than the %d of the parameters", p.Allocated, held)
		case whole && parameters < counted:
			return fmt.Sprintf("parameters of %d bytes at the peak, counted are %d", parameters, counted)
		case p.Reserved < p.Allocated || p.Device < p.Reserved || p.UpperBound < p.Device:
			return fmt.Sprintf("not in order: allocated %d, reserved %d, device %d, at most %d", p.Allocated, p.Reserved,
				p.Device, p.UpperBound)
		}
	}
	for what, n := range sizes {
		if n < 0 {
			return fmt.Sprintf("%s of %d bytes", what, n)
		}
	}
	return ""
}

// FuzzModel changes and crosses models field by field, and estimates what comes out: no panic, no size below zero or
// beyond 64 bits, a peak that holds the parameters, bounds in their order, shapes that agree, one answer to one
// question, in time and memory that are bounded.
func FuzzModel(f *testing.F) {
	all, err := graphs()
	if err != nil {
		f.Fatal(err)
	}
	kept, err := keptInputs()
	if err != nil {
		f.Fatal(err)
	}
	for _, x := range slices.Concat(plainInputs(all), kept) {
		f.Add(x.raw, x.other, x.seed)
	}
	f.Fuzz(func(t *testing.T, raw []byte, other uint16, seed uint64) {
		if len(raw) > 64<<10 {
			t.Skip("larger than what one wants to wait for")
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		if wrong := (modelInput{raw, other, seed}).run(all); wrong != "" {
			t.Error(wrong)
		}
		if took := time.Since(start); took > longest {
			t.Errorf("took %v", took)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > allocation {
			t.Errorf("%d bytes allocated for %d", n, len(raw))
		}
	})
}
