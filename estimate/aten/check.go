package aten

import (
	"fmt"
	"slices"
)

// maxRank is how many dimensions a tensor may have (TensorIterator and the reader of files have the same bound).
const maxRank = 64

// Check reports values that no computer holds: tensors too large, or of too many dimensions.
func (p *Program) Check() error {
	for i := range p.Values {
		v := &p.Values[i]
		if len(v.Shape) > maxRank {
			return fmt.Errorf("value %q has %d dimensions, at most %d can be", v.Name, len(v.Shape), maxRank)
		}
		if _, ok := checkedBytes(v.Shape, v.DType); !ok {
			return fmt.Errorf("value %q of %s%v is larger than %d TiB, which no computer has", v.Name, v.DType, v.Shape, int64(MaxBytes)>>40)
		}
	}
	return nil
}

// TakesNumbers are the operators that take Python numbers beside tensors; the others are given tensors of them.
var TakesNumbers = map[string]bool{
	"add": true, "sub": true, "mul": true, "div": true, "pow": true, "maximum": true, "minimum": true, "remainder": true,
	"where": true, "compare": true, "clamp": true, "bitwise": true, "lstm": true, "gru": true, "rnn": true, "opaque": true,
	"sdpa": true, "to": true, "float": true, "type_as": true, "clone": true, "fill": true,
	"relu": true, "leaky_relu": true, "elu": true, "gelu": true, "silu": true, "mish": true, "hardswish": true, "hardsigmoid": true,
	"hardtanh": true, "softplus": true, "sigmoid": true, "tanh": true, "exp": true, "log": true, "sqrt": true, "rsqrt": true,
	"reciprocal": true, "erf": true, "sin": true, "cos": true, "abs": true, "neg": true, "square": true, "floor": true, "ceil": true, "round": true, "sign": true,
}

// arity is how many tensors an operator needs, where it is not one.
var arity = map[string]int{
	"add": 2, "sub": 2, "mul": 2, "div": 2, "pow": 2, "maximum": 2, "minimum": 2, "remainder": 2, "compare": 1, "where": 3, "masked_fill": 2,
	"type_as": 2, "prelu": 2, "linear": 2, "matmul": 2, "matmul_float": 2, "addmm": 3, "baddbmm": 3, "weight_norm": 2, "conv": 2, "conv_transpose": 2, "grid_sample": 2, "roi_align": 2,
	"nll_loss": 2, "embedding": 2, "index": 2, "index_select": 2, "gather": 2, "scatter": 3, "assign": 2, "native_attention": 5, "scatter_add": 3, "sdpa": 3, "fill": 0, "opaque": 0,
}

// most is how many tensors an operator can have, where its row takes all that it is given for arguments.
var most = map[string]int{
	"add": 2, "sub": 2, "mul": 2, "div": 2, "pow": 2, "maximum": 2, "minimum": 2, "remainder": 2, "compare": 2, "bitwise": 2, "where": 3,
	"masked_fill": 2, "type_as": 2, "prelu": 2, "matmul": 2, "matmul_float": 2, "addmm": 3, "baddbmm": 3,
}

