package estimate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
)

// Every node of ONNX's own tests is trained, its inputs taken for parameters: whatever operator
// it becomes, the requests must be in order, and every free be of a live block.
func TestEveryNodeTrains(t *testing.T) {
	runs, calls := 0, map[string]bool{}
	err := onnxtest.Archives("shape/testdata/onnx-nodes*.tar.gz", func(name string, raw []byte) {
		m, err := onnxload.Read(bytes.NewReader(raw), int64(len(raw)), onnxload.Options{Path: name})
		if err != nil {
			return // the reader has tests of its own
		}
		for _, opts := range []torch.Options{
			{}, {Train: true, Settings: torch.Settings{Loss: "mean"}}, {Train: true,
				Settings: torch.Settings{Loss: "mean", Precision: torch.AMPBF16}}, {Train: true,
				Settings: torch.Settings{Loss: "mean", Precision: torch.FP16, ChannelsLast: true}},
		} {
			b, err := Bind(m, Options{})
			if err != nil {
				continue // likewise shape inference
			}
			p, err := b.Program(opts.Train)
			if err != nil {
				continue
			}
			trainInputs(p)
			if opts.Train && (len(p.Outputs) == 0 || !p.Values[p.Outputs[0]].DType.IsFloat()) {
				continue
			}
			run, err := torch.Simulate(p, opts)
			if err != nil && strings.Contains(err.Error(), "depends on no parameter") {
				continue // there is nothing to train
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			runs++
			for _, c := range p.Calls {
				calls[c.Op] = true
			}
			checkBlocks(t, name, run.Log.Timeline())
		}
	})
	must.OK(t, err)
	t.Logf("%d runs of %d operators", runs, len(calls))
	if runs < 3000 || len(calls) < 80 {
		t.Errorf("only %d runs and %d operators", runs, len(calls))
	}
}

// trainInputs makes parameters of a program's floating point inputs.
func trainInputs(p *program.Program) {
	var rest []program.ValueID
	for _, id := range p.Inputs {
		if v := &p.Values[id]; v.DType.IsFloat() {
			v.Kind = program.Parameter
			p.State = append(p.State, id)
		} else {
			rest = append(rest, id)
		}
	}
	p.Inputs = rest
}

func checkBlocks(t *testing.T, name string, tl *timeline.Timeline) {
	t.Helper()
	live := make([]int64, tl.Blocks)
	for i, e := range tl.Events {
		switch e.Kind {
		case timeline.Alloc:
			if e.Bytes <= 0 || live[e.Block] != 0 {
				t.Errorf("%s: event %d allocates %d bytes for block %d, which has %d", name, i, e.Bytes, e.Block, live[e.Block])
				return
			}
			live[e.Block] = e.Bytes
		case timeline.Free:
			if live[e.Block] != e.Bytes {
				t.Errorf("%s: event %d frees %d bytes of block %d, which has %d", name, i, e.Bytes, e.Block, live[e.Block])
				return
			}
			live[e.Block] = 0
		}
	}
}
