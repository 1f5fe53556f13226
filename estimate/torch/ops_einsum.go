package torch

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
)

// einsumOps is torch.einsum; Args.Mode is the equation.
var einsumOps = []op{
	{"einsum", castLowerList, runEinsum}, // aten/src/ATen/native/Linear.cpp, einsum and sumproduct_pair
}

// runEinsum brings the operands to the same dimensions in the same order, those of the result and then those that are
// summed over, in the order of their letters, and multiplies them from left to right. (Where the package opt_einsum is
// installed, PyTorch asks it for the order of three and more.)
func runEinsum(r *run, c *program.Call, in []*tensor) []*tensor {
	terms, out, ok := labelsOf(c.Args.Mode, in)
	if !ok {
		return one(r.empty(promote(in...), c.Args.Shape...))
	}
	order := []byte(out)
	var rest []byte
	for _, t := range terms {
		for i := range len(t) {
			if !slices.Contains(order, t[i]) && !slices.Contains(rest, t[i]) {
				rest = append(rest, t[i])
			}
		}
	}
	slices.Sort(rest) // capitals come before small letters, and an ellipsis before both
	order = append(order, rest...)

	users := make([]int, len(order)) // operands in which a dimension is more than one
	operands := make([]*tensor, len(in))
	for i, x := range in {
		operands[i] = r.aligned(x, terms[i], order)
		for d, size := range operands[i].shape {
			if size != 1 {
				users[d]++
			}
		}
	}
	acc := operands[0]
	for _, x := range operands[1:] {
		acc = r.contract(acc, x, len(out), users)
	}
	if len(rest) == 0 {
		return one(acc)
	}
	var result *tensor
	if len(in) > 1 {
		result = r.reshape(acc, acc.shape[:len(out)]) // what was summed over has size 1
	} else {
		sum := make([]int, len(rest))
		for i := range sum {
			sum[i] = len(out) + i
		}
		result = runSum(r, &program.Call{Args: &program.Args{Dims: sum}}, one(acc))[0]
	}
	r.release(acc)
	return one(result)
}

// labelsOf returns a label for each dimension of each operand, and those of the result: the letters of an equation,
// and digits for what an ellipsis stands for. It declines diagonals, and equations that do not fit the operands.
func labelsOf(equation string, in []*tensor) (terms []string, out string, ok bool) {
	left, out, explicit := strings.Cut(strings.ReplaceAll(equation, " ", ""), "->")
	if !explicit {
		out = implicitOutput(left)
	}
	terms = strings.Split(left, ",")
	if len(terms) != len(in) || !plainEquation(terms, out) {
		return nil, "", false
	}
	rank := 0 // of what an ellipsis stands for
	for i, t := range terms {
		if strings.Contains(t, "...") {
			rank = max(rank, len(in[i].shape)-len(t)+len("..."))
		}
	}
	if rank > 'A'-'0' {
		return nil, "", false
	}
	ellipsis := ""
	for i := range rank {
		ellipsis += string(rune('0' + i)) // labels that no equation can have
	}
	for i, t := range terms {
		n := len(in[i].shape) - len(t) + len("...")
		if strings.Contains(t, "...") && n >= 0 {
			terms[i] = strings.Replace(t, "...", ellipsis[rank-n:], 1)
		}
		if len(terms[i]) != len(in[i].shape) {
			return nil, "", false
		}
	}
	return terms, strings.Replace(out, "...", ellipsis, 1), true
}

// plainEquation reports whether every label is a letter that its term has once, and the result's are among
// the terms': no diagonals.
func plainEquation(terms []string, out string) bool {
	once := func(t string) bool {
		t = strings.Replace(t, "...", "", 1)
		for i, l := range t {
			if (l < 'a' || l > 'z') && (l < 'A' || l > 'Z') || strings.IndexRune(t, l) != i {
				return false
			}
		}
		return true
	}
	for _, t := range terms {
		if !once(t) {
			return false
		}
	}
	all := strings.Join(terms, "")
	for _, l := range strings.Replace(out, "...", "", 1) {
		if !strings.ContainsRune(all, l) {
			return false
		}
	}
	return once(out)
}

// implicitOutput is the result of an equation without one: what an ellipsis stands for, and the letters that are
// there once.
func implicitOutput(left string) string {
	var once []rune
	for _, l := range left {
		if l != ',' && l != '.' && strings.Count(left, string(l)) == 1 {
			once = append(once, l)
		}
	}
	slices.Sort(once)
	if strings.Contains(left, "...") {
		return "..." + string(once)
	}
	return string(once)
}

