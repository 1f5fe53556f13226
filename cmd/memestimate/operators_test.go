package main

import (
	"os"
	"strings"
	"testing"
)

// docs/operators.md lists the operators as the program does; -update-readme writes it anew.
func TestOperatorsPage(t *testing.T) {
	const path = "../../docs/operators.md"
	table, _, code := try(t, "ops", "--format", "markdown")
	if code != exitOK {
		t.Fatal(code)
	}
	want := strings.ReplaceAll(`# Operators

The ONNX operators whose shapes are known, with the versions from which their rows hold. 'memestimate ops' prints the
same; this page is written by 'go test ./cmd/memestimate -run OperatorsPage -update-readme', and
[contributing.md](contributing.md) adds to it.

`, "'", "`") + table
	if *updateReadme {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is out of date: go test ./cmd/memestimate -run OperatorsPage -update-readme", path)
	}
	if strings.Count(want, "\n|") < 200 {
		t.Errorf("%d operators", strings.Count(want, "\n|"))
	}
}
