package module

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// foldedNorm reports whether a constant without a name is what an optimizer made of a frozen batch norm, scale and
// shift of every channel: x * mul + sub, where the program has x * (weight * (var + eps).rsqrt()) + (bias - mean *
// scale). TorchScript's names say less, so there x is to come from a convolution without bias, as it does before a
// norm.
func (a *Analysis) foldedNorm(c *constant) bool {
	if a.norms == nil {
		a.norms = map[onnxload.ValueID]int{}
		for i := range a.Steps {
			a.countFoldedNorm(a.Steps[i].Node)
		}
	}
	uses := 0
	for range a.usesOf(c) {
		uses++
	}
	return uses > 0 && a.norms[c.id] == uses
}

// countFoldedNorm counts the scale and the shift of a folded norm that an Add completes.
func (a *Analysis) countFoldedNorm(add *onnxload.Node) {
	of := func(id onnxload.ValueID, ops ...string) (onnxload.ValueID, bool) {
		from := a.Origins(id)
		if len(from) != 1 {
			return id, false
		}
		t := a.tensorOf(from[0])
		return from[0], t != nil && len(t.Dims) == 4 && isVector(t) &&
			slices.Contains(ops, strings.TrimRight(a.Model.NameOf(from[0]), "_0123456789"))
	}
	if add.Op != "Add" || len(add.In) != 2 || add.Input(0) == onnxload.NoValue || add.Input(1) == onnxload.NoValue ||
		a.made[add.Input(0)] < 0 {
		return
	}
	mul := a.Steps[a.made[add.Input(0)]].Node
	if mul.Op != "Mul" || len(mul.In) != 2 || mul.Input(0) == onnxload.NoValue || mul.Input(1) == onnxload.NoValue ||
		a.made[mul.Input(0)] < 0 {
		return
	}
	scale, ok := of(mul.Input(1), "mul", "onnx::Mul")
	shift, too := of(add.Input(1), "sub", "onnx::Add")
	if conv := a.Steps[a.made[mul.Input(0)]].Node; !ok || !too || strings.HasPrefix(a.Model.NameOf(scale), "onnx::") &&
		(conv.Op != "Conv" || len(conv.In) != 2) {
		return
	}
	a.norms[scale]++
	a.norms[shift]++
}

// BatchCounters tells behind which of n tensors of a module a counter of batches belongs: each torch.nn.BatchNorm
// with running statistics has an int64 buffer num_batches_tracked, which exporters leave out since nothing reads it.
// A frozen one, whose weight is a buffer, does not count; files that have counters have all.
func BatchCounters(producer string, n int, tensor func(i int) (name string, buffer bool)) (behind []int) {
	if producer != "pytorch" {
		return nil
	}
	frozen := map[string]bool{}
	for i := range n {
		name, buffer := tensor(i)
		if strings.HasSuffix(name, "num_batches_tracked") {
			return nil
		}
		if owner, ok := strings.CutSuffix(name, "weight"); ok && buffer {
			frozen[owner] = true
		}
	}
	for i := range n {
		name, buffer := tensor(i)
		if owner, ok := strings.CutSuffix(name, "running_var"); ok && buffer && !frozen[owner] {
			behind = append(behind, i)
		}
	}
	return behind
}

// BatchNormCounters counts the counters of batches that the file leaves out.
func (a *Analysis) BatchNormCounters(ws []Weight) int64 {
	return int64(len(BatchCounters(a.Model.Producer, len(ws), func(i int) (string, bool) {
		return a.Model.NameOf(ws[i].ID), ws[i].Role == RoleBuffer
	})))
}
