package kernels

// atenIndex are the operators that pick elements by integer tensors.
var atenIndex = []operator{
	{"embedding", on((*Kernels).embedding, 1)},
	{"embedding_dense_backward", on((*Kernels).embeddingBackward, 0, 1)}, // cuda/Embedding.cu
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

// indexPut is index_put(self, indices, values, accumulate): with accumulation the places are sorted.
func (k *Kernels) indexPut(c *Call) {
	k.makes(0)
	x, values := c.tensor(0), c.tensor(2)
	if x == nil || values == nil || !c.flag(3) {
		return
	}
	// The places of all indices are broadcast, and count as one dimension of as many rows as theirs have together.
	n, rows := int64(1), int64(1)
	width := int64(1)
	for i, a := range c.arg(1).List {
		if a.Tensor == nil || i >= len(x.Shape) {
			continue
		}
		n = max(n, a.Tensor.Elements)
		rows = saturate(rows, x.Shape[i])
		width++
	}
	k.play(IndexPut(n, rows, values.copied(RowMajor)))
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
