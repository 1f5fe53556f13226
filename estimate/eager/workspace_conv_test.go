package eager

import (
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

// A measuredConv is one convolution with the workspaces that cuDNN took, nil
// where the measurement did not see them.
type measuredConv struct {
	model               string
	shape               ConvShape
	forward, data, grad *int64
}

func (m *measuredConv) UnmarshalJSON(b []byte) error {
	var last, transposed int
	err := json.Unmarshal(b, &[]any{&m.model, &m.shape.Elem, &last, &m.shape.X, &m.shape.W, &m.shape.Y, &m.shape.Stride,
		&m.shape.Dilation, &m.shape.Groups, &transposed, &m.forward, &m.data, &m.grad})
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
func near(got, want int64) bool {
	return math.Abs(float64(got-want)) <= max(0.1*float64(want), 8192)
}

// tally counts how many predictions are near, and what they are off by as a share
// of the convolution's own tensors.
type tally struct {
	n, near int
	off     []float64
}

func (a *tally) add(got, want, tensors int64) {
	a.n++
	if near(got, want) {
		a.near++
	}
	a.off = append(a.off, math.Abs(float64(got-want))/float64(tensors))
}

func (a *tally) share() float64 { return float64(a.near) / float64(a.n) }

func (a *tally) mean() float64 {
	sum := 0.0
	for _, v := range a.off {
		sum += v
	}
	return sum / float64(len(a.off))
}

// The fit reproduces what was measured, this well and no worse. The held-out
// figures are in docs/workspaces.md.
func TestConvWorkspaces(t *testing.T) {
	var file struct{ Rows []measuredConv }
	readData(t, "testdata/convolutions.json.gz", &file)
	type pass struct {
		name    string
		want    func(*measuredConv) *int64
		predict func(ConvShape) int64
		least   [2]float64 // shares within 10 %: random shapes, models
	}
	passes := []pass{
		{"forward", func(m *measuredConv) *int64 { return m.forward }, ConvShape.ForwardWorkspace, [2]float64{0.89, 0.91}},
		{"gradient of x", func(m *measuredConv) *int64 { return m.data }, ConvShape.DataWorkspace, [2]float64{0.905, 0.94}},
		{"gradient of w", func(m *measuredConv) *int64 { return m.grad }, ConvShape.WeightWorkspace, [2]float64{0.77, 0.895}},
	}
	over, all := 0, 0
	for _, p := range passes {
		byKind := map[string]*tally{}
		var source [2]tally
		for i := range file.Rows {
			m := &file.Rows[i]
			want := p.want(m)
			if want == nil {
				continue
			}
			f, ok := m.shape.facts(false)
			if !ok {
				t.Fatalf("row %d is no convolution", i)
			}
			got := p.predict(m.shape)
			tensors := f.inBytes + f.outBytes + f.weightBytes
			kind := "dense"
			if m.shape.depthwise() {
				kind = "depthwise"
			} else if f.groups > 1 {
				kind = "grouped"
			}
			kind += [2]string{" row-major", " channels-last"}[b2i(f.channelsLast)] + [2]string{" fp32", " 16-bit"}[b2i(f.half)]
			if byKind[kind] == nil {
				byKind[kind] = &tally{}
			}
			byKind[kind].add(got, *want, tensors)
			source[b2i(m.model != "")].add(got, *want, tensors)
			all++
			if m.shape.WorkspaceBound() < *want {
				over++
			}
		}
		for i, s := range source {
			t.Logf("%s, %s: %d, within 10 %% %.1f %%, mean error %.1f %% of x+y+w", p.name, [2]string{"random shapes", "models"}[i], s.n, 100*s.share(), 100*s.mean())
			if s.share() < p.least[i] {
				t.Errorf("%s: within 10 %% for %.3f, want %.3f", p.name, s.share(), p.least[i])
			}
		}
		kinds := make([]string, 0, len(byKind))
		for k := range byKind {
			kinds = append(kinds, k)
		}
		slices.Sort(kinds)
		for _, k := range kinds {
			t.Logf("   %-35s %4d, within 10 %% %5.1f %%, mean error %.1f %% of x+y+w", k, byKind[k].n, 100*byKind[k].share(), 100*byKind[k].mean())
		}
	}
	if share := float64(over) / float64(all); share > 0.01 {
		t.Errorf("%d of %d workspaces are above the bound", over, all)
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
	for _, s := range []ConvShape{
		{},
		{Elem: 4, X: []int64{1, 2}, W: []int64{1, 2}, Y: []int64{1, 2}, Groups: 1},
		{Elem: 4, X: []int64{1, 2, 0}, W: []int64{1, 2, 3}, Y: []int64{1, 2, 3}, Groups: 1},
		{Elem: 4, X: []int64{1, 2, 3}, W: []int64{1, 2, 3}, Y: []int64{1, 2, 3}},
	} {
		if s.ForwardWorkspace() != 0 || s.DataWorkspace() != 0 || s.WeightWorkspace() != 0 || s.WorkspaceBound() != 0 {
			t.Errorf("%+v takes a workspace", s)
		}
	}
	const huge = int64(1) << 62
	for _, groups := range []int64{1, 2, huge} {
		for _, last := range []bool{false, true} {
			s := ConvShape{Elem: 2, ChannelsLast: last, X: []int64{huge, huge, huge, 7}, W: []int64{huge, 5, huge, 7}, Y: []int64{huge, huge, huge, 7}, Groups: groups}
			for _, n := range []int64{s.ForwardWorkspace(), s.DataWorkspace(), s.WeightWorkspace(), s.WorkspaceBound()} {
				if n < 0 {
					t.Errorf("%+v takes %d", s, n)
				}
			}
		}
	}
}
