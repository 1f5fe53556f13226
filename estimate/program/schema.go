package program

import "math"

// An Operator is all that is said of an operator of ATen, but for what a call of it costs: that is its row in package
// torch.
type Operator struct {
	Name  string
	Least int // how many tensors a call has; the first of them are never left out
	Most  int
	Traits
	fits func(g given) bool // whether a call's arguments are such as its rule can work with; nil where any are
}

// Traits are what else an operator is.
type Traits uint64

// The traits.
const (
	TakesNumbers Traits = 1 << iota // it takes Python numbers beside tensors; others are given tensors of them
	Product                         // multiplies its arguments as matrices
	Look                            // looks at its argument differently, or copies it for that
	Nonlinearity                    // a function of activation, which programs call inside of expressions
	// a function of torch.nn.functional that programs wrap around the call of a module, as they do activations
	Wrapper
	Pointwise   // works element by element, so that its result is divided where its arguments are
	Switchable  // an activation whose module has an option inplace
	KeepsResult // its backward reads its result, which nothing may write over before it
	Same        // its result has the elements of its first argument, laid out anew, copied or cast
	// its backward needs of what it keeps no more than on which side of a limit it lies, which is a bool an element
	Compares
	Noise       // multiplies by a mask of random numbers
	ChannelNorm // normalises with the statistics of channels, or of groups of them
	FeatureNorm // normalises with the statistics of the last dimensions: of each token
	Picks       // takes a part of its first argument out by its place, as x[i] does
	Joins       // joins its arguments to one tensor
	Parts       // returns parts of its argument, which programs give names: a, b = x.chunk(2)
	Table       // reads rows of its first argument, a table, by the integers in its second

	// How many products each element of its result is the sum of, for those who count floating-point operations.
	RowSum       // as many as a row of its first argument has elements
	SecondRowSum // as many as one of its second has: addmm(bias, x, w)
	WeightSum    // as many as its weight has elements for each channel
	Attention    // softmax(q @ k.T) @ v, of its first two

	Factory // makes a new tensor; of an argument it takes the shape alone
	Spreads // its result repeats the elements of its argument
	Tests   // its result is a bool for each element
	Cuts    // no gradient goes through it, whatever its result is of
	Writes  // writes into its first argument, which is its result
)

// Is reports whether an operator is any of these.
func (o *Operator) Is(t Traits) bool { return o.Traits&t != 0 }

// many stands for any number of tensors.
const many = math.MaxInt

