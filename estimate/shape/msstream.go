package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

// msStreamFamily has the operators of models that keep a state from call to call, and
// ONNX Runtime's own versions of some of ONNX's.
var msStreamFamily = family{"com.microsoft", []op{
	{"EngramGate", 1, engramGate, nil},
	{"GatedDeltaNet", 1, gatedDeltaNet, nil},
	{"NGramHashMapping", 1, ngramHash, nil},
	{"VarlenNGramHashMapping", 1, varlenNGramHash, nil},
	{"VarlenCausalConvWithState", 1, varlenCausalConv, nil},
	{"BifurcationDetector", 1, bifurcation, nil},
	{"GatherND", 1, gatherND, gatherNDEval},
	{"Pad", 1, padInput, padEval},
	{"Range", 1, msRange, nil},
}}

// engramGate: both outputs have the keys' shape.
func engramGate(c *call) error {
	if err := c.need(5); err != nil {
		return err
	}
	return likeInputTwice(c)
}

// gatedDeltaNet: query [T, Hq, E], key [T, Hk, E], value [T, Hv, Ev], where T may be two axes;
// input 6 is the state [B, Hv, Ev, E], input 3 says with B+1 numbers where the sequences end. Attribute
// state_update_capacity keeps the factors of that many steps: a decay, a key and a change each.
func gatedDeltaNet(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	for i, elem := range []onnxload.DType{c.elem(0), onnxload.Float32, onnxload.Float32} {
		c.out(i, elem, Shape{})
	}
	var parts [3][]Dim
	for i := range parts {
		in, ok, err := c.ranked(i, 3, 4)
		if err != nil || !ok {
			return err
		}
		parts[i] = in
	}
	last := len(parts[0]) - 1
	if len(parts[1]) != last+1 || len(parts[2]) != last+1 {
		return fmt.Errorf("queries, keys and values have %d, %d and %d dimensions", len(parts[0]), len(parts[1]),
			len(parts[2]))
	}
	size, err := agree("the head size of queries and keys", parts[0][last], parts[1][last])
	if err != nil {
		return err
	}
	countQ, countK, countV, sizeV := parts[0][last-1], parts[1][last-1], parts[2][last-1], parts[2][last]
	out := append([]Dim(nil), parts[0][:last-1]...)
	c.out(0, c.elem(0), Of(append(out, maxOf(countQ, countV), sizeV)...))
	batch := c.unknown()
	if s, ok, err := c.ranked(6, 4, 4); err != nil {
		return err
	} else if ok {
		batch = s[0]
	} else if ends, ok, err := c.ranked(3, 1, 1); err != nil {
		return err
	} else if ok {
		batch = Sub(ends[0], N(1))
	}
	c.out(1, onnxload.Float32, Of(batch, countV, sizeV, size))
	capacity := c.attrInt("state_update_capacity", 0)
	if capacity < 0 {
		return fmt.Errorf("attribute state_update_capacity is %d, wanted at least 0", capacity)
	}
	step := Add(countV, Add(Mul(countK, size), Mul(countV, sizeV)))
	c.out(2, onnxload.Float32, Of(batch, Mul(N(capacity), step)))
	return nil
}

// ngramSizes returns how many hashes a token has and how many tokens before it they cover.
func ngramSizes(c *call) (hashes, before Dim, err error) {
	longest, err := c.needInt("max_ngram_size")
	if err != nil {
		return hashes, before, err
	}
	if longest < 2 {
		return hashes, before, fmt.Errorf("attribute max_ngram_size is %d, wanted at least 2", longest)
	}
	heads, err := c.needDim("n_head_per_ngram")
	before = N(longest - 1)
	return Mul(before, heads), before, err
}

// ngramHash: token ids [B, S].
func ngramHash(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	hashes, before, err := ngramSizes(c)
	if err != nil {
		return err
	}
	in, err := c.ofRank(0, 2)
	if err != nil {
		return err
	}
	c.out(0, c.elem(0), Of(in[0], in[1], hashes))
	c.out(1, c.elem(0), Of(in[0], before))
	return nil
}

// varlenNGramHash: the ids of all sequences behind each other [T]; input 3 says with B+1
// numbers where they end.
func varlenNGramHash(c *call) error {
	if err := c.need(4); err != nil {
		return err
	}
	hashes, before, err := ngramSizes(c)
	if err != nil {
		return err
	}
	in, err := c.ofRank(0, 1)
	if err != nil {
		return err
	}
	ends, err := c.ofRank(3, 1)
	if err != nil {
		return err
	}
	batch := Sub(ends[0], N(1))
	c.out(0, c.elem(0), Of(in[0], hashes))
	c.out(1, c.elem(0), Of(batch, before))
	c.out(2, onnxload.Int32, Of(batch, before))
	return nil
}

// varlenCausalConv: tokens [T, C], filters [C, 1, k], ends, bias, state [B, C, (k-1)*dilation]. The
// third output has the values that attribute state_update_capacity keeps.
func varlenCausalConv(c *call) error {
	if err := c.needEach(0, 1, 2, 4); err != nil {
		return err
	}
	c.set(0, c.in(0))
	c.set(1, c.in(4))
	state, err := c.ofRank(4, 3)
	if err != nil {
		return err
	}
	capacity := c.attrInt("state_update_capacity", 0)
	if capacity < 0 {
		return fmt.Errorf("attribute state_update_capacity is %d, wanted at least 0", capacity)
	}
	c.out(2, c.elem(0), Of(state[0], N(capacity), state[1]))
	return nil
}

// bifurcation: source tokens, tokens so far, an index, predicted tokens. Where the prediction
// leaves the source one more token follows, so this is the most that comes out.
func bifurcation(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	tokens := c.unknown()
	so, okSo, err := c.ranked(1, 1, 1)
	if err != nil {
		return err
	}
	predicted, okP, err := c.ranked(3, 1, 1)
	if err != nil {
		return err
	}
	switch {
	case okSo && !c.has(3):
		tokens = so[0]
	case okSo && okP:
		tokens = c.bounded(Add(so[0], predicted[0]))
	}
	c.out(0, onnxload.Int64, Of(tokens))
	c.out(1, onnxload.Int64, c.shape(2))
	return nil
}

// msRange: the step is 1 when it is not given.
func msRange(c *call) error {
	if c.has(2) {
		return rangeOp(c)
	}
	if err := c.need(2); err != nil {
		return err
	}
	n := c.unknown()
	start, okStart := c.ints(0)
	limit, okLimit := c.ints(1)
	if okStart && okLimit && len(start) == 1 && len(limit) == 1 {
		n = positive(Sub(limit[0], start[0]))
	}
	c.out(0, c.commonElem(0, 1), Of(n))
	return nil
}