// aligned is x with a dimension of size 1 for each label that it lacks, permuted to an order of labels. PyTorch makes a
// view for each of these dimensions and one more, none of which takes memory: here it is one, so that the graph of an
// equation of many letters is no larger than it must be.
func (r *run) aligned(x *tensor, labels string, order []byte) *tensor {
	at := make([]int, len(x.shape)) // where the dimensions of x are in the order
	shape, stride := make([]int64, len(order)), make([]int64, len(order))
	for i, l := range order {
		shape[i], stride[i] = 1, 1
		if d := strings.IndexByte(labels, l); d >= 0 {
			shape[i], stride[i], at[d] = x.shape[d], x.stride[d], i
		}
	}
	return r.recordView("Permute", r.alias(x, shape, stride), x, func(r *run, _ *node, g []*tensor) []*tensor {
		return r.alone(r.permuted(g[0], at))
	})
}

// contract multiplies two aligned operands, which it releases, and sums over the dimensions from the kept ones on
// that no other operand has. A dimension that one of them alone has is summed over before the product.
func (r *run) contract(a, b *tensor, kept int, users []int) *tensor {
	var both, ofA, ofB []int
	for d := kept; d < len(users); d++ {
		inA, inB := a.shape[d] != 1, b.shape[d] != 1
		switch {
		case inA && inB:
			if users[d]--; users[d] == 1 {
				both, users[d] = append(both, d), 0
			}
		case inA && users[d] == 1:
			ofA, users[d] = append(ofA, d), 0
		case inB && users[d] == 1:
			ofB, users[d] = append(ofB, d), 0
		}
	}
	a, b = r.sumOver(a, ofA), r.sumOver(b, ofB)
	var out *tensor
	if len(both) == 0 {
		out = runMul(r, program.PlainCall, []*tensor{a, b})[0]
	} else {
		out = r.sumProduct(a, b, both)
	}
	r.release(a)
	r.release(b)
	return out
}

// sumOver is t.sum(dims, keepdim=True) in t's place.
func (r *run) sumOver(t *tensor, dims []int) *tensor {
	if len(dims) == 0 {
		return t
	}
	s := runSum(r, &program.Call{Args: &program.Args{Dims: dims, Keep: true}}, one(t))[0]
	r.release(t)
	return s
}

// sumProduct is sumproduct_pair: of the dimensions that stay, those of both are the batch of a bmm, those of one its
// rows or columns. Each operand is permuted and reshaped to three dimensions, which copies it where its strides do
// not allow that. Where all columns come before the rows, the operands change places, so that the product has the
// result's strides.
func (r *run) sumProduct(a, b *tensor, sum []int) *tensor {
	var batch, rows, columns []int
	for d := range a.shape {
		switch {
		case slices.Contains(sum, d):
		case a.shape[d] != 1 && b.shape[d] != 1:
			batch = append(batch, d)
		case a.shape[d] != 1:
			rows = append(rows, d)
		default:
			columns = append(columns, d)
		}
	}
	if len(rows) > 0 && len(columns) > 0 && columns[len(columns)-1] < rows[0] {
		a, b, rows, columns = b, a, columns, rows
	}
	size := func(t *tensor, dims []int) int64 {
		n := int64(1)
		for _, d := range dims {
			n *= t.shape[d]
		}
		return n
	}
	ordered := func(t *tensor, perm []int) *tensor { // a view that changes nothing takes no memory either
		if slices.IsSorted(perm) {
			return t.retain()
		}
		return r.permute(t, perm)
	}
	three := func(t *tensor, x, y, last []int) *tensor {
		p := ordered(t, slices.Concat(batch, x, y, last))
		f := r.reshape(p, []int64{size(t, batch), size(t, x), size(t, y)})
		r.release(p)
		return f
	}
	x, y := three(a, rows, sum, columns), three(b, sum, columns, rows)
	z := r.bmm(x, y)
	made := slices.Concat(batch, rows, sum, columns) // the dimensions as the product has them
	shape, perm := make([]int64, len(made)), make([]int, len(made))
	for i, d := range made {
		switch {
		case slices.Contains(sum, d):
			shape[i] = 1
		case slices.Contains(columns, d):
			shape[i] = b.shape[d]
		default:
			shape[i] = a.shape[d]
		}
		perm[d] = i
	}
	v := r.reshape(z, shape)
	out := ordered(v, perm)
	for _, t := range []*tensor{x, y, z, v} {
		r.release(t)
	}
	return out
}
