package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

var msMatmulFamily = family{"com.microsoft", []op{
	{"FusedMatMul", 1, fusedMatmul, nil},
	{"FusedMatMulActivation", 1, fusedMatmul, nil},
	{"TransposeMatMul", 1, fusedMatmul, nil},
	{"SparseToDenseMatMul", 1, sparseMatmul, nil},
	{"FusedGemm", 1, gemm, nil},
	{"GemmFastGelu", 1, gemmFastGelu, nil},
	{"GemmFloat8", 1, gemmFloat8, nil},
	{"QGemm", 1, qgemm, nil},
	{"MatMulNBits", 1, matmulNBits, nil},
	{"MatMulNBitsMlp", 1, matmulNBitsMlp, nil},
	{"MatMulNBitsQkv", 1, matmulNBitsQkv, nil},
	{"MatMulBnb4", 1, matmulBnb4, nil},
	{"MatMulFpQ4", 1, matmulFpQ4, nil},
	{"MatMulBlockQuantizedFp4Weight", 1, matmulFp4, nil},
	{"MatMulBlockQuantizedFp8Weight", 1, matmulFp8, nil},
	{"MatMulInteger16", 1, matmulInteger16, nil},
	{"MatMulIntegerToFloat", 1, matmulToFloat, nil},
	{"DynamicQuantizeMatMul", 1, gemmFastGelu, nil},
	{"QOrderedMatMul", 1, qorderedMatmul, nil},
}}

// product sets output 0 to the matrix product of inputs a and b.
func product(c *call, a, b int, elem onnxload.DType) error {
	if err := c.need(2); err != nil {
		return err
	}
	s, err := matmulShape(c.shape(a), c.shape(b))
	c.out(0, elem, s)
	return err
}

// fusedMatmul: transBatchA and transBatchB move the first axis behind the other
// batch axes, transA and transB swap the last two, in this order.
func fusedMatmul(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	a := turned(c.shape(0), c.attrInt("transBatchA", 0) != 0, c.attrInt("transA", 0) != 0)
	b := turned(c.shape(1), c.attrInt("transBatchB", 0) != 0, c.attrInt("transB", 0) != 0)
	s, err := matmulShape(a, b)
	c.out(0, c.elem(0), s)
	return err
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

// sparseMatmul: A is sparse, of two dimensions.
func sparseMatmul(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	a := turned(c.shape(0), false, c.attrInt("transA", 0) != 0)
	b := turned(c.shape(1), false, c.attrInt("transB", 0) != 0)
	s, err := matmulShape(a, b)
	c.out(0, c.elem(1), s)
	return err
}

func gemmFastGelu(c *call) error { return product(c, 0, 1, c.elem(0)) }

func matmulInteger16(c *call) error {
	elem := onnxload.Int32
	if c.elem(0) == onnxload.Uint16 && c.elem(1) == onnxload.Uint16 {
		elem = onnxload.Uint32
	}
	return product(c, 0, 1, elem)
}

// matmulToFloat: A and B are quantized, the third and fourth input are their scales.
func matmulToFloat(c *call) error { return product(c, 0, 1, c.elem(2)) }

// qorderedMatmul: A, its scale, B, its scale. With cuBLASLt's column order (0) B comes as its
// transpose laid out by columns, which is the shape it has.
func qorderedMatmul(c *call) error { return product(c, 0, 2, c.elem(0)) }

// plainGemm returns the shape of input a times input b, both matrices that attributes
// transA and transB may turn.
func plainGemm(c *call, a, b int) (Shape, error) {
	if _, _, err := c.ranked(a, 2, 2); err != nil {
		return Shape{}, err
	}
	if _, _, err := c.ranked(b, 2, 2); err != nil {
		return Shape{}, err
	}
	x := turned(c.shape(a), false, c.attrInt("transA", 0) != 0)
	y := turned(c.shape(b), false, c.attrInt("transB", 0) != 0)
	return matmulShape(x, y)
}

func gemmFloat8(c *call) error {
	elem, err := c.attrElem("dtype", onnxload.Float32)
	if err != nil {
		return err
	}
	s, err := plainGemm(c, 0, 1)
	c.out(0, elem, s)
	return err
}

// qgemm: A, its scale and zero point, B with the same, C, scale and zero point of the
// result, which is float32 without them.
func qgemm(c *call) error {
	elem := onnxload.Float32
	if c.has(8) {
		elem = c.elem(8)
	}
	s, err := plainGemm(c, 0, 3)
	c.out(0, elem, s)
	return err
}

// rowTimes sets output i to input 0 [..., from] times a matrix [from, to].
func rowTimes(c *call, i int, from, to Dim) error {
	if err := c.need(1); err != nil {
		return err
	}
	in, ok, err := c.ranked(0, 1, anyRank)
	if err != nil {
		return err
	}
	if ok {
		if _, err := agree("the inner dimension", in[len(in)-1], from); err != nil {
			return err
		}
	}
	s, err := lastDim(c, 0, to)
	c.out(i, c.elem(0), s)
	return err
}

// matmulNBits: the weights are packed; attributes K and N are the sizes of their matrix.
func matmulNBits(c *call) error {
	of, err := c.needDims("K", "N")
	if err != nil {
		return err
	}
	return rowTimes(c, 0, of[0], of[1])
}

// matmulNBitsMlp: the second output is the input with what was skipped.
func matmulNBitsMlp(c *call) error {
	c.set(1, c.in(0))
	return matmulNBits(c)
}

func matmulNBitsQkv(c *call) error {
	c.set(3, c.in(0))
	of, err := c.needDims("K", "Nq", "Nkv", "Nkv")
	if err != nil {
		return err
	}
	for i, n := range of[1:] {
		if err := rowTimes(c, i, of[0], n); err != nil {
			return err
		}
	}
	return nil
}

// matmulBnb4: the dequantized matrix is [N, K]; attribute transB (the default) multiplies
// by its transpose.
func matmulBnb4(c *call) error {
	of, err := c.needDims("K", "N")
	if err != nil {
		return err
	}
	if c.attrInt("transB", 1) == 0 {
		of[0], of[1] = of[1], of[0]
	}
	return rowTimes(c, 0, of[0], of[1])
}

// matmulFpQ4: the weights are a blob, the third input says their shape [K, N].
func matmulFpQ4(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	b, ok, err := c.sizes(2)
	if err != nil {
		return err
	}
	if ok && len(b) != 2 {
		return fmt.Errorf("input 2 has %d sizes, wanted 2", len(b))
	}
	if !ok {
		b = c.unknowns(2)
	}
	return rowTimes(c, 0, b[0], b[1])
}

// matmulFp4: weights [N, K/2], two numbers to a byte.
func matmulFp4(c *call) error { return timesRows(c, 2) }

// matmulFp8: weights [N, K].
func matmulFp8(c *call) error { return timesRows(c, 1) }

func timesRows(c *call, packed int64) error {
	if err := c.need(2); err != nil {
		return err
	}
	w, err := c.ofRank(1, 2)
	if err != nil {
		return err
	}
	return rowTimes(c, 0, Mul(w[1], N(packed)), w[0])
}
