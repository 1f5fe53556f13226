package program

// CallsByOrigin returns the indices of the calls that were recovered from each thing.
func (p *Program) CallsByOrigin() [][]int32 {
	by := make([][]int32, p.Origins)
	for i := range p.Calls {
		if o := p.Calls[i].Origin; o >= 0 && int(o) < len(by) {
			by[o] = append(by[o], int32(i))
		}
	}
	return by
}

// LayerOf returns the name of the layer of a call, "" where it has none.
func (p *Program) LayerOf(call int32) string {
	if l := p.Calls[call].Layer; l >= 0 && int(l) < len(p.Layers) {
		return p.Layers[l]
	}
	return ""
}

// ResultBytes returns the bytes of the tensors that a call returns. Sizes were checked when the graph was read.
func (p *Program) ResultBytes(call int32) (sum int64) {
	for _, v := range p.Calls[call].Out {
		sum += p.Values[v].Bytes()
	}
	return sum
}

// Bytes returns what a tensor takes in 32-bit precision. Sizes were checked when the graph was read.
func (v *Value) Bytes() int64 { return BytesOf(Numel(v.Shape), v.DType) }
