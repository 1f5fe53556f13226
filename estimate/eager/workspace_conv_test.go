package eager

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"slices"
	"testing"
)

var (
	convWrite   = flag.Bool("conv.write", false, "write the forests that choose convolution workspaces")
	convHeldOut = flag.Bool("conv.heldout", false, "cross-validate the choice of convolution workspaces")
)

// A measuredConv is one convolution with the workspaces that cuDNN took, nil
// where the measurement did not see them.
type measuredConv struct {
	model  string
	shape  ConvShape
	passes [convPasses]*int64
}

func (m *measuredConv) UnmarshalJSON(b []byte) error {
	var last, transposed int
	err := json.Unmarshal(b, &[]any{&m.model, &m.shape.Elem, &last, &m.shape.X, &m.shape.W, &m.shape.Y, &m.shape.Stride,
		&m.shape.Dilation, &m.shape.Groups, &transposed, &m.passes[0], &m.passes[1], &m.passes[2]})
	m.shape.ChannelsLast, m.shape.Transposed = last != 0, transposed != 0
	return err
}

func readData(t testing.TB, path string, v any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(v); err != nil {
		t.Fatal(err)
	}
}

// near says whether a prediction is within 10 %, or within the 8 KiB that
// decide nothing.
func near(got, want int64) bool { return nearConv(got, want, 0.1) }

// readConvSamples reads the measured passes. All of a convolution's, at whatever batch,
// and all that a model brought first are in one fold.
func readConvSamples(t testing.TB) (samples []*convSample) {
	var file struct{ Rows []measuredConv }
	readData(t, "testdata/convolutions.json.gz", &file)
	fold := func(s string) int {
		h := fnv.New32a()
		io.WriteString(h, s)
		return int(h.Sum32()>>8) % convFolds
	}
	key := func(m *measuredConv) string {
		return fmt.Sprint(m.shape.X[1:], m.shape.W, m.shape.Y[1:], m.shape.Stride, m.shape.Dilation, m.shape.Groups, m.shape.Transposed)
	}
	natives, taking := 0, 0
	folds := map[string]int{}
	for i := range file.Rows {
		if m := &file.Rows[i]; m.model != "" {
			if _, ok := folds[key(m)]; !ok {
				folds[key(m)] = fold(m.model)
			}
		}
	}
	for i := range file.Rows {
		m := &file.Rows[i]
		at, ok := folds[key(m)]
		if !ok {
			at = fold(key(m))
		}
		for pass, want := range m.passes {
			if want == nil {
				continue
			}
			w, ok := m.shape.work(ConvPass(pass))
			if !ok {
				t.Fatalf("row %d is no convolution", i)
			}
			if w.native() {
				natives++
				if *want > 8192 {
					taking++
				}
				continue
			}
			s := &convSample{model: m.model, fold: at, shape: m.shape, pass: ConvPass(pass), work: w, figures: w.features(), want: *want}
			s.weight = 4 + min(s.tensors()>>23, 16)
			samples = append(samples, s)
		}
	}
	if taking > 3 { // in float16, where cuDNN runs some
		t.Errorf("%d of %d native passes take a workspace", taking, natives)
	}
	return samples
}

// tensors is x + y + w.
func (s *convSample) tensors() int64 { return s.work.in + s.work.out + s.work.weight }

// chosen returns the workspace that the forest chooses, and whether some of its trees comes near.
func (s *convSample) chosen() (bytes int64, any bool) {
	f := convForests().of(&s.work)
	leaves, _ := f.votes(s.figures)
	for _, e := range leaves[:len(f.trees)] {
		any = any || near(s.work.bytes(f.engines[e]), s.want)
	}
	return s.shape.Workspace(s.pass), any
}

func (s *convSample) kind() string {
	return [2]string{"fp32", "16-bit"}[b2i(s.work.elem == 2)] + [2]string{" row-major", " channels-last"}[b2i(s.work.last)] +
		[convPasses]string{" y", " gradient of x", " gradient of w"}[s.work.pass]
}

// tally counts how many predictions are near, and what they are off by as a share
// of the convolution's own tensors.
type tally struct {
	n, near, exact, any int
	exactLarge          int64
	weight, right       int64
	off, bias           float64
}

