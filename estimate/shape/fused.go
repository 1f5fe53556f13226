package shape

import "github.com/memestimate/memestimate/onnxload"

// fusedFamily has the operators into which ONNX Runtime's optimizer most often fuses those of ONNX, which it also writes
// into the default domain: see table.find. Source: docs/ContribOperators.md of microsoft/onnxruntime.
var fusedFamily = family{"com.microsoft", []op{
	{"Gelu", 1, likeInput, nil},
	{"QuickGelu", 1, likeInput, nil},
	{"FastGelu", 1, likeInput, nil},
	{"BiasGelu", 1, likeInput, nil},
	{"SimplifiedLayerNormalization", 1, simplifiedLayerNorm, nil},
	{"SkipLayerNormalization", 1, skipLayerNorm, nil},
	{"SkipSimplifiedLayerNormalization", 1, skipLayerNorm, nil},
	{"EmbedLayerNormalization", 1, embedLayerNorm, nil},
	{"FusedConv", 1, conv, nil},
	{"FusedGemm", 1, gemm, nil},
	{"FusedMatMul", 1, fusedMatmul, nil},
	{"MatMulNBits", 1, matmulNBits, nil},
	{"RotaryEmbedding", 1, likeInput, nil}, // the number of heads may be left to the cache's width
	{"Attention", 1, mergedAttention, nil},
	{"MultiHeadAttention", 1, multiHeadAttention, nil},
	{"GroupQueryAttention", 1, groupQuery, nil},
}}

// simplifiedLayerNorm: the result is of the scale's type.
func simplifiedLayerNorm(c *call) {
	c.need(2)
	elem := c.elem(1)
	if elem == onnxload.Undefined {
		elem = c.elem(0)
	}
	c.out(0, elem, c.shape(0))
	statistics(c, 1, 1)
}

// skipLayerNorm: the fourth output is the sum before the normalization.
func skipLayerNorm(c *call) {
	c.need(3)
	c.set(0, c.in(0))
	c.set(3, c.in(0))
	statistics(c, 1, 2)
}

// embedLayerNorm: ids [B, S] and a table [words, hidden]; the second output has one number for each sequence.
func embedLayerNorm(c *call) {
	ids := c.ofRank(0, 2, 2)
	hidden := unknownSize
	for _, i := range []int{2, 3, 4} { // the tables of words, positions and segments
		if t, ok := c.ranked(i, 2, 2); ok {
			hidden = checked(agree("the hidden size", hidden, t[1]))
		}
	}
	s := Of(ids[0], ids[1], hidden)
	c.out(0, c.elem(2), s)
	c.out(1, onnxload.Int32, Of(ids[0]))
	c.out(2, c.elem(2), s)
}

// fusedMatmul: transBatchA and transBatchB move the first axis behind the other
// batch axes, transA and transB swap the last two, in this order.
func fusedMatmul(c *call) {
	c.need(2)
	a := turned(c.shape(0), c.attrInt("transBatchA", 0) != 0, c.attrInt("transA", 0) != 0)
	b := turned(c.shape(1), c.attrInt("transBatchB", 0) != 0, c.attrInt("transB", 0) != 0)
	c.out(0, c.elem(0), checked(matmulShape(a, b)))
}

// turned returns the shape of a matrix argument after its transpositions; of a vector nothing changes.
func turned(s Shape, batch, last bool) Shape {
	n := len(s.Dims)
	if n < 2 {
		return s
	}
	out := append([]Dim(nil), s.Dims...)
	if batch && n > 2 {
		copy(out, s.Dims[1:n-1])
		out[n-2] = s.Dims[0]
	}
	if last {
		out[n-2], out[n-1] = out[n-1], out[n-2]
	}
	return Of(out...)
}

// matmulNBits: input [..., K] times a matrix [K, N] whose numbers are packed; attributes say K and N.
func matmulNBits(c *call) {
	from := c.needDim("K")
	to := c.needDim("N")
	c.need(1)
	in, ok := c.ranked(0, 1, anyRank)
	if ok {
		checked(agree("the inner dimension", in[len(in)-1], from))
	}
	c.out(0, c.elem(0), lastDim(c, 0, to))
}

// lastDim returns input i's shape with another last dimension.
func lastDim(c *call, i int, last Dim) Shape {
	in, ok := c.ranked(i, 1, anyRank)
	if !ok {
		return Shape{}
	}
	return Of(append(append([]Dim(nil), in[:len(in)-1]...), last)...)
}

// needDim returns a required attribute that is a dimension.
func (c *call) needDim(name string) Dim {
	n := c.needInt(name)
	if n <= 0 {
		c.fail("attribute %s is %d, wanted a positive number", name, n)
	}
	return N(n)
}
