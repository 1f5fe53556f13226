package main

import (
	"go/parser"
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/adding-an-operator.md names files and tables that there are, and its rows are Go.
func TestAddingAnOperatorPage(t *testing.T) {
	data, err := os.ReadFile("../../docs/adding-an-operator.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for _, m := range regexp.MustCompile("`(estimate/[a-z_/]+\\.(?:go|txt))`").FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat("../../" + m[1]); err != nil {
			t.Error(err)
		}
	}
	for file, names := range map[string][]string{
		"estimate/recover/nodes.go": {"var nodeRows = ", `{"IsNaN", "data", 0, unaryCall("compare")}`,
			`{"IsInf", "data", 0, unaryCall("compare")}`},
		"estimate/recover/rows_test.go":              {"func TestRowsNameONNXInputs("},
		"estimate/arity_test.go":                     {"func TestEveryArity("},
		"estimate/program/schema.go":                 {"var operators = index([]Operator{", "Nonlinearity"},
		"estimate/torch/arity_test.go":               {"func TestEveryCallThatFits("},
		"estimate/operator_names_test.go":            {"func TestATenOperatorsAreNamedByTheirRows("},
		"estimate/recover/module/facts.go":           {"func Inputs(", "type Traits "},
		"estimate/torch/ops_pointwise.go":            {"var pointwiseOps = []op{", "keepsResult"},
		"estimate/torch/rows_test.go":                {"var examples = "},
		"estimate/torch/operators_cases_test.go":     {"var singleCases = "},
		"estimate/torch/testdata/unary.txt":          {"Relu: relu keeps result, backward 1\n"},
		"estimate/shape/activation.go":               {", unary, nil},\n"},
		"estimate/shape/testdata/ops/activation.txt": {" -> "},
	} {
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Error(err)
		}
		for _, name := range names {
			if !strings.Contains(string(text), name) {
				t.Errorf("%s has no %q, of which the page speaks", file, name)
			}
		}
	}
	rows := fenced(page, "go")
	if len(rows) != 4 || len(fenced(page, "text")) != 2 {
		t.Errorf("%d rows and %d lines", len(rows), len(fenced(page, "text")))
	}
	for _, row := range rows {
		row, _, _ = strings.Cut(strings.TrimSpace(row), " //")
		if _, err := parser.ParseExpr("row" + strings.TrimSuffix(row, ",")); err != nil {
			t.Errorf("%s: %v", row, err)
		}
	}
}
