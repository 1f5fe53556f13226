package program

// FLOPs counts the multiplications and additions of the products, convolutions and attentions among calls first to
// last; those of other operators are lost beside them.
func FLOPs(p *Program, first, last int32) (sum float64) {
	for i := first; i <= last; i++ {
		c := &p.Calls[i]
		shape := func(k int) []int64 {
			if k >= len(c.In) {
				return nil
			}
			return p.Values[c.In[k]].Shape
		}
		elements := func(s []int64) float64 {
			n := 1.0
			for _, d := range s {
				n *= float64(d)
			}
			return n
		}
		last := func(s []int64) float64 {
			if len(s) == 0 {
				return 1
			}
			return float64(s[len(s)-1])
		}
		out := 1.0
		if len(c.Out) > 0 {
			out = elements(p.Values[c.Out[0]].Shape)
		}
		switch o := Of(c.Op); {
		case o.Is(RowSum):
			sum += 2 * out * last(shape(0))
		case o.Is(SecondRowSum):
			sum += 2 * out * last(shape(1))
		case o.Is(WeightSum): // a weight of all inputs of a group for each output
			if w := shape(1); len(w) > 1 {
				sum += 2 * out * elements(w[1:])
			}
		case o.Is(Attention): // queries with keys, and weights with values
			if q, k := shape(0), shape(1); len(q) > 1 && len(k) > 1 {
				sum += 4 * elements(q) * float64(k[len(k)-2])
			}
		}
	}
	return sum
}

// A Block is a call of a module that repeats, and what running it again would cost.
type Block struct {
	Name  string
	FLOPs float64
}

// RepeatedBlocks returns the modules that Repeated marks, in the order of their first calls, with all FLOPs of the
// forward pass.
func RepeatedBlocks(p *Program) (blocks []Block, all float64) {
	marked := Repeated(p)
	at := map[string]int{}
	for _, span := range spansOf(p, marked) {
		name := p.Scopes[within(p, p.Calls[span.First].Scope, marked)].Name
		k, ok := at[name]
		if !ok {
			k = len(blocks)
			at[name] = k
			blocks = append(blocks, Block{Name: name})
		}
		blocks[k].FLOPs += FLOPs(p, span.First, span.Last)
	}
	return blocks, FLOPs(p, 0, int32(len(p.Calls))-1)
}
