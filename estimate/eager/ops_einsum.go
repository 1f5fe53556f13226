package eager

import (
	"slices"
	"strings"
)

// einsumOps is torch.einsum; Args.Mode is the equation.
var einsumOps = []op{
	// aten/src/ATen/native/Linear.cpp, einsum and sumproduct_pair. It is in no list of autocast's: the products within are.
	{"einsum", castNone, runEinsum},
}

// runEinsum multiplies the operands from left to right, each pair as one bmm, or as mul where nothing is summed over.
func runEinsum(r *run, c *Call, in []*tensor) []*tensor {
	left, out, ok := strings.Cut(strings.ReplaceAll(c.Args.Mode, " ", ""), "->")
	terms := strings.Split(left, ",")
	if !ok {
		out = implicitOutput(left)
	}
	if len(terms) != len(in) || !plainEquation(terms, out) {
		return one(r.empty(promote(in...), c.Args.Shape...))
	}
	labels := make([]string, len(terms))
	rank := 0 // of what an ellipsis stands for
	for i, t := range terms {
		if strings.Contains(t, "...") {
			rank = max(rank, len(in[i].shape)-len(t)+3)
		}
	}
	if rank > 'A'-'0' {
		return one(r.empty(promote(in...), c.Args.Shape...))
	}
	ellipsis := ""
	for i := range rank {
		ellipsis += string(rune('0' + i)) // labels that no equation can have
	}
	for i, t := range terms {
		n := len(in[i].shape) - len(t) + 3
		labels[i] = t
		if strings.Contains(t, "...") && n >= 0 {
			labels[i] = strings.Replace(t, "...", ellipsis[max(0, rank-n):], 1)
		}
		if len(labels[i]) != len(in[i].shape) {
			return one(r.empty(promote(in...), c.Args.Shape...))
		}
	}
	out = strings.Replace(out, "...", ellipsis, 1)

	acc, have := in[0].retain(), labels[0]
	for i := 1; i < len(in); i++ {
		rest := out + strings.Join(labels[i+1:], "")
		next, names := r.sumProduct(acc, in[i], have, labels[i], rest)
		r.release(acc)
		acc, have = next, names
	}
	var sum []int // labels that are left and not asked for
	for i, l := range have {
		if !strings.ContainsRune(out, l) {
			sum = append(sum, i)
		}
	}
	if len(sum) > 0 {
		s := runSum(r, &Call{Args: &Args{Dims: sum}}, one(acc))[0]
		r.release(acc)
		acc = s
		for i := len(sum) - 1; i >= 0; i-- {
			have = have[:sum[i]] + have[sum[i]+1:]
		}
	}
	perm := make([]int, 0, len(out))
	for _, l := range out {
		if i := strings.IndexRune(have, l); i >= 0 {
			perm = append(perm, i)
		}
	}
	result := r.permute(acc, perm)
	r.release(acc)
	return one(result)
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
	return once(out) && !strings.ContainsFunc(strings.Replace(out, "...", "", 1), func(l rune) bool { return !strings.ContainsRune(all, l) })
}

func implicitOutput(left string) string {
	var once []rune
	for _, l := range left {
		if l != ',' && l != '.' && strings.Count(left, string(l)) == 1 {
			once = append(once, l)
		}
	}
	slices.Sort(once)
	return string(once)
}

// sumProduct is sumproduct_pair: labels of both that are still wanted are the batch, those of one alone its
// rows or columns, the others are summed over. A label of size 1 in one operand alone stretches: it
// counts as the other's, and is summed over beforehand where it is not wanted. Each operand is permuted and
// reshaped to three dimensions, which copies it where its strides do not allow that.
func (r *run) sumProduct(a, b *tensor, la, lb, rest string) (*tensor, string) {
	a, b = a.retain(), b.retain()
	size := map[rune]int64{}
	for i, l := range la {
		size[l] = a.shape[i]
	}
	var batch, rows, columns, sum string
	for i, l := range la {
		j := strings.IndexRune(lb, l)
		kept := strings.ContainsRune(rest, l)
		switch {
		case j < 0:
			rows += string(l)
		case a.shape[i] == b.shape[j] && kept:
			batch += string(l)
		case a.shape[i] == b.shape[j]:
			sum += string(l)
		case a.shape[i] == 1 && kept:
			columns += string(l)
		case a.shape[i] == 1:
			b = r.sumOver(b, j)
		case kept:
			rows += string(l)
		default:
			a = r.sumOver(a, i)
		}
	}
	for i, l := range lb {
		if j := strings.IndexRune(la, l); j < 0 {
			columns += string(l)
			size[l] = b.shape[i]
		} else if size[l] == 1 {
			size[l] = b.shape[i]
		}
	}
	if sum == "" {
		out, names := r.outerProduct(a, b, la, lb, rest)
		r.release(a)
		r.release(b)
		return out, names
	}
	product := func(labels string) int64 {
		n := int64(1)
		for _, l := range labels {
			n *= size[l]
		}
		return n
	}
	three := func(t *tensor, have, x, y string) *tensor {
		perm := make([]int, 0, len(have))
		for _, l := range batch + x + y {
			perm = append(perm, strings.IndexRune(have, l))
		}
		for i := range have { // what stretches, of size 1
			if !slices.Contains(perm, i) {
				perm = append(perm, i)
			}
		}
		p := r.permute(t, perm)
		f := r.reshape(p, []int64{product(batch), product(x), product(y)})
		r.release(p)
		return f
	}
	x, y := three(a, la, rows, sum), three(b, lb, sum, columns)
	factors := []*tensor{x, y}
	cast := r.autocast(castLower, factors)
	z := r.bmm(factors[0], factors[1])
	r.releaseAll(cast)
	names := batch + rows + columns
	shape := make([]int64, 0, len(names))
	for _, l := range names {
		shape = append(shape, size[l])
	}
	out := r.reshape(z, shape)
	for _, t := range []*tensor{x, y, z, a, b} {
		r.release(t)
	}
	return out, names
}

// outerProduct is sumproduct_pair without dimensions to sum over: mul of both operands, permuted to the order of the labels
// that are wanted and with a 1 for each that an operand lacks.
func (r *run) outerProduct(a, b *tensor, la, lb, rest string) (*tensor, string) {
	names := ""
	for _, l := range rest + la + lb {
		if strings.ContainsRune(la+lb, l) && !strings.ContainsRune(names, l) {
			names += string(l)
		}
	}
	spread := func(t *tensor, have string) *tensor {
		perm, shape := make([]int, 0, len(have)), make([]int64, 0, len(names))
		for _, l := range names {
			size := int64(1)
			if i := strings.IndexRune(have, l); i >= 0 {
				perm, size = append(perm, i), t.shape[i]
			}
			shape = append(shape, size)
		}
		p := r.permute(t, perm)
		v := r.reshape(p, shape)
		r.release(p)
		return v
	}
	x, y := spread(a, la), spread(b, lb)
	out := runMul(r, plainCall, []*tensor{x, y})[0]
	r.release(x)
	r.release(y)
	return out, names
}

// sumOver is t.sum(i, keepdim=True) in t's place.
func (r *run) sumOver(t *tensor, i int) *tensor {
	s := runSum(r, &Call{Args: &Args{Dims: []int{i}, Keep: true}}, one(t))[0]
	r.release(t)
	return s
}