// operators have a row each. One that is not here takes one tensor, of any kind, and is nothing else of all this.
var operators = index([]Operator{
	{"add", 2, 2, TakesNumbers | Pointwise, addsInPlace},
	{"sub", 2, 2, TakesNumbers | Pointwise, addsInPlace},
	{"mul", 2, 2, TakesNumbers | Pointwise, nil},
	{"div", 2, 2, TakesNumbers | Pointwise, nil},
	{"pow", 2, 2, TakesNumbers | Pointwise, nil},
	{"maximum", 2, 2, TakesNumbers | Pointwise, nil},
	{"minimum", 2, 2, TakesNumbers | Pointwise, nil},
	{"remainder", 2, 2, TakesNumbers | Pointwise, nil},
	{"bitwise", 1, 2, TakesNumbers | Pointwise, nil},
	{"compare", 1, 2, TakesNumbers | Pointwise | Tests, nil},
	{"where", 3, 3, TakesNumbers | Pointwise, nil},
	{"masked_fill", 2, 2, Pointwise, nil},
	{"clamp", 1, 1, TakesNumbers | Pointwise, nil},
	{"type_as", 2, 2, TakesNumbers | Pointwise | Same, nil},
	{"to", 1, 1, TakesNumbers | Pointwise | Same, nil},
	{"float", 1, 1, TakesNumbers | Pointwise | Same, nil},
	{"clone", 1, 1, TakesNumbers | Pointwise | Same, nil},
	{"fill", 0, 1, TakesNumbers | Factory, given.all},
	{"opaque", 0, many, TakesNumbers, nil},

	{"relu", 1, 1, TakesNumbers | Nonlinearity | Pointwise | Switchable | KeepsResult | Compares, nil},
	{"leaky_relu", 1, 1, TakesNumbers | Nonlinearity | Pointwise | Switchable | KeepsResult | Compares, nil},
	{"elu", 1, 1, TakesNumbers | Nonlinearity | Pointwise | Switchable | KeepsResult, nil},
	{"gelu", 1, 1, TakesNumbers | Nonlinearity | Pointwise, nil},
	{"silu", 1, 1, TakesNumbers | Nonlinearity | Pointwise | Switchable, nil},
	{"mish", 1, 1, TakesNumbers | Nonlinearity | Pointwise | Switchable, nil},
	{"softplus", 1, 1, TakesNumbers | Nonlinearity | Pointwise, nil},
	{"hardtanh", 1, 1, TakesNumbers | Nonlinearity | Pointwise | Switchable | KeepsResult | Compares, nil},
	{"sigmoid", 1, 1, TakesNumbers | Nonlinearity | Pointwise | KeepsResult, nil},
	{"tanh", 1, 1, TakesNumbers | Nonlinearity | Pointwise | KeepsResult, nil},
	{"exp", 1, 1, TakesNumbers | Nonlinearity | Pointwise | KeepsResult, nil},
	{"hardswish", 1, 1, TakesNumbers | Pointwise | Switchable, nil},
	{"hardsigmoid", 1, 1, TakesNumbers | Pointwise | Switchable, nil},
	{"log", 1, 1, TakesNumbers | Pointwise, nil},
	{"sqrt", 1, 1, TakesNumbers | Pointwise | KeepsResult, nil},
	{"rsqrt", 1, 1, TakesNumbers | Pointwise | KeepsResult, nil},
	{"reciprocal", 1, 1, TakesNumbers | Pointwise | KeepsResult, nil},
	{"erf", 1, 1, TakesNumbers | Pointwise, nil},
	{"sin", 1, 1, TakesNumbers | Pointwise, nil},
	{"cos", 1, 1, TakesNumbers | Pointwise, nil},
	{"abs", 1, 1, TakesNumbers | Pointwise, nil},
	{"neg", 1, 1, TakesNumbers | Pointwise, nil},
	{"square", 1, 1, TakesNumbers | Pointwise, nil},
	{"floor", 1, 1, TakesNumbers | Pointwise, nil},
	{"ceil", 1, 1, TakesNumbers | Pointwise, nil},
	{"round", 1, 1, TakesNumbers | Pointwise, nil},
	{"sign", 1, 1, TakesNumbers | Pointwise, nil},
	{"tan", 1, 1, KeepsResult, nil},
	{"threshold", 1, 1, Compares, nil},
	{"softmax", 1, 1, KeepsResult, nil},
	{"softmax_float", 1, 1, KeepsResult, nil},
	{"log_softmax", 1, 1, KeepsResult, nil},
	{"to_compute", 1, 1, Pointwise | Same, nil},
	{"detach", 1, 1, Pointwise | Cuts, nil},
	{"prelu", 2, 2, 0, func(g given) bool { return Broadcasts(g.shape(1), g.shape(0)) }},
	{"glu", 1, 1, 0, worksOnDim},
	{"dropout", 1, 1, Wrapper | Pointwise | Noise, nil},
	{"feature_dropout", 1, 1, Noise, nil},

	{"linear", 2, 3, RowSum, multipliesRows},
	{"matmul", 2, 2, Product | RowSum, multipliesMatrices},
	{"einsum", 1, many, Product, given.all},
	{"fft_r2c", 1, 1, 0, transforms},
	{"fft_c2r", 1, 1, 0, transformsToReal},
	{"addmm", 3, 3, SecondRowSum, addsToProduct},
	{"weight_norm", 2, 2, 0, nil},
	{"conv", 2, 3, WeightSum, convolves},
	{"deform_conv", 3, 5, 0, deforms},
	{"conv_transpose", 2, 3, WeightSum, convolves},
	{"sdpa", 3, 4, TakesNumbers | Product | Attention, attends},
	{"native_attention", 4, 6, 0, attendsToItself}, // x, weights and biases of both projections, a mask
	{"attention_end", 3, 5, 0, endsAttention},      // queries, keys, values, scaled queries, weights
	{"lstm", 1, many, TakesNumbers, recurs},
	{"gru", 1, many, TakesNumbers, recurs},
	{"rnn", 1, many, TakesNumbers, recurs},

	{"batch_norm", 1, 3, ChannelNorm, normalisesChannels},
	{"instance_norm", 1, 3, ChannelNorm, normalisesChannels},
	{"group_norm", 1, 3, ChannelNorm, normalisesGroups},
	{"layer_norm", 1, 3, FeatureNorm, normalisesLast},
	{"rms_norm", 1, 2, FeatureNorm, normalisesLast},
	{"normalize", 1, 1, 0, worksOnDims},
	{"nll_loss", 2, 2, 0, nil},

	{"max_pool", 1, 1, Wrapper, resizes},
	{"max_unpool", 2, 2, 0, resizes},
	{"avg_pool", 1, 1, Wrapper, resizes},
	{"adaptive_max_pool", 1, 1, 0, resizes},
	{"adaptive_avg_pool", 1, 1, Wrapper, func(g given) bool { return g.rank(0) >= 2 && len(g.args.Shape) == g.rank(0) }},
	{"upsample", 1, 1, 0, resizes},
	{"constant_pad", 1, 1, 0, resizes},
	{"reflection_pad", 1, 1, 0, resizes},
	{"pixel_shuffle", 1, 1, 0, resizes},
	{"col2im", 1, 1, 0, resizes},
	{"grid_sample", 2, 2, 0, resizes},
	{"roi_align", 2, 2, 0, func(g given) bool { return resizes(g) && g.rank(1) >= 1 }},

	{"reshape", 1, 1, Look | Same, func(g given) bool { return Numel(g.args.Shape) == Numel(g.shape(0)) }},
	{"permute", 1, 1, Look | Same, turns},
	{"contiguous", 1, 1, Look | Pointwise | Same, nil},
	{"expand", 1, 1, Spreads, func(g given) bool { return Broadcasts(g.shape(0), g.args.Shape) }},
	{"slice", 1, 1, Picks, takesParts},
	{"unsqueeze", 1, 1, Same, func(g given) bool { return g.args.Dim >= 0 && g.args.Dim <= g.rank(0) }},
	{"squeeze", 1, 1, Same, worksOnDim},
	{"select", 1, 1, Picks, worksOnDim},
	{"unbind", 1, 1, Parts, func(g given) bool { return worksOnDim(g) && g.shape(0)[g.args.Dim] > 0 }},
	{"split", 1, 1, Parts, func(g given) bool { return worksOnDim(g) && len(g.args.Shape) > 0 }},
	{"cat", 1, many, Joins, joins},
	{"stack", 1, many, Joins, stacks},

	{"embedding", 2, 2, Table, func(g given) bool { return g.rank(0) >= 1 }},
	{"index", 2, 2, Picks, nil},
	{"gather", 2, 2, 0, nil},
	{"scatter", 3, 3, 0, nil},
	{"assign", 2, 2, Writes, nil},

	{"mean", 1, 1, 0, worksOnDims},
	{"sum", 1, 1, 0, worksOnDims},
	{"amax", 1, 1, 0, worksOnDims},
	{"norm", 1, 1, 0, worksOnDims},
	{"norm1", 1, 1, 0, worksOnDims},
	{"prod", 1, 1, 0, worksOnDims},
	{"logsumexp", 1, 1, 0, worksOnDims},
	{"argmax", 1, 1, 0, worksOnDims},
	{"max_dim", 1, 1, 0, worksOnDims},
	{"var", 1, 1, 0, worksOnDims},
	{"std", 1, 1, 0, worksOnDims},
})

func index(rows []Operator) map[string]*Operator {
	m := make(map[string]*Operator, len(rows))
	for i := range rows {
		m[rows[i].Name] = &rows[i]
	}
	return m
}

// plain is what is said of an operator without a row.
var plain = Operator{Least: 1, Most: 1}

// Of returns what is said of an operator.
func Of(op string) *Operator {
	if o := operators[op]; o != nil {
		return o
	}
	return &plain
}
