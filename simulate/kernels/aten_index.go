package kernels

// atenIndex are the operators that pick elements by integer tensors.
var atenIndex = []operator{
	{"embedding", on((*Kernels).embedding, 1)},
	{"embedding_dense_backward", on((*Kernels).embeddingBackward, 0, 1)}, // cuda/Embedding.cu
	{"index", on((*Kernels).pick, 0)},                                    // TensorAdvancedIndexing.cpp
	{"index_put", (*Kernels).indexPut},                                   // cuda/Indexing.cu
	{"index_put_", (*Kernels).indexPut},
	{"_index_put_impl_", (*Kernels).indexPut},
	{"_unsafe_index_put", (*Kernels).indexPut},
	{"masked_scatter", (*Kernels).maskedScatter}, // cuda/IndexKernel.cpp
	{"masked_scatter_", (*Kernels).maskedScatter},
	{"im2col", (*Kernels).resized}, // cuda/Im2Col.cu
	{"col2im", (*Kernels).resized},
}

// embedding is embedding(weight, indices): index_select wants a row of ids, indices.reshape(-1).
func (k *Kernels) embedding(c *Call) {
	ids := c.tensor(1)
	flat := 0
	if !flattens(ids) {
		flat = 1
	}
	n := k.take(int64(flat) * ids.Bytes())
	k.makes(0)
	k.give(n)
}

// flattens reports whether view(-1) of t is possible.
func flattens(t *Tensor) bool {
	next := int64(-1)
	for i := len(t.Shape) - 1; i >= 0; i-- {
		if t.Shape[i] == 1 {
			continue
		}
		if next >= 0 && t.Stride[i] != next {
			return false
		}
		next = saturate(t.Stride[i], t.Shape[i])
	}
	return true
}

// embeddingBackward is embedding_dense_backward(grad_output, indices, num_weights, ...).
func (k *Kernels) embeddingBackward(c *Call) {
	g, ids := c.tensor(0), c.tensor(1)
	ii, gi := k.copyTo(ids, RowMajor), k.copyTo(g, RowMajor)
	k.play(EmbeddingBackward(ids.Elements, c.int(2), g.size(-1), g.Elem, k.device))
	k.give(gi, ii)
}

// picks are what the indices of a tensor say: which of them are masks on the GPU, how many rows their dimensions have
// together, how many elements each place has, and the places of the longest index that is no mask.
type picks struct {
	masks              []*Tensor
	rows, each, listed int64
}

func picked(x *Tensor, indices []Arg) picks {
	p, at := picks{rows: 1, each: 1, listed: 1}, 0
	size := func() int64 {
		at++
		if at > len(x.Shape) {
			return 1
		}
		return x.Shape[at-1]
	}
	for _, a := range indices {
		switch t := a.Tensor; {
		case t == nil:
			p.each = saturate(p.each, size())
		case t.DType == "bool" || t.DType == "uint8":
			for range t.Shape {
				p.rows = saturate(p.rows, size())
			}
			if !t.Host {
				p.masks = append(p.masks, t)
			}
		default:
			p.rows = saturate(p.rows, size())
			p.listed = max(p.listed, t.Elements)
		}
	}
	for at < len(x.Shape) {
		p.each = saturate(p.each, size())
	}
	return p
}

// maskPlaces allocates the places that masks name, n of each: expandTensors of IndexingUtils.h.
func (k *Kernels) maskPlaces(p picks, n int64) (found []int) {
	for _, mask := range p.masks {
		k.places(mask, func() { found = append(found, k.take(saturate(8, int64(len(mask.Shape)), n))) })
	}
	return found
}

// pick is index(self, indices): the places of masks are there before the result is, and as long as the operator runs.
func (k *Kernels) pick(c *Call) {
	p := picked(c.tensor(0), c.arg(1).List)
	found := k.maskPlaces(p, c.result(0).Elements/max(p.each, 1))
	k.makes(0)
	k.giveBack(found)
}

// indexPut is index_put(self, indices, values, accumulate): with accumulation the places are sorted, as if they were of
// one dimension of as many rows as theirs have together. One mask and one value are a masked_fill.
func (k *Kernels) indexPut(c *Call) {
	k.makes(0)
	x, values, adds := c.tensor(0), c.tensor(2), c.flag(3)
	if x == nil || values == nil || !adds && values.Elements == 1 {
		return
	}
	p := picked(x, c.arg(1).List)
	n := p.listed
	if len(p.masks) > 0 {
		n = values.Elements / max(p.each, 1)
	}
	found := k.maskPlaces(p, n)
	if adds {
		k.play(IndexPut(n, p.rows, values.copied(RowMajor)))
	}
	k.giveBack(found)
}

// resized is empty_like(self).resize_(shape): what is too small is replaced, what is too large keeps its storage. In
// between self is copied if it does not lie row by row, until the kernels are over.
func (k *Kernels) resized(c *Call) {
	x, y := c.tensor(0), c.result(0)
	switch {
	case x == nil:
	case y.Bytes() <= x.Bytes():
		k.makesAs(0, x.Bytes())
		k.give(k.copyTo(x, RowMajor))
	default:
		old := k.take(x.Bytes())
		rows := k.copyTo(x, RowMajor)
		k.makes(0)
		k.give(old, rows)
	}
}

// maskedScatter is masked_scatter(self, mask, source): how many of the mask are set before each element, in 8 bytes.
func (k *Kernels) maskedScatter(c *Call) {
	k.makes(0)
	x, mask, source := c.tensor(0), c.tensor(1), c.tensor(2)
	if x == nil || mask == nil || source == nil || x.Elements == 0 {
		return
	}
	sums, whole := k.take(saturate(x.Elements, 8)), int64(0)
	if mask.Elements != x.Elements || mask.copied(RowMajor) > 0 {
		whole = x.Elements
	}
	mi := k.take(saturate(whole, mask.Elem))
	k.scratch(scanTemp(x.Elements))
	si := k.copyTo(source, RowMajor)
	k.give(si, mi, sums)
}
