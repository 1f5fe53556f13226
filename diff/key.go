package diff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate"
)

// A key is what a layer is matched by.
type key struct {
	name, op  string
	module    string
	nth       int // among the module's layers with this operator
	structure string
}

// keys returns the keys of a model's layers.
func keys(layers []estimate.Layer) []key {
	out := make([]key, len(layers))
	type call struct{ module, op string }
	seen := map[call]int{}
	for i := range layers {
		l := &layers[i]
		k := key{name: nameOf(l), op: l.Op, module: l.Module, structure: structure(l)}
		if l.Module != "" {
			c := call{l.Module, l.Op}
			k.nth = seen[c]
			seen[c]++
		}
		out[i] = k
	}
	return out
}

// nameOf returns a layer's name to the byte.
func nameOf(l *estimate.Layer) string {
	if l.NameBytes != nil {
		return string(l.NameBytes)
	}
	return l.Name
}

// sameName reports whether two layers of the same operator have one name: their own, or, since exporters
// number the nodes of a whole graph, that of their module and their turn in it.
func (k *key) sameName(o *key) bool {
	return k.name == o.name || k.module != "" && k.module == o.module && k.nth == o.nth
}

// sameName reports whether nobody would call two layers renamed: the name that is shown, which is the
// module's where there is one, stays.
func sameName(a, b *estimate.Layer) bool {
	if a.Module != "" && a.Module == b.Module && !strings.HasPrefix(a.Name, "/") {
		return true
	}
	return nameOf(a) == nameOf(b)
}

// structure is all of a layer that takes memory: its operator, its outputs and its parameters.
func structure(l *estimate.Layer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %d %d %d %t", l.Op, l.Params, l.ParamBytes, l.Activation, l.InPlace)
	for _, t := range l.Outputs {
		if t.Shape == nil {
			fmt.Fprintf(&b, " %s?", t.DType)
			continue
		}
		fmt.Fprintf(&b, " %s%v", t.DType, t.Shape)
	}
	return b.String()
}

func sameStructure(a, b *estimate.Layer) bool {
	return a.Op == b.Op && a.Params == b.Params && a.ParamBytes == b.ParamBytes && a.Activation == b.Activation && a.InPlace == b.InPlace &&
		slices.EqualFunc(a.Outputs, b.Outputs, func(x, y estimate.Tensor) bool {
			return x.DType == y.DType && (x.Shape == nil) == (y.Shape == nil) && slices.Equal(x.Shape, y.Shape)
		})
}
