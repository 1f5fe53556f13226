package diff

import (
	"strconv"
	"strings"
	"unique"

	"github.com/memestimate/memestimate/estimate/recover/module"
)

// A key is what a layer is matched by. Its texts are handles, so that comparing two keys takes no longer for long names.
type key struct {
	name, op  unique.Handle[string]
	module    unique.Handle[string] // of "" where there is none
	nth       int32                 // among the module's layers with this operator
	structure unique.Handle[string] // see structure
}

// none is the module of layers that have none.
var none = unique.Make("")

// keys returns the keys of the layers of a model.
func keys(layers []module.Layer) []key {
	out := make([]key, len(layers))
	type call struct{ module, op unique.Handle[string] }
	seen := map[call]int32{}
	for i := range layers {
		l := &layers[i]
		k := key{name: unique.Make(nameOf(l)), op: unique.Make(l.Op), module: unique.Make(l.Module),
			structure: unique.Make(structure(l))}
		c := call{k.module, k.op}
		k.nth = seen[c]
		seen[c]++
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
	return k.name == o.name || k.module != none && k.module == o.module && k.nth == o.nth
}

// sameName reports whether nobody would call two layers renamed: the name that is shown, which is the
// module's where there is one, stays.
func sameName(a, b *module.Layer) bool {
	if a.Module != "" && a.Module == b.Module && !strings.HasPrefix(a.Name, "/") {
		return true
	}
	return nameOf(a) == nameOf(b)
}

// structure writes all of a layer that takes memory: its operator, its outputs and its parameters.
func structure(l *module.Layer) string {
	b := append(make([]byte, 0, 64), l.Op...)
	b = append(b, 0)
	number := func(n int64) { b = append(strconv.AppendInt(b, n, 10), ' ') }
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
