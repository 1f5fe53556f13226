package kernels

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/testfile"
)

// A measuredOp is an operator with the allocations that its passes made.
type measuredOp struct {
	Op, DType, Layout string
	X, W              []int64
	N                 int64
	Hidden, Layers    int64
	Bi                bool
	Dropout           float64
	Fwd, Bwd          []int64
}

func measuredOps(t *testing.T, ops ...string) []measuredOp {
	var file struct{ Rows []measuredOp }
	testfile.JSON(t, "testdata/operators.json.gz", &file)
	rows := slices.DeleteFunc(file.Rows, func(m measuredOp) bool { return !slices.Contains(ops, m.Op) })
	if len(rows) == 0 {
		t.Fatalf("no measurements of %q", ops)
	}
	return rows
}

func (m *measuredOp) elem() int64 {
	if m.DType == "fp32" {
		return 4
	}
	return 2
}

// The gradients of a layer's weights are one block.
func TestRNNWeights(t *testing.T) {
	kinds := map[string]RNNKind{"lstm": LSTM, "gru": GRU, "rnn": ElmanRNN}
	for _, m := range measuredOps(t, "lstm", "gru", "rnn") {
		s := RNNShape{Kind: kinds[m.Op], Elem: m.elem(), Batch: m.X[0], Steps: m.X[1], Input: m.X[2], Hidden: m.Hidden,
			Layers: m.Layers, Both: m.Bi, Dropout: m.Dropout > 0}
		if !slices.Contains(m.Bwd, s.WeightBytes()) {
			t.Errorf("%+v: weights of %d bytes are not among the gradients", s, s.WeightBytes())
		}
	}
}

// sizesOf lists what a script takes and makes, of one result, and less than 0 what it gives back.
func sizesOf(s Script, result int64) (sizes []int64) {
	var taken []int64
	for _, step := range s {
		bytes := result
		switch step.Do {
		case Take:
			bytes = step.Bytes
			taken = append(taken, bytes)
		case Keep:
			bytes = step.Bytes
		case Give:
			bytes = -taken[step.Which]
		}
		if bytes != 0 {
			sizes = append(sizes, bytes)
		}
	}
	return sizes
}

// The temporaries of sorting are exact, so every event of these backward passes is.
func TestSortedGradients(t *testing.T) {
	exact, n := 0, 0
	for _, m := range measuredOps(t, "embedding", "index_put") {
		v, d, ids := m.W[0], m.W[1], m.N
		var want []int64
		if m.Op == "index_put" {
			want = append([]int64{4 * v * d}, sizesOf(IndexPut(ids, v, 0), 0)...)
		} else {
			want = sizesOf(EmbeddingBackward(ids, v, d, 4, gpu.Default()), 4*v*d)
		}
		n++
		if slices.Equal(m.Bwd, want) {
			exact++
		} else {
			t.Logf("%s %v of %d: %v, measured %v", m.Op, m.W, ids, want, m.Bwd)
		}
	}
	t.Logf("%d of %d backward passes are exact", exact, n)
	if exact < n {
		t.Error("too few")
	}
}

func TestBatchNormScratch(t *testing.T) {
	for _, m := range measuredOps(t, "batch_norm") {
		if m.Layout != "nhwc" {
			continue
		}
		channels := m.X[1]
		rows := m.X[0] * m.X[2] * m.X[3]
		if m.DType == "fp32" {
			// Other numbers of channels are within some KiB, which decide nothing.
			for _, p := range []struct {
				backward bool
				got      []int64
			}{{false, m.Fwd}, {true, m.Bwd}} {
				if want := batchNormWorkspace(rows*channels, channels, p.backward); channels >= 64 && channels <= 512 &&
					p.got[3] != want {
					t.Errorf("%v: workspace %d, measured %d", m.X, want, p.got[3])
				}
			}
			continue
		}
		staging, semaphores := batchNormStaging(rows, channels)
		want := []int64{2 * rows * channels, 4 * channels, 4 * channels}
		if staging > 0 {
			want = append(want, staging, semaphores, -semaphores, -staging)
		}
		if !slices.Equal(m.Fwd, want) {
			t.Errorf("%v %s forward: %v, measured %v", m.X, m.DType, want, m.Fwd)
		}
		if staging > 0 && !slices.Contains(m.Bwd, staging/2) {
			t.Errorf("%v %s backward: no staging of %d in %v", m.X, m.DType, staging/2, m.Bwd)
		}
	}
}

// Layer norm takes nothing up to 65,536 rows; the figure for 100,352 x 96 is that
// of a measured training step of swin_t: 1,204,224 bytes for each parameter.
func TestLayerNormPartials(t *testing.T) {
	for _, m := range measuredOps(t, "layer_norm", "rms_norm") {
		if p := layerNormPartials(m.X[0], m.X[1], gpu.Default().Multiprocessors); p != 0 {
			t.Errorf("%v: %d rows of partial sums, measured none", m.X, p)
		}
	}
	if p := layerNormPartials(100352, 96, gpu.Default().Multiprocessors); p*96*4 != 1204224 {
		t.Errorf("100352 x 96: %d rows of partial sums", p)
	}
	if p := layerNormPartials(1<<40, 96, gpu.Default().Multiprocessors); p != 32768/3 {
		t.Errorf("very tall: %d rows of partial sums", p)
	}
}

// The memory-efficient backward pass accumulates the queries' gradients, however many keys there are: the tiles of 64
// rows and their locks. Measured of queries of 64 x 64 pixels to keys of 8 x 8, of 16 heads of 32.
func TestEfficientWorkspace(t *testing.T) {
	for _, c := range []struct{ heads, queries, d, want int64 }{{16, 4096, 32, 16793600}, {32, 1024, 32, 8396800},
		{80, 256, 32, 5248000}} {
		if got := efficientWorkspace(c.heads, c.queries, c.d); got != c.want {
			t.Errorf("%d heads of %d queries: %d bytes, want %d", c.heads, c.queries, got, c.want)
		}
	}
}
