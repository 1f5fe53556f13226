package torch

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
)

// cuDNN's batch norm is given a row-major copy of an input that is transposed, and saves that; bfloat16's kernel takes
// it as it is.
func TestBatchNormOfTransposedInput(t *testing.T) {
	for _, tt := range []struct {
		name  string
		dtype program.DType
		want  []int64
	}{
		{"float32", f32, []int64{4 * 2 * 6 * 16, 4 * 2 * 6 * 16, 4 * 16, 4 * 16}},
		{"bfloat16", bf16, []int64{2 * 2 * 6 * 16, 4 * 16, 4 * 16}},
	} {
		l := newLab()
		x := l.r.permute(l.times(l.leaf(tt.dtype, 2, 6, 16)), []int{0, 2, 1})
		w, b := l.leaf(tt.dtype, 16), l.leaf(tt.dtype, 16)
		from := l.r.log.Len()
		y := l.do("batch_norm", program.Args{Train: true}, x, w, b)
		if got := l.since(from); !slices.Equal(got, tt.want) {
			t.Errorf("%s: events %d, wanted %d", tt.name, got, tt.want)
		}
		if y.isContiguous() != (tt.dtype == f32) {
			t.Errorf("%s: the result has strides %v", tt.name, y.stride)
		}
	}
}
