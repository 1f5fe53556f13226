package shape

import (
	"cmp"
	"slices"
	"strings"
)

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