// Fits reports whether a call's arguments are such as its row can work with: all there, of the ranks that it
// reads, with dimensions that they have. Files hold nodes of which that is not so.
func (p *Program) Fits(c *Call) bool {
	need, ok := arity[c.Op]
	if !ok {
		need = 1
	}
	if len(c.In) < need || slices.Contains(c.In[:need], NoValue) {
		return false
	}
	if n, ok := most[c.Op]; ok && len(c.In) > n {
		return false
	}
	shape := func(i int) []int64 {
		if i >= len(c.In) || c.In[i] == NoValue {
			return nil
		}
		return p.Values[c.In[i]].Shape
	}
	rank := func(i int) int { return len(shape(i)) }
	a, x := c.Args, rank(0)
	inside := func(dims ...int) bool {
		return !slices.ContainsFunc(dims, func(d int) bool { return d < 0 || d >= x })
	}
	switch c.Op {
	case "add", "sub":
		return !a.Inplace || Broadcasts(shape(1), shape(0))
	case "linear":
		return x >= 1 && rank(1) == 2 && shape(0)[x-1] == shape(1)[1] && rank(2) <= x
	case "matmul", "matmul_float":
		return multiplies(shape(0), shape(1))
	case "addmm":
		return rank(1) == 2 && rank(2) == 2 && shape(1)[1] == shape(2)[0] && rank(0) <= 2
	case "baddbmm":
		return rank(1) == 3 && rank(2) == 3 && shape(1)[0] == shape(2)[0] && shape(1)[2] == shape(2)[1] && Broadcasts(shape(0), []int64{shape(1)[0], shape(1)[1], shape(2)[2]})
	case "conv", "conv_transpose":
		return x >= 3 && rank(1) == x && len(a.Shape) == x && a.Groups > 0 && rank(2) <= 1
	case "batch_norm", "instance_norm", "group_norm":
		return x >= 2 && len(c.In) >= 3 && (c.In[1] == NoValue) == (c.In[2] == NoValue) && (c.In[1] == NoValue || rank(1) == 1 && rank(2) == 1) &&
			(c.Op != "group_norm" || a.Groups > 0)
	case "layer_norm", "rms_norm":
		return len(a.Shape) <= x && x > 0
	case "local_response_norm":
		return x >= 2
	case "max_pool", "adaptive_max_pool", "avg_pool", "upsample", "constant_pad", "reflection_pad", "pixel_shuffle", "im2col", "col2im", "grid_sample", "roi_align":
		return x >= 1 && len(a.Shape) >= 1 && (c.Op != "roi_align" || rank(1) >= 1)
	case "adaptive_avg_pool":
		return x >= 2 && len(a.Shape) == x
	case "reshape":
		return Numel(a.Shape) == Numel(shape(0))
	case "permute":
		return len(a.Dims) == x && inside(a.Dims...) && distinct(a.Dims)
	case "expand":
		return Broadcasts(shape(0), a.Shape)
	case "prelu":
		return Broadcasts(shape(1), shape(0))
	case "slice":
		return len(a.Shape) == len(a.Dims) && inside(a.Dims...)
	case "unsqueeze":
		return a.Dim >= 0 && a.Dim <= x
	case "squeeze", "select", "unbind", "sort", "glu":
		return inside(a.Dim)
	case "split":
		return inside(a.Dim) && len(a.Shape) > 0
	case "cat":
		for i := range c.In {
			if c.In[i] == NoValue || rank(i) != x {
				return false
			}
		}
		return inside(a.Dim)
	case "embedding":
		return x >= 1
	case "mean", "sum", "amax", "norm", "norm1", "prod", "logsumexp", "argmax", "max_dim", "var", "std", "normalize", "mean_variance_norm":
		return inside(a.Dims...) && distinct(a.Dims)
	case "sdpa":
		return p.attends(c, shape(0), shape(1), shape(2))
	case "native_attention":
		return x == 3 && rank(1) == 2 && shape(1)[1] == shape(0)[2] && a.Groups > 0
	case "lstm", "gru", "rnn":
		return x == 3 && len(c.In) >= 3 && a.Hidden > 0 && a.Hidden <= 1<<30 && a.Layers > 0
	}
	return true
}

// attends reports whether scaled_dot_product_attention takes these: of one rank, with the heads of queries a multiple of those
// of keys in four dimensions, and all dimensions before the last two the same in others.
func (p *Program) attends(c *Call, q, k, v []int64) bool {
	n := len(q)
	if n < 3 || len(k) != n || len(v) != n || q[n-1] != k[n-1] || k[n-2] != v[n-2] {
		return false
	}
	if n == 4 {
		if k[1] <= 0 || q[1]%k[1] != 0 || k[1] != v[1] {
			return false
		}
	} else if !slices.Equal(q[:n-2], k[:n-2]) || !slices.Equal(k[:n-2], v[:n-2]) {
		return false
	}
	if len(c.In) < 4 || c.In[3] == NoValue || p.Values[c.In[3]].Kind == Number {
		return true
	}
	mask := p.Values[c.In[3]].Shape
	return len(mask) >= 1 && Broadcasts(mask, append(slices.Clone(q[:n-1]), k[n-2]))
}
