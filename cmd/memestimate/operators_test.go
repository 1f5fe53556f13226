package main

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/test/must"
)

// docs/operators.md lists the operators that the tables have; -update-readme writes it anew.
func TestOperatorsPage(t *testing.T) {
	const path = "../../docs/operators.md"
	var want strings.Builder
	want.WriteString(strings.ReplaceAll(`# Operators

The ONNX operators whose shapes are known, with the versions from which their rows hold. This page is written by
'go test ./cmd/memestimate -run OperatorsPage -update-readme', and [contributing.md](contributing.md) adds to it.

| domain | operator | from version |
|---|---|---|
`, "'", "`"))
	for _, op := range shape.Operators() {
		since := strings.Join(strings.Fields(strings.Trim(fmt.Sprint(op.Since), "[]")), ", ")
		fmt.Fprintf(&want, "| %s | %s | %s |\n", cmp.Or(op.Domain, "ai.onnx"), op.Name, since)
	}
	if *updateReadme {
		must.Write(t, path, []byte(want.String()))
	}
	got := must.Read(t, path)
	if string(got) != want.String() {
		t.Errorf("%s is out of date: go test ./cmd/memestimate -run OperatorsPage -update-readme", path)
	}
	if n := len(shape.Operators()); n < 200 {
		t.Errorf("%d operators", n)
	}
}
