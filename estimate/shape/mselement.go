package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

var msElementFamily = family{"com.microsoft", []op{
	{"Gelu", 1, likeInput, nil},
	{"QuickGelu", 1, likeInput, nil},
	{"FastGelu", 1, likeInput, nil},
	{"BiasGelu", 1, likeInput, nil},
	{"BiasAdd", 1, likeInput, nil},
	{"BiasSoftmax", 1, likeInput, nil},
	{"BiasSplitGelu", 1, halfLast, nil},
	{"GatedAdd", 1, likeInput, nil},
	{"Inverse", 1, squareMatrices, nil},
	{"Trilu", 1, likeInput, nil},
	{"SampleOp", 1, likeInput, nil},
	{"ComplexMul", 1, broadcastTwo, nil},
	{"ComplexMulConj", 1, broadcastTwo, nil},
	{"Rfft", 1, rfft, nil},
	{"Irfft", 1, irfft, nil},
	{"CDist", 1, cdist, nil},
	{"MurmurHash3", 1, murmurHash, nil},
	{"IsAllFinite", 1, isAllFinite, nil},
	{"ExpandDims", 1, expandDims, nil},
	{"TorchEmbedding", 1, torchEmbedding, nil},
	{"UnfoldTensor", 1, unfoldTensor, nil},
	{"CropAndResize", 1, cropAndResize, nil},
	{"GridSample", 1, gridSample, nil},
	{"Unique", 1, msUnique, nil},
	{"NGramRepeatBlock", 1, ngramRepeatBlock, nil},
	{"DynamicTimeWarping", 1, timeWarping, nil},
}}

// halfLast: the last dimension is split into two halves that are multiplied.
func halfLast(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	in, ok, err := c.likeInput(1)
	if err != nil || !ok {
		return err
	}
	half, err := divide("the last dimension", in[len(in)-1], 2)
	if err != nil {
		return err
	}
	s, err := lastDim(c, 0, half)
	c.out(0, c.elem(0), s)
	return err
}

func squareMatrices(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	c.set(0, c.in(0))
	in, ok, err := c.ranked(0, 2, anyRank)
	if err != nil || !ok {
		return err
	}
	_, err = agree("a matrix side", in[len(in)-2], in[len(in)-1])
	return err
}

func broadcastTwo(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	s, err := broadcast(c.shape(0), c.shape(1))
	c.out(0, c.elem(0), s)
	return err
}

// rfft: [..., n] real numbers become [..., n/2+1, 2].
func rfft(c *call) error {
	in, ok, err := c.likeInput(1)
	if err != nil || !ok {
		return err
	}
	s, err := lastDim(c, 0, spectrum(in[len(in)-1]))
	s.Dims = append(s.Dims, N(2))
	c.out(0, c.elem(0), s)
	return err
}

// irfft: [..., k, 2] becomes [..., 2*(k-1)] real numbers.
func irfft(c *call) error {
	in, ok, err := c.likeInput(2)
	if err != nil || !ok {
		return err
	}
	last := len(in) - 1
	if _, err := agree("the last dimension", in[last], N(2)); err != nil {
		return err
	}
	out := append([]Dim(nil), in[:last]...)
	out[last-1] = Mul(N(2), Sub(in[last-1], N(1)))
	c.out(0, c.elem(0), Of(out...))
	return nil
}

// cdist: the distances of the rows of [M, K] and [N, K].
func cdist(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	rows := [2]Dim{c.unknown(), c.unknown()}
	for i := range rows {
		if in, ok, err := c.ranked(i, 2, 2); err != nil {
			return err
		} else if ok {
			rows[i] = in[0]
		}
	}
	c.out(0, c.elem(0), Of(rows[:]...))
	return nil
}

func murmurHash(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	elem := onnxload.Uint32
	if c.attrInt("positive", 1) == 0 {
		elem = onnxload.Int32
	}
	c.out(0, elem, c.shape(0))
	return nil
}

func isAllFinite(c *call) error {
	c.out(0, onnxload.Bool, Of())
	return nil
}

// expandDims puts a 1 before the axis that input 1 says, counted in the result.
func expandDims(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	c.out(0, c.elem(0), Shape{})
	in, ok := c.dims(0)
	if !ok {
		return nil
	}
	d, ok, err := c.scalar(1)
	if err != nil {
		return err
	}
	a, isInt := d.Int()
	if !ok || !isInt {
		c.out(0, c.elem(0), Of(c.unknowns(len(in)+1)...))
		return nil
	}
	at, err := axis(a, len(in)+1)
	if err != nil {
		return err
	}
	out := append([]Dim(nil), in[:at]...)
	c.out(0, c.elem(0), Of(append(append(out, N(1)), in[at:]...)...))
	return nil
}

// torchEmbedding: a table [words, size] and indices of any shape.
func torchEmbedding(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	c.out(0, c.elem(0), Shape{})
	table, okT, err := c.ranked(0, 2, 2)
	if err != nil {
		return err
	}
	ids, ok := c.dims(1)
	if !ok {
		return nil
	}
	size := c.unknown()
	if okT {
		size = table[1]
	}
	c.out(0, c.elem(0), Of(append(append([]Dim(nil), ids...), size)...))
	return nil
}

// unfoldTensor takes every slice of attribute size along an axis, and puts the slice's
// elements into a new last dimension.
func unfoldTensor(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	c.out(0, c.elem(0), Shape{})
	size, err := c.needDim("size")
	if err != nil {
		return err
	}
	step, err := c.positiveInt("step", 1)
	if err != nil {
		return err
	}
	in, ok, err := c.ranked(0, 1, anyRank)
	if err != nil || !ok {
		return err
	}
	at, err := axis(c.attrInt("dim", -1), len(in))
	if err != nil {
		return err
	}
	room := Sub(in[at], size)
	if n, isInt := room.Int(); isInt && n < 0 {
		return fmt.Errorf("slices of %s are longer than the axis of %s", size, in[at])
	}
	out := append([]Dim(nil), in...)
	out[at] = Add(FloorDiv(room, N(step)), N(1))
	c.out(0, c.elem(0), Of(append(out, size)...))
	return nil
}

// cropAndResize: rois [R, 4]; the last input is the size of a crop.
func cropAndResize(c *call) error {
	if err := c.need(4); err != nil {
		return err
	}
	size, ok, err := c.sizes(3)
	if err != nil {
		return err
	}
	if ok && len(size) != 2 {
		return fmt.Errorf("input 3 has %d sizes, wanted 2", len(size))
	}
	if !ok {
		size = c.unknowns(2)
	}
	return regions(c, 4, size[0], size[1])
}

// msUnique: a vector's different elements, the place of each element among them, and
// how often each occurs.
func msUnique(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	in, err := c.ofRank(0, 1)
	if err != nil {
		return err
	}
	n := c.bounded(in[0])
	c.out(0, c.elem(0), Of(n))
	c.out(1, onnxload.Int64, Of(in[0]))
	c.out(2, onnxload.Int64, Of(n))
	return nil
}

func ngramRepeatBlock(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	c.set(0, c.in(1))
	return nil
}

// timeWarping: the path through costs [M, N] or [1, M, N] has fewer than M+N steps.
func timeWarping(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	in, ok, err := c.ranked(0, 2, 3)
	if err != nil {
		return err
	}
	steps := c.unknown()
	if ok {
		steps = c.bounded(Sub(Add(in[len(in)-2], in[len(in)-1]), N(1)))
	}
	c.out(0, onnxload.Int32, Of(N(2), steps))
	return nil
}
