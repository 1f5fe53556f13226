//go:build !nocrosscheck

package main

import (
	"fmt"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxgo"
	"github.com/memestimate/memestimate/report"
)

// crossCheck has onnx-go read the model as well. That the two readers disagree is an
// error: one of them has another model than the one in the file.
func crossCheck(in source, m *onnxload.Model) ([]estimate.Note, error) {
	rep, err := onnxgo.Check(m)
	if err != nil {
		return nil, fail(exitInput, "%s: %w", quoteArg(in.arg), err)
	}
	text := fmt.Sprintf("onnx-go reads the same model: %s nodes in %s", report.Count(int64(rep.Nodes)),
		count(rep.Graphs, "graph"))
	if rep.Calls > 0 {
		text += fmt.Sprintf(", %s of functions", count(rep.Calls, "call"))
	}
	return []estimate.Note{{Level: estimate.Info, Text: text}}, nil
}
