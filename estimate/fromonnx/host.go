package fromonnx

import (
	"github.com/memestimate/memestimate/estimate/aten"
	"github.com/memestimate/memestimate/estimate/fromonnx/dialect"
	"github.com/memestimate/memestimate/onnxload"
)

// hostSlots are the inputs that PyTorch takes as Python numbers.
var hostSlots = map[string]uint32{
	"Reshape": 1 << 1, "Expand": 1 << 1, "ConstantOfShape": 1 << 0, "Tile": 1 << 1,
	"Slice": 1<<1 | 1<<2 | 1<<3 | 1<<4, "Squeeze": 1 << 1, "Unsqueeze": 1 << 1, "Split": 1 << 1,
	"Pad": 1<<1 | 1<<2 | 1<<3, "Resize": 1<<1 | 1<<2 | 1<<3, "Range": 7, "OneHot": 1 << 1, "TopK": 1 << 1,
	"ReduceSum": 1 << 1, "ReduceMean": 1 << 1, "ReduceMax": 1 << 1, "ReduceMin": 1 << 1, "ReduceProd": 1 << 1,
	"ReduceL1": 1 << 1, "ReduceL2": 1 << 1, "ReduceLogSumExp": 1 << 1, "ReduceSumSquare": 1 << 1, "ReduceLogSum": 1 << 1,
	"Clip": 1<<1 | 1<<2, "Dropout": 1<<1 | 1<<2, "CumSum": 1 << 1, "Trilu": 1 << 1, "Shape": 1, "Size": 1,
	"Upsample": 1 << 1, "CenterCropPad": 1 << 1, "AffineGrid": 1 << 1, "CastLike": 1 << 1,
	// Ones and zeros, where the module has no parameters: see affine.
	"BatchNormalization": 1<<1 | 1<<2, "InstanceNormalization": 1<<1 | 1<<2, "LayerNormalization": 1<<1 | 1<<2, "GroupNormalization": 1<<1 | 1<<2,
}

// findHost decides which values Python computes: those that come from shapes and constants
// alone and go nowhere but to such slots.
func (b *recovery) findHost() {
	b.fixed = make([]bool, len(b.of))
	fixed := b.fixed
	for i := range fixed {
		fixed[i] = b.m.Values[i].Init != nil && b.src.Kinds[i] != aten.Parameter && b.src.Kinds[i] != aten.Buffer
		if fixed[i] && b.isBiasOfHeads(onnxload.ValueID(i)) && b.guess(dialect.HeadBias) {
			if b.looked == nil {
				b.looked = map[onnxload.ValueID]bool{}
			}
			b.looked[onnxload.ValueID(i)], fixed[i] = true, false
		}
	}
	for _, n := range b.nodes {
		ok := n.Op == "Shape" || n.Op == "Size" || n.Op == "Constant"
		if !ok && len(n.In) > 0 {
			ok = true
			for j := range n.In {
				v := b.in(n, j)
				onlyType := n.Op == "CastLike" && j == 1
				ok = ok && (v == onnxload.NoValue || fixed[v] || onlyType)
			}
			if n.Op == "RandomNormal" || n.Op == "RandomUniform" || n.Op == "Loop" || n.Op == "Scan" {
				ok = false
			}
		}
		for _, v := range n.Out {
			if v != onnxload.NoValue {
				fixed[v] = ok
			}
		}
	}
	for i := len(b.nodes) - 1; i >= -1; i-- {
		var outs []onnxload.ValueID
		if i >= 0 {
			outs = b.nodes[i].Out
		}
		for _, v := range outs {
			if v != onnxload.NoValue {
				b.host[v] = fixed[v] && !b.out[v] && b.onlyHostUses(v)
			}
		}
	}
	for i := range b.host {
		id := onnxload.ValueID(i)
		if b.made[i] < 0 && fixed[i] && b.m.Values[i].Init != nil {
			b.host[i] = b.onlyHostUses(id)
		}
	}
	// What is one number is a Python number wherever it goes.
	for i := range b.host {
		if !fixed[i] || b.host[i] || b.out[i] {
			continue
		}
		if s, ok := b.types.Type(onnxload.ValueID(i)).Shape.Ints(); ok && aten.Numel(s) == 1 && len(s) == 0 {
			b.host[i] = true
		}
	}
}

func (b *recovery) onlyHostUses(v onnxload.ValueID) bool {
	for _, u := range b.usesOf(v) {
		n := b.nodes[u]
		mask := hostSlots[n.Op]
		hostOut := true
		for _, o := range n.Out {
			hostOut = hostOut && (o == onnxload.NoValue || b.host[o])
		}
		if hostOut && len(n.Out) > 0 {
			continue
		}
		for j := range n.In {
			if b.in(n, j) == v && mask&(1<<j) == 0 {
				return false
			}
		}
	}
	return true
}

// hostNode reports whether a node's outputs are all Python's.
func (b *recovery) hostNode(n *onnxload.Node) bool {
	if n.Op == "Identity" && n.Domain == "" {
		return true
	}
	for _, v := range n.Out {
		if v != onnxload.NoValue && !b.host[v] {
			return false
		}
	}
	return true
}
