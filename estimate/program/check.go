package program

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
		if !held(v.Shape, v.DType) {
			return fmt.Errorf("value %q of %s%v is larger than %d TiB, which no computer has",
				v.Name, v.DType, v.Shape, int64(MaxBytes)>>40)
		}
	}
	return nil
}

// Fits reports whether a call's arguments are such as its rule can work with: all there, no more than there can be,
// of the ranks that it reads, with dimensions that they have. Files hold nodes of which that is not so.
func (p *Program) Fits(c *Call) bool {
	o := Of(c.Op)
	if len(c.In) < o.Least || len(c.In) > o.Most || slices.Contains(c.In[:o.Least], NoValue) {
		return false
	}
	return o.fits == nil || o.fits(given{p, c.In, c.Args})
}

// A given is what a call is given. What is left out has no dimensions.
type given struct {
	p    *Program
	in   []ValueID
	args *Args
}

func (g given) has(i int) bool { return i < len(g.in) && g.in[i] != NoValue }

// tensor reports whether an argument is given, and is no Python number.
func (g given) tensor(i int) bool { return g.has(i) && g.p.Values[g.in[i]].Kind != Number }

// all reports whether no argument is left out.
func (g given) all() bool { return !slices.Contains(g.in, NoValue) }

func (g given) shape(i int) []int64 {
	if !g.has(i) {
		return nil
	}
	return g.p.Values[g.in[i]].Shape
}

func (g given) rank(i int) int { return len(g.shape(i)) }

// inside reports whether the first argument has these dimensions.
func (g given) inside(dims ...int) bool {
	return !slices.ContainsFunc(dims, func(d int) bool { return d < 0 || d >= g.rank(0) })
}

func worksOnDim(g given) bool  { return g.inside(g.args.Dim) }
func worksOnDims(g given) bool { return g.inside(g.args.Dims...) && distinct(g.args.Dims) }
func takesParts(g given) bool {
	return len(g.args.Shape) == len(g.args.Dims) && g.inside(g.args.Dims...)
}

func turns(g given) bool   { return len(g.args.Dims) == g.rank(0) && worksOnDims(g) }
func resizes(g given) bool { return g.rank(0) >= 1 && len(g.args.Shape) >= 1 }

func addsInPlace(g given) bool { return !g.args.Inplace || Broadcasts(g.shape(1), g.shape(0)) }

func multipliesRows(g given) bool {
	x := g.rank(0)
	return x >= 1 && g.rank(1) == 2 && g.shape(0)[x-1] == g.shape(1)[1] && g.rank(2) <= x
}

// multipliesMatrices reports whether torch.matmul takes two shapes.
func multipliesMatrices(g given) bool {
	a, b := g.shape(0), g.shape(1)
	switch la, lb := len(a), len(b); {
	case la == 0 || lb == 0:
		return false
	case lb == 1:
		return a[la-1] == b[0]
	default:
		return a[la-1] == b[lb-2]
	}
}

func addsToProduct(g given) bool {
	return g.rank(1) == 2 && g.rank(2) == 2 && g.shape(1)[1] == g.shape(2)[0] && g.rank(0) <= 2
}

func convolves(g given) bool {
	x := g.rank(0)
	return x >= 3 && g.rank(1) == x && len(g.args.Shape) == x && g.args.Groups > 0 && g.rank(2) <= 1
}

// deforms is convolves of pictures alone, whose places and their weights, if there are any, are pictures too.
func deforms(g given) bool {
	return g.rank(0) == 4 && g.rank(1) == 4 && g.rank(2) == 4 && (!g.has(3) || g.rank(3) == 4) && g.rank(4) <= 1 &&
		len(g.args.Shape) == 4 && g.args.Shape[0] > 0
}

func normalisesChannels(g given) bool {
	if g.rank(0) < 2 || len(g.in) < 3 || g.has(1) != g.has(2) {
		return false
	}
	return !g.has(1) || g.rank(1) == 1 && g.rank(2) == 1
}

// normalisesGroups is normalisesChannels of a norm of groups, whose bias may be left out.
func normalisesGroups(g given) bool {
	return g.args.Groups > 0 && (normalisesChannels(g) ||
		g.rank(0) >= 2 && len(g.in) == 3 && g.has(1) && g.rank(1) == 1 && !g.has(2))
}

func normalisesLast(g given) bool { return len(g.args.Shape) <= g.rank(0) && g.rank(0) > 0 }

func joins(g given) bool {
	for i := range g.in {
		if !g.has(i) || g.rank(i) != g.rank(0) {
			return false
		}
	}
	return worksOnDim(g)
}

func stacks(g given) bool {
	for i := range g.in {
		if !g.has(i) || !slices.Equal(g.shape(i), g.shape(0)) {
			return false
		}
	}
	return g.args.Dim >= 0 && g.args.Dim <= g.rank(0)
}

// recurs reports whether a recurrent module takes these: a sequence, two places for its state, and weights.
func recurs(g given) bool {
	for i := 3; i < len(g.in); i++ {
		if !g.tensor(i) {
			return false
		}
	}
	return g.tensor(0) && g.rank(0) == 3 && len(g.in) >= 3 && g.args.Hidden > 0 && g.args.Hidden <= 1<<30 &&
		g.args.Layers > 0
}

func attendsToItself(g given) bool {
	return g.rank(0) == 3 && g.rank(1) == 2 && g.shape(1)[1] == g.shape(0)[2] && g.args.Groups > 0
}

// endsAttention reports whether what is averaged are weights of all heads, [B * H, L, S].
func endsAttention(g given) bool {
	return g.args.Mode == "" || g.rank(4) == 3 && g.args.Groups > 0 && g.shape(4)[0]%g.args.Groups == 0
}

// attends reports whether scaled_dot_product_attention takes these: of one rank, with the heads of queries a multiple
// of those of keys in four dimensions, and all dimensions before the last two the same in others.
func attends(g given) bool {
	q, k, v := g.shape(0), g.shape(1), g.shape(2)
	n := len(q)
	if !g.tensor(0) || !g.tensor(1) || !g.tensor(2) || n < 3 || len(k) != n || len(v) != n || q[n-1] != k[n-1] ||
		k[n-2] != v[n-2] {
		return false
	}
	if n == 4 {
		if k[1] <= 0 || q[1]%k[1] != 0 || k[1] != v[1] {
			return false
		}
	} else if !slices.Equal(q[:n-2], k[:n-2]) || !slices.Equal(k[:n-2], v[:n-2]) {
		return false
	}
	if !g.tensor(3) {
		return true
	}
	mask := g.shape(3)
	return len(mask) >= 1 && Broadcasts(mask, append(slices.Clone(q[:n-1]), k[n-2]))
}

// transforms reports whether a real tensor has these dimensions to transform, transformsToReal whether a complex one
// has.
func transforms(g given) bool { return len(g.args.Dims) > 0 && worksOnDims(g) }

func transformsToReal(g given) bool {
	k := g.rank(0) - 1
	return transforms(g) && g.shape(0)[k] == 2 && len(g.args.Shape) == k && !slices.Contains(g.args.Dims, k)
}
