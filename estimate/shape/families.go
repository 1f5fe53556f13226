package shape

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// families lists the operators that this package knows, one line a family.
var families = []*family{
	&constantFamily,
	&controlFamily,
	&sequenceFamily,
	&mathFamily,
	&activationFamily,
	&logicFamily,
	&castFamily,
	&reduceFamily,
	&matmulFamily,
	&reshapeFamily,
	&arrangeFamily,
	&joinFamily,
	&sliceFamily,
	&padFamily,
	&gatherFamily,
	&scatterFamily,
	&pickFamily,
	&generateFamily,
	&convFamily,
	&poolFamily,
	&normFamily,
	&rnnFamily,
	&attentionFamily,
	&imageFamily,
	&signalFamily,
	&quantFamily,
	&detectFamily,
	&lossFamily,
	&fusedFamily,
	&legacyFamily,
}

// An opKey names an operator whatever its version.
type opKey struct{ domain, name string }

// A table finds the rows of an operator, oldest first.
type table map[opKey][]*op

// opTable indexes the families once.
var opTable = sync.OnceValue(func() table {
	t := make(table, 512)
	for _, r := range families {
		for i := range r.ops {
			k := opKey{r.domain, r.ops[i].name}
			rows := append(t[k], &r.ops[i])
			for j := len(rows) - 1; j > 0 && rows[j-1].since > rows[j].since; j-- {
				rows[j-1], rows[j] = rows[j], rows[j-1]
			}
			t[k] = rows
		}
	}
	return t
})

// find returns the row in force for an operator at a version: the newest that is not
// newer. A version before the first row takes the first, for exporters that stamp
// an older version than their operators need. It is nil for an unknown operator.
func (t table) find(domain, name string, version int64) *op {
	if domain == "ai.onnx" {
		domain = ""
	}
	rows := t[opKey{domain, name}]
	if rows == nil && domain == "" {
		// ONNX Runtime writes some of its own operators into the default domain, SimplifiedLayerNormalization
		// for one; their versions are not ONNX's.
		if rows = t[opKey{"com.microsoft", name}]; rows != nil {
			return rows[len(rows)-1]
		}
	}
	for i := len(rows) - 1; i >= 0; i-- {
		if rows[i].since <= version {
			return rows[i]
		}
	}
	if len(rows) > 0 {
		return rows[0]
	}
	return nil
}

// An Operator is what the table knows of one operator.
type Operator struct {
	Domain, Name string  // Domain is "" for ai.onnx
	Since        []int64 // the versions from which its rows hold, oldest first
}

// Operators lists the operators of the table, sorted by domain and name.
func Operators() []Operator {
	var out []Operator
	for k, rows := range opTable() {
		o := Operator{Domain: k.domain, Name: k.name}
		for _, r := range rows {
			o.Since = append(o.Since, r.since)
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b Operator) int {
		return cmp.Or(strings.Compare(a.Domain, b.Domain), strings.Compare(a.Name, b.Name))
	})
	return out
}

// legacyFamily has experimental operators of ONNX's first versions that later ones removed; converters of Core ML and
// Caffe2 wrote them.
var legacyFamily = family{"", []op{
	{"Affine", 1, unary, nil},
	{"Scale", 1, unary, nil},
	{"ImageScaler", 1, unary, nil},
}}
