package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

// The families of domain com.microsoft follow ONNX Runtime's ContribOperators.md. Its optimizer
// writes some of these operators into the default domain: see table.find.
var msNormFamily = family{"com.microsoft", []op{
	{"LayerNormalization", 1, msLayerNorm, nil},
	{"SimplifiedLayerNormalization", 1, simplifiedLayerNorm, nil},
	{"SkipLayerNormalization", 1, skipLayerNorm, nil},
	{"SkipSimplifiedLayerNormalization", 1, skipLayerNorm, nil},
	{"EmbedLayerNormalization", 1, embedLayerNorm, nil},
	{"QEmbedLayerNormalization", 1, qembedLayerNorm, nil},
	{"QOrderedLayerNormalization", 1, likeInput, nil},
	{"GroupNorm", 1, msGroupNorm, nil},
	{"SkipGroupNorm", 1, msGroupNorm, nil},
	{"GatedRMSNorm", 1, likeInput, nil},
	{"BiasDropout", 1, biasDropout, nil},
	{"BitmaskDropout", 1, bitmaskDropout, nil},
	{"BitmaskBiasDropout", 1, bitmaskDropout, nil},
}}

// likeScale makes output 0 like input 0 in the type of the scale, input 1.
func likeScale(c *call) {
	elem := c.elem(1)
	if elem == onnxload.Undefined {
		elem = c.elem(0)
	}
	c.out(0, elem, c.shape(0))
}

func msLayerNorm(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	likeScale(c)
	return statistics(c, 1, 2)
}

func simplifiedLayerNorm(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	likeScale(c)
	return statistics(c, 1, 1)
}

// skipLayerNorm: the fourth output is the sum before the normalization.
func skipLayerNorm(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	c.set(0, c.in(0))
	c.set(3, c.in(0))
	return statistics(c, 1, 2)
}

// embedLayerNorm: ids [B, S] and a table [words, hidden]; the second output has one
// number for each sequence.
func embedLayerNorm(c *call) error { return embed(c, c.elem(2)) }

// qembedLayerNorm: the tables are quantized; input 8 is the scale of one.
func qembedLayerNorm(c *call) error { return embed(c, c.elem(8)) }

func embed(c *call, elem onnxload.DType) error {
	ids, err := c.ofRank(0, 2)
	if err != nil {
		return err
	}
	hidden := c.unknown()
	for _, i := range []int{2, 3, 4} { // the tables of words, positions and segments
		if t, ok, err := c.ranked(i, 2, 2); err != nil {
			return err
		} else if ok {
			if hidden, err = agree("the hidden size", hidden, t[1]); err != nil {
				return err
			}
		}
	}
	s := Of(ids[0], ids[1], hidden)
	c.out(0, elem, s)
	c.out(1, onnxload.Int32, Of(ids[0]))
	c.out(2, elem, s)
	return nil
}

// msGroupNorm: the channels come last unless attribute channels_last is 0. SkipGroupNorm's
// second output is the sum before the normalization.
func msGroupNorm(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	c.set(0, c.in(0))
	c.set(1, c.in(0))
	groups, err := c.needInt("groups")
	if err != nil {
		return err
	}
	in, ok, err := c.ranked(0, 2, anyRank)
	if err != nil || !ok {
		return err
	}
	channels := in[len(in)-1]
	if c.attrInt("channels_last", 1) == 0 {
		channels = in[1]
	}
	_, err = divide("the number of channels", channels, groups)
	return err
}

func biasDropout(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	c.set(0, c.in(0))
	c.out(1, onnxload.Bool, c.shape(0))
	return nil
}

// bitmaskDropout: the mask has one bit an element, packed into 32-bit words.
func bitmaskDropout(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	c.set(0, c.in(0))
	mask := Of(c.unknown())
	if in, ok := c.dims(0); ok {
		mask = Of(CeilDiv(Product(in...), N(32)))
	}
	c.out(1, onnxload.Uint32, mask)
	return nil
}

// lastDim returns input i's shape with another last dimension.
func lastDim(c *call, i int, last Dim) (Shape, error) {
	in, ok, err := c.ranked(i, 1, anyRank)
	if err != nil || !ok {
		return Shape{}, err
	}
	return Of(append(append([]Dim(nil), in[:len(in)-1]...), last)...), nil
}

// needDims returns required attributes that are dimensions.
func (c *call) needDims(names ...string) (dims []Dim, err error) {
	dims = make([]Dim, len(names))
	for i, name := range names {
		if dims[i], err = c.needDim(name); err != nil {
			return nil, err
		}
	}
	return dims, nil
}

// needDim returns a required attribute that is a dimension.
func (c *call) needDim(name string) (Dim, error) {
	n, err := c.needInt(name)
	if err == nil && n <= 0 {
		err = fmt.Errorf("attribute %s is %d, wanted a positive number", name, n)
	}
	return N(n), err
}
