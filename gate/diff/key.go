package diff

import (
	"slices"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/estimate/recover/module"
)

// A key is what a layer is matched by. Its texts are numbers that stand for them, so that comparing
// two keys takes no longer for long names.
type key struct {
	name, op  int32
	module    int32 // 0 is none
	nth       int32 // among the module's layers with this operator
	structure int32 // all of a layer that takes memory: its operator, its outputs and its parameters
}

// numbers gives each text a number, from 1 on.
type numbers map[string]int32

func (n numbers) of(text string) int32 {
	if text == "" {
		return 0
	}
	k, ok := n[text]
	if !ok {
		k = int32(len(n)) + 1
		n[text] = k
	}
	return k
}

// keys returns the keys of the layers of two models.
func keys(base, head []module.Layer) (b, h []key) {
	texts, structures := numbers{}, numbers{}
	return keysOf(base, texts, structures), keysOf(head, texts, structures)
}

func keysOf(layers []module.Layer, texts, structures numbers) []key {
	out := make([]key, len(layers))
	type call struct{ module, op int32 }
	seen := map[call]int32{}
	for i := range layers {
		l := &layers[i]
		k := key{name: texts.of(nameOf(l)), op: texts.of(l.Op), module: texts.of(l.Module)}
		k.structure = structures.of(structure(l, k.op))
		if k.module != 0 {
			c := call{k.module, k.op}
			k.nth = seen[c]
			seen[c]++
		}
		out[i] = k
	}
	return out
}

// nameOf returns a layer's name to the byte.
func nameOf(l *module.Layer) string {
	if l.NameBytes != nil {
		return string(*l.NameBytes)
	}
	return l.Name
}

// sameName reports whether two layers of the same operator have one name: their own, or, since exporters
// number the nodes of a whole graph, that of their module and their turn in it.
func (k *key) sameName(o *key) bool {
	return k.name == o.name || k.module != 0 && k.module == o.module && k.nth == o.nth
}

// sameName reports whether nobody would call two layers renamed: the name that is shown, which is the
// module's where there is one, stays.
func sameName(a, b *module.Layer) bool {
	if a.Module != "" && a.Module == b.Module && !strings.HasPrefix(a.Name, "/") {
		return true
	}
	return nameOf(a) == nameOf(b)
}

// structure writes what sameStructure compares; op stands for the operator.
func structure(l *module.Layer, op int32) string {
	b := make([]byte, 0, 64)
	number := func(n int64) { b = append(strconv.AppendInt(b, n, 10), ' ') }
	number(int64(op))
	number(l.Params)
	number(l.ParamBytes)
	number(l.Activation)
	b = strconv.AppendBool(b, l.InPlace)
	for _, t := range l.Outputs {
		b = append(b, ' ')
		b = append(b, t.DType...)
		if t.Shape == nil {
			b = append(b, '?')
			continue
		}
		b = append(b, '[')
		for _, n := range t.Shape {
			number(n)
		}
	}
	return string(b)
}

func sameStructure(a, b *module.Layer) bool {
	return a.Op == b.Op && a.Params == b.Params && a.ParamBytes == b.ParamBytes && a.Activation == b.Activation &&
		a.InPlace == b.InPlace &&
		slices.EqualFunc(a.Outputs, b.Outputs, func(x, y module.Tensor) bool {
			return x.DType == y.DType && (x.Shape == nil) == (y.Shape == nil) && slices.Equal(x.Shape, y.Shape)
		})
}
