package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/program/parallel"
	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/report"
)

// pipeline estimates a pipeline of two stages.
func pipeline(t *testing.T, batch int64) *estimate.Report {
	t.Helper()
	raw, err := models.Open("vit_b_16")
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnxload.Read(bytes.NewReader(raw), int64(len(raw)), onnxload.Options{Path: "vit_b_16"})
	if err != nil {
		t.Fatal(err)
	}
	step := estimate.Step{Plan: parallel.Plan{GPUs: 2, Parallel: parallel.PP}}
	r, err := estimate.Run(m, estimate.Options{Batch: batch, Step: &step})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each stage has a row behind those of the limits: in the table of a check, and in that of a comment beside the base.
func TestStagesInTables(t *testing.T) {
	head, base := pipeline(t, 2), pipeline(t, 1)
	was := base.Peak.Safe
	line := budget.Line{Model: "vit.onnx", Total: diff.Safe, Value: head.Peak.Safe, Before: &was}
	x := checkedCase{head: head, base: base, lines: []budget.Line{line}}
	c := &checked{name: "vit.onnx", cases: []checkedCase{x}}
	rows := checkGrid([]*checked{c}, false).Rows
	if len(rows) != 3 {
		t.Fatalf("%d rows, want one and two stages: %q", len(rows), rows)
	}
	below := commentRow(c.name, c, &x, &line).below
	for i, s := range head.Stages {
		want := []string{"stage", "vit.onnx", "", "safe device memory, " + report.StageOf(i, 2), report.Size(s.Safe), "",
			report.Size(base.Stages[i].Safe)}
		if got := rows[1+i]; !slices.Equal(got[:7], want) || strings.HasPrefix(got[8], "from") != (i > 0) {
			t.Errorf("%q, want %q", got, want)
		}
		if got := below[i]; got[2] != unbroken(report.Size(base.Stages[i].Safe)) || got[3] != unbroken(report.Size(s.Safe)) ||
			strings.Contains(got[1], " from `encoder.layers") != (i > 0) {
			t.Errorf("in a comment: %q of %+v", got, s)
		}
	}
	if head.Stages[1].Begins == "" || head.Stages[0].Safe == head.Stages[1].Safe || head.Peak.Safe !=
		max(head.Stages[0].Safe, head.Stages[1].Safe) {
		t.Errorf("%+v with a peak of %+v", head.Stages, head.Peak)
	}
	base.Stages = base.Stages[:1] // other stages: nothing to set beside
	list, _ := x.stages(diff.Reserved)
	if len(list) != 2 || list[0].before != nil || list[0].value != head.Stages[0].Reserved {
		t.Errorf("beside a base of one stage: %+v", list)
	}
}

// The page has the table of stages.
func TestStagesOnThePage(t *testing.T) {
	var out bytes.Buffer
	q := &questions{}
	if err := q.html(&out, source{arg: "vit_b_16"}, pipeline(t, 1)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Stages of the pipeline", "encoder.layers.encoder_layer_6"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
}
