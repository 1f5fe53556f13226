// Package recovertest recovers programs from small graphs that tests write, and describes them.
package recovertest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// Recovered returns the program of a graph for training. Constants whose names have a dot are
// parameters, those that have one and end in "buffer" buffers; node names like "a.b:Op" are in module a.b, those like
// "a/a.l.0:Op" in a.l.0, which a calls.
func Recovered(g onnx.Graph) (*program.Program, error) { return RecoveredFor(g, true) }

// RecoveredFor is Recovered for a training or an inference.
func RecoveredFor(g onnx.Graph, train bool) (*program.Program, error) {
	return RecoveredAt(20, g, train)
}

// RecoveredAt is recovered under a version of ONNX's operators.
func RecoveredAt(opset int64, g onnx.Graph, train bool) (*program.Program, error) {
	return RecoveredBy("pytorch", opset, g, train)
}

// RecoveredBy is recovered from what some producer wrote.
func RecoveredBy(producer string, opset int64, g onnx.Graph, train bool) (*program.Program, error) {
	b := onnx.Model{Opset: opset, Opsets: []onnx.Import{{Domain: "com.microsoft", Version: 1}}, Producer: producer,
		Graph: g}.Bytes()
	m, err := onnxload.Read(bytes.NewReader(b), int64(len(b)), onnxload.Options{})
	if err != nil {
		return nil, err
	}
	types, err := shape.Infer(m, shape.Options{})
	if err != nil {
		return nil, err
	}
	kinds := make([]program.ValueKind, len(m.Values))
	for i, v := range m.Values {
		switch {
		case v.Init != nil && len(v.Init.Dims) == 1 && strings.Contains(v.Init.Folded, ".weight"):
			kinds[i] = program.Parameter // a scale that folding renamed
		case v.Init == nil || !strings.Contains(v.Name, "."):
		case strings.HasSuffix(v.Name, "buffer"):
			kinds[i] = program.Buffer
		default:
			kinds[i] = program.Parameter
		}
	}
	place := func(n *onnxload.Node) *module.Place {
		around, _, _ := strings.Cut(n.Name, ":")
		if !strings.Contains(around, "/") {
			return &module.Place{Module: around}
		}
		p := new(module.Place)
		for m := range strings.SplitSeq(around, "/") {
			p.Around += "/" + strings.TrimPrefix(m, p.Module)
			p.Module = m
		}
		p.Around = p.Around[1:]
		return p
	}
	p, _, err := recover.Recover(recover.Source{Model: m, Types: types, Kinds: kinds, Place: place, Train: train})
	return p, err
}

// CallsOf describes a program's calls: "linear(x, fc.weight, fc.bias)", one a line.
func CallsOf(p *program.Program) string {
	var lines []string
	for _, c := range p.Calls {
		var in []string
		for _, v := range c.In {
			switch {
			case v == program.NoValue:
				in = append(in, "-")
			case p.Values[v].Kind == program.Number:
				in = append(in, "number")
			case p.Values[v].Name == "":
				in = append(in, "_")
			default:
				in = append(in, p.Values[v].Name)
			}
		}
		line := fmt.Sprintf("%s(%s)", c.Op, strings.Join(in, ", "))
		if c.Args.Inplace {
			line += " in place"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// F32s is a constant of one float.
func F32s(name string, v float32) onnx.Tensor { return onnx.Float32s(name, v).Scalar() }

// Weights is a constant of floats of these sizes.
func Weights(name string, dims ...int64) onnx.Tensor {
	return onnx.Bare(name, onnxload.Float32, dims...)
}
