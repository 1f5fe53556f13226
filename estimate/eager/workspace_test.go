package eager

import (
	"math"
	"math/bits"
	"slices"
	"testing"
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
	readData(t, "testdata/operators.json.gz", &file)
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

func TestRNNSizes(t *testing.T) {
	kinds := map[string]RNNKind{"lstm": LSTM, "gru": GRU, "rnn": ElmanRNN}
	n, reserve, weights, workspace := 0, 0, 0, 0
	for _, m := range measuredOps(t, "lstm", "gru", "rnn") {
		s := RNNShape{Kind: kinds[m.Op], Elem: m.elem(), Batch: m.X[0], Steps: m.X[1], Input: m.X[2], Hidden: m.Hidden, Layers: m.Layers, Both: m.Bi, Dropout: m.Dropout > 0}
		// The workspace is the block whose free follows the reserve's allocation.
		i := slices.IndexFunc(m.Fwd[2:], func(v int64) bool { return v < 0 })
		ws, res := m.Fwd[i], m.Fwd[i+1]
		n++
		if s.ReserveBytes() == res {
			reserve++
		} else {
			t.Errorf("%+v: reserve %d, measured %d", s, s.ReserveBytes(), res)
		}
		if slices.Contains(m.Bwd, s.WeightBytes()) {
			weights++
		} else {
			t.Errorf("%+v: weights of %d bytes are not among the gradients", s, s.WeightBytes())
		}
		if err := float64(s.WorkspaceBytes()-ws) / float64(ws); math.Abs(err) <= 0.1 {
			workspace++
		} else {
			t.Logf("%+v: workspace %d, measured %d: %+.1f %%", s, s.WorkspaceBytes(), ws, 100*err)
		}
	}
	t.Logf("of %d: reserve exact %d, weights exact %d, workspace within 10 %% %d", n, reserve, weights, workspace)
	if workspace < n-4 {
		t.Errorf("only %d workspaces of %d are within 10 %%", workspace, n)
	}
}

// The temporaries of sorting are exact, so every event of these backward passes is.
func TestSortedGradients(t *testing.T) {
	exact, n := 0, 0
	for _, m := range measuredOps(t, "embedding", "index_put") {
		v, d, ids := m.W[0], m.W[1], m.N
		var want []int64
		b := 8 * ids
		switch {
		case m.Op == "index_put":
			s := radixSortTemp(ids, bits.Len64(uint64(v-1)))
			want = []int64{4 * v * d, b, b, -b, b, b, b, s, -s, -b, -b, -b, -b}
		case ids <= embeddingGradSmall:
			want = []int64{4 * v * d}
		default:
			s, k := radixSortTemp(ids, 64), 8*min(ids, v)
			u, p := scanTemp(min(ids, v)), partialSegments(ids, v)
			sums := 4 * p * d
			if fusedPartialSums(min(ids, v), p, d, DefaultGPU.SMs) {
				sums = 8 * p
			}
			want = []int64{b, b, b, s, -s, -b, 4 * v * d, b, 8, b, 1279, -1279, -b, k, k, u, -u, 8, 8 * p, sums,
				-sums, -8 * p, -8, -k, -k, -8, -b, -b, -b}
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
				if want := batchNormWorkspace(rows*channels, channels, p.backward); channels >= 64 && channels <= 512 && p.got[3] != want {
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
		if p := layerNormPartials(m.X[0], m.X[1], 132); p != 0 {
			t.Errorf("%v: %d rows of partial sums, measured none", m.X, p)
		}
	}
	if p := layerNormPartials(100352, 96, 132); p*96*4 != 1204224 {
		t.Errorf("100352 x 96: %d rows of partial sums", p)
	}
	if p := layerNormPartials(1<<40, 96, 132); p != 32768/3 {
		t.Errorf("very tall: %d rows of partial sums", p)
	}
}
