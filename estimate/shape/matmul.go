package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

// matmulFamily has the products of matrices.
var matmulFamily = family{"", []op{
	{"MatMul", 1, func(c *call) { c.matmul(0, 1, c.commonElem(0, 1)) }, nil},
	{"MatMulInteger", 10, func(c *call) { c.matmul(0, 1, onnxload.Int32) }, nil},
	{"QLinearMatMul", 10, qlinearMatMul, nil},
	{"Gemm", 1, gemm, nil},
	{"Einsum", 12, einsum, nil},
}}

// matmul is numpy's matmul of inputs a and b: the last two axes are matrices, those before
// them stretch, and a vector is a row on the left and a column on the right, without a trace in
// the result.
func (c *call) matmul(a, b int, elem onnxload.DType) {
	c.need(max(a, b) + 1)
	c.out(0, elem, checked(matmulShape(c.shape(a), c.shape(b))))
}

func matmulShape(a, b Shape) (Shape, error) {
	if !a.Ranked || !b.Ranked {
		return Shape{}, nil
	}
	x, y := a.Dims, b.Dims
	if len(x) == 0 || len(y) == 0 {
		return Shape{}, fmt.Errorf("%v and %v: a scalar is no matrix", a, b)
	}
	row, col := len(x) == 1, len(y) == 1
	if row {
		x = []Dim{N(1), x[0]}
	}
	if col {
		y = []Dim{y[0], N(1)}
	}
	if _, err := agree("the inner dimension", x[len(x)-1], y[len(y)-2]); err != nil {
		return Shape{}, fmt.Errorf("%v and %v: %w", a, b, err)
	}
	out, err := broadcast(Of(x[:len(x)-2]...), Of(y[:len(y)-2]...))
	if err != nil {
		return Shape{}, fmt.Errorf("%v and %v: %w", a, b, err)
	}
	if !row {
		out.Dims = append(out.Dims, x[len(x)-2])
	}
	if !col {
		out.Dims = append(out.Dims, y[len(y)-1])
	}
	return out, nil
}

// qlinearMatMul has a, its scale and zero point, b, its scale and zero point, and those of the
// result, whose zero point tells the result's type.
func qlinearMatMul(c *call) {
	c.need(8)
	c.matmul(0, 3, c.elem(7))
}

// gemm multiplies two matrices, either of them transposed first, and adds C, which
// stretches to the result.
func gemm(c *call) {
	c.need(2)
	side := func(i int, trans string) (outer, inner Dim) {
		dims, ok := c.dims(i)
		if !ok {
			return unknownSize, unknownSize
		}
		if len(dims) != 2 {
			c.fail("input %d is %v, a matrix is wanted", i, c.shape(i))
		}
		if (c.attrInt(trans, 0) != 0) != (i == 1) {
			return dims[1], dims[0]
		}
		return dims[0], dims[1]
	}
	m, k := side(0, "transA")
	n, k2 := side(1, "transB")
	checked(agree("the inner dimension", k, k2))
	out := Of(m, n)
	if s := c.shape(2); s.Ranked {
		if len(s.Dims) > 2 {
			c.fail("c %v does not stretch to %v", s, out)
		}
		for i, d := range s.Dims {
			want := out.Dims[i+2-len(s.Dims)]
			if x, ok := d.Int(); ok && x != 1 {
				if _, err := agree("the size", want, d); err != nil {
					c.fail("c %v does not stretch to %v", s, out)
				}
			}
		}
	}
	c.out(0, c.commonElem(0, 1), out)
}
