package module

import (
	"iter"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// views are ATen's operators whose result lies in what they are given, as torch.export names results after them.
var views = map[string]bool{
	"unsqueeze": true, "squeeze": true, "transpose": true, "permute": true, "t": true, "view": true, "reshape": true,
	"expand": true, "slice": true, "select": true, "detach": true, "alias": true, "split": true, "chunk": true,
	"_unsafe_view": true, "split_with_sizes": true, "unbind": true,
}

// IsComputed reports whether a constant is what the program computes whenever it runs, of its parameters, buffers and
// numbers alone: a mask of positions, an embedding of type ids that are all zero. onnxscript's optimizer computes it
// once, keeps the name that torch.export gave it, that of an operator, and lists of what it was computed. A view of a
// parameter or a buffer takes no memory, and what optimizers made themselves, val_3, is as a rule a weight laid
// otherwise.
func IsComputed(name string, t *onnxload.Tensor) bool {
	if t == nil || t.Folded == "" || isModulePath(name) {
		return false
	}
	if own := operatorOf(name); !views[own] {
		return own != "val"
	}
	for from := range FoldedFrom(t) {
		if op := operatorOf(from); !isModulePath(from) && op != "val" && !views[op] {
			return true
		}
	}
	return false
}

// FoldedFrom returns the names of what onnxscript's optimizer computed a constant of.
func FoldedFrom(t *onnxload.Tensor) iter.Seq[string] {
	return func(yield func(string) bool) {
		for from := range strings.SplitSeq(strings.Trim(t.Folded, "[]"), ",") {
			if !yield(strings.Trim(from, " '")) {
				return
			}
		}
	}
}

// isRepeated reports whether a constant is another that the exporter repeated, adj.repeat(batch, 1, 1): no module has
// such a parameter, and the program makes it whenever it runs.
func isRepeated(name string, t *onnxload.Tensor) bool {
	return t != nil && t.Folded != "" && operatorOf(name) == "repeat"
}

// CallOf takes apart what torch.export names what a call makes: "cos_1" is of the operator cos, and of its calls the
// second.
func CallOf(name string) (operator string, number int) {
	if k := strings.LastIndexByte(name, '_'); k > 0 {
		if n, err := strconv.ParseUint(name[k+1:], 10, 31); err == nil {
			return name[:k], int(n)
		}
	}
	return name, 0
}

func operatorOf(name string) string {
	operator, _ := CallOf(name)
	return operator
}

// compared reports whether what a model is given is compared with a constant as it is, or with parts of it: with the
// knots of splines, as networks of Kolmogorov and Arnold register them, register_buffer("grid", grid), or with limits.
// No gradient goes through a comparison, so that what is trained stands in none.
func (a *Analysis) compared(c *constant) bool {
	for u := range a.usesOf(c) {
		if a.facts(u.node).Has(Compares) && len(u.node.Out) > 0 && u.node.Output(0) != onnxload.NoValue &&
			a.flows[u.node.Output(0)] == data {
			return true
		}
	}
	return false
}

// filters reports whether a constant that has no name of the module's multiplies the real or imaginary parts of what a
// Fourier transform made, and does nothing else: a filter in the frequency domain, nn.Parameter(torch.randn(h, w, 2)),
// of which the optimizer of the default export has made two constants, its real and its imaginary half.
func (a *Analysis) filters(c *constant) bool {
	if a.spectra == nil {
		a.spectra = a.followSpectra()
	}
	uses := 0
	for u := range a.usesOf(c) {
		if u.node.Op != "Mul" || len(u.node.In) != 2 || u.slot > 1 || !a.spectra[u.node.Input(1-int(u.slot))] {
			return false
		}
		uses++
	}
	return uses > 0 && c.tensor.DType.IsFloat() && !isScalar(c.tensor)
}

// followSpectra returns what Fourier transforms made, scaled or not, and slices of it.
func (a *Analysis) followSpectra() map[onnxload.ValueID]bool {
	found := map[onnxload.ValueID]bool{}
	for i := range a.Steps {
		n := a.Steps[i].Node
		if len(n.In) == 0 || len(n.Out) == 0 || n.Input(0) == onnxload.NoValue || n.Output(0) == onnxload.NoValue {
			continue
		}
		switch n.Op {
		case "DFT":
			found[n.Output(0)] = true
		case "Slice", "Mul", "Div":
			if found[n.Input(0)] {
				found[n.Output(0)] = true
			}
		}
	}
	return found
}
