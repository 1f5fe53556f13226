package kernels

import (
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
)

// x[mask] and x[mask] = values first find the places of the mask: 8 bytes for each dimension of each that is set. An
// optical flow's loss has one of [4, 2, 368, 496], all set, in a tensor of [12, 4, 2, 368, 496]: the allocator's
// history of an H200 has +1460224 (the mask, which was expanded) +46727168 (places) +70090752 (the result), and they
// end in that order. The words here leave out the rest of the history, CUB's temporary storage.
func TestPicksByMasks(t *testing.T) {
	flow := of("float32", 12, 4, 2, 368, 496)
	expanded := NewTensor("bool", []int64{4, 2, 368, 496}, []int64{182528, 0, 496, 1}, false)
	rows, few, mask := of("float32", 1000, 64), of("float32", 100, 64), of("bool", 1000)
	list := func(t ...*Tensor) Arg { return Arg{Set: true, List: tensors(t...)} }
	adds := number(1)
	tests := []struct {
		call Call
		want string
	}{
		{Call{Op: "index", Args: append(tensors(flow), list(nil, expanded)), Results: []*Tensor{of("float32", 12, 1460224)}},
			"+1460224 +4 +3107 -3107 +46727168 +9893 -9893 -4 -1460224 =0 -46727168"},
		{Call{Op: "index", Args: append(tensors(rows), list(of("int64", 100))), Results: []*Tensor{few}}, "=0"},
		// A value for all is a masked_fill; rows are written at their places; added ones are sorted, too.
		{Call{Op: "index_put_", Args: append(tensors(rows), list(mask), tensors(of("float32"))[0])}, "=0"},
		{Call{Op: "index_put_", Args: append(tensors(rows), list(mask), tensors(few)[0])}, "=0 +4 +255 -255 +800 +773 -773 -4 -800"},
		{Call{Op: "index_put_", Args: append(tensors(rows), list(mask), tensors(few)[0], adds)},
			"=0 +4 +255 -255 +800 +773 -773 -4 +800 +800 -800 +800 +800 +800 +1 -1 -800 -800 -800 -800 -800"},
	}
	for _, test := range tests {
		if got := words(NewKernels(gpu.Default()).Call(&test.call)); got != test.want {
			t.Errorf("%s(%v): %s\nwant %s", test.call.Op, test.call.Args[0].Tensor.Shape, got, test.want)
		}
	}
}