func (a *tally) add(s *convSample, got int64, any bool) {
	a.n++
	a.weight += s.weight
	if near(got, s.want) {
		a.near++
		a.right += s.weight
	}
	if nearConv(got, s.want, 0.001) {
		a.exact++
		a.exactLarge += s.weight
	}
	a.any += b2i(any)
	all := float64(s.tensors())
	a.off += math.Abs(float64(got-s.want)) / all
	a.bias += float64(got-s.want) / all
}

func (a *tally) share() float64 { return float64(a.near) / float64(a.n) }

func (a *tally) String() string {
	n := float64(a.n)
	return fmt.Sprintf("%5d, within 10 %%: %5.1f %% (large ones first %5.1f %%), within 0.1 %%: %5.1f %% (%5.1f %%), some tree within 10 %%: %5.1f %%, off %5.1f %%, bias %+5.1f %% of x+y+w",
		a.n, 100*a.share(), 100*float64(a.right)/float64(a.weight), 100*float64(a.exact)/n, 100*float64(a.exactLarge)/float64(a.weight), 100*float64(a.any)/n, 100*a.off/n, 100*a.bias/n)
}

// The embedded forests are those that grow from the measurements.
func TestConvForests(t *testing.T) {
	if testing.Short() {
		t.Skip("grows all forests")
	}
	samples := readConvSamples(t)
	grown := growConvForests(samples, func(*convSample) bool { return true }).encode()
	close, exact := 0, 0
	for _, s := range samples {
		close += b2i(s.hits != 0)
		exact += b2i(s.exact != 0)
	}
	t.Logf("some engine gives %.1f %% of %d sizes within 10 %%, %.1f %% within 8 KiB", 100*float64(close)/float64(len(samples)), len(samples), 100*float64(exact)/float64(len(samples)))
	if float64(close) < 0.97*float64(len(samples)) {
		t.Error("the engines' formulas give less than 97 % of what was measured")
	}
	if *convWrite {
		if err := os.WriteFile("workspace_conv_forest.bin", grown, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d bytes", len(grown))
		return
	}
	if !bytes.Equal(convForests().encode(), grown) {
		t.Error("workspace_conv_forest.bin is not what grows from the measurements: run go test -run TestConvForests -conv.write")
	}
}

// The forests, on convolutions and models that they have not grown on.
func TestConvHeldOut(t *testing.T) {
	if !*convHeldOut {
		t.Skip("without -conv.heldout")
	}
	samples := readConvSamples(t)
	models, random := map[string]*tally{}, map[string]*tally{}
	var all tally
	for fold := range convFolds {
		table := growConvForests(samples, func(s *convSample) bool { return s.fold != fold })
		saved := convForests
		convForests = func() *convTable { return table }
		for _, s := range samples {
			if s.fold == fold {
				by := models
				if s.model == "" {
					by = random
				}
				got, any := s.chosen()
				add(by, s, got, any)
				all.add(s, got, any)
			}
		}
		convForests = saved
	}
	report(t, "models", models)
	report(t, "random shapes", random)
	t.Logf("all: %s", &all)
}

func add(by map[string]*tally, s *convSample, got int64, any bool) {
	if by[s.kind()] == nil {
		by[s.kind()] = &tally{}
	}
	by[s.kind()].add(s, got, any)
}

func report(t *testing.T, title string, by map[string]*tally) {
	kinds := make([]string, 0, len(by))
	for k := range by {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		t.Logf("%s, %-36s %s", title, k, by[k])
	}
}

// The forests reproduce what they have grown on, this well and no worse. What counts
// are the held-out figures in docs/workspaces.md.
func TestConvWorkspaces(t *testing.T) {
	models, random := map[string]*tally{}, map[string]*tally{}
	var all tally
	for _, s := range readConvSamples(t) {
		by := models
		if s.model == "" {
			by = random
		}
		got, any := s.chosen()
		add(by, s, got, any)
		all.add(s, got, any)
	}
	report(t, "models", models)
	report(t, "random shapes", random)
	for _, by := range []map[string]*tally{models, random} {
		for k, v := range by {
			if v.share() < 0.9 {
				t.Errorf("%s: within 10 %% for %.3f", k, v.share())
			}
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Nonsense must not panic or overflow; what is no convolution takes nothing.
func TestConvWorkspaceNonsense(t *testing.T) {
	passes := []ConvPass{ConvForward, ConvBackwardInput, ConvBackwardWeight}
	for _, s := range []ConvShape{
		{},
		{Elem: 4, X: []int64{1, 2}, W: []int64{1, 2}, Y: []int64{1, 2}, Groups: 1},
		{Elem: 4, X: []int64{1, 2, 0}, W: []int64{1, 2, 3}, Y: []int64{1, 2, 3}, Groups: 1},
		{Elem: 4, X: []int64{1, 2, 3}, W: []int64{1, 2, 3}, Y: []int64{1, 2, 3}},
	} {
		for _, p := range passes {
			if s.Workspace(p) != 0 {
				t.Errorf("%+v takes a workspace", s)
			}
		}
	}
	const huge = int64(1) << 62
	for _, groups := range []int64{1, 2, huge} {
		for _, last := range []bool{false, true} {
			s := ConvShape{Elem: 2, ChannelsLast: last, X: []int64{huge, huge, huge, 7}, W: []int64{huge, 5, huge, 7}, Y: []int64{huge, huge, huge, 7}, Groups: groups}
			for _, p := range passes {
				if plan := s.planned(p, 5); plan.bytes < 0 || slices.Min(plan.others[:]) < 0 {
					t.Errorf("%+v takes %d, or else %v", s, plan.bytes, plan.others)
				}
			}
			for _, e := range possibleEngines() {
				if w, _ := s.work(ConvBackwardWeight); w.bytes(e) < 0 || w.bytes(e) > convMaximum {
					t.Errorf("%+v: %+v takes %d", s, e, w.bytes(e))
				}
			}
		}
	}
}

// A damaged file must not panic.
func TestConvForestDamaged(t *testing.T) {
	b := convForests().encode()
	for n := 0; n < len(b); n += 1 + len(b)/100 {
		if new(convTable).split(b[:n]) {
			t.Errorf("%d of %d bytes are taken for all", n, len(b))
		}
	}
	whole := new(convTable)
	if !whole.split(b) {
		t.Fatal("the forests are not read")
	}
	for i := range whole[0][0] {
		part := whole[0][0][i].file
		for n := 0; n < len(part); n += 1 + len(part)/30 {
			if new(convForest).decode(part[:n]) {
				t.Errorf("forest %d: %d of %d bytes are taken for all", i, n, len(part))
			}
		}
		if !new(convForest).decode(part) {
			t.Errorf("forest %d is not read", i)
		}
	}
}

func BenchmarkConvWorkspace(b *testing.B) {
	samples := readConvSamples(b)
	convForests()
	b.ResetTimer()
	for i := range b.N {
		s := samples[i%len(samples)]
		s.shape.Workspace(s.pass)
	}
}

// The other choices of a plan are those of different trees, and the same as the workspace where all trees agree.
func TestOtherWorkspaces(t *testing.T) {
	agree, differ := 0, 0
	for i, s := range readConvSamples(t) {
		if i%20 != 0 {
			continue
		}
		f := convForests().of(&s.work)
		leaves, _ := f.votes(s.figures)
		possible := map[int64]bool{}
		for _, e := range leaves[:len(f.trees)] {
			possible[s.work.bytes(f.engines[e])] = true
		}
		plan := s.shape.planned(s.pass, i)
		for _, other := range plan.others {
			if !possible[other] {
				t.Fatalf("%+v: no tree chooses %d", s.shape, other)
			}
			if other == plan.bytes {
				agree++
			} else {
				differ++
			}
		}
		if len(possible) == 1 && slices.Max(plan.others[:]) != plan.bytes {
			t.Fatalf("%+v takes %d, and all trees agree, but others are %v", s.shape, plan.bytes, plan.others)
		}
	}
	if agree == 0 || differ == 0 {
		t.Errorf("%d choices are the same, %d others", agree, differ)
	}
}
