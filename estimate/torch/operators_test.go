package torch

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

// A measured operator of testdata/operator-events.json.gz.
type measuredCall struct {
	Name     string  `json:"name"`
	Op       string  `json:"op"`
	DType    string  `json:"dtype"`
	Layout   string  `json:"layout"`
	Kind     string  `json:"kind"`
	X        []int64 `json:"x"`
	W        []int64 `json:"w"`
	Out      []int64 `json:"out"`
	Stride   []int64 `json:"stride"`
	Dilation int64   `json:"dil"`
	Groups   int64   `json:"groups"`
	N        int64   `json:"n"`
	B        int64   `json:"b"`
	H        int64   `json:"h"`
	S        int64   `json:"s"`
	D        int64   `json:"d"`
	Bias     *bool   `json:"bias"`
	Hidden   int64   `json:"hidden"`
	Layers   int64   `json:"layers"`
	Both     bool    `json:"bi"`
	Dropout  float64 `json:"dropout"`
	Forward  []int64 `json:"fwd"`
	Backward []int64 `json:"bwd"`
}

func (m *measuredCall) dtype() program.DType {
	switch m.DType {
	case "bf16":
		return program.BFloat16
	case "fp16":
		return program.Float16
	}
	return program.Float32
}

// explained are the cases whose events differ although their family's agree, and why.
var explained = map[string]string{
	"amp block": "the same sizes; autocast's cache of casts is a hash map that is emptied in " +
		"the order of addresses",
	"batch_norm fp32 nhwc x [2 2048 7 7]":  "cuDNN's workspace beyond 512 channels is another",
	"batch_norm fp32 nhwc x [4 3 224 224]": "cuDNN's workspace for 3 channels is another",
}

// allocations returns the positive sizes: what was asked for, in order.
func allocations(sizes []int64) []int64 {
	return slices.DeleteFunc(slices.Clone(sizes), func(n int64) bool { return n < 0 })
}

// A verdict says how a prediction compares with the measurement.
type verdict struct {
	family, name string
	tensors      bool // the same tensors in order, the workspaces of cuDNN left out
	spaces, near int  // passes that may take a workspace, and those where it is predicted within a tenth
	sizes        bool // the same allocations in order
	events       bool // frees in their places too
	detail       string
}

func judge(family string, l *lab, forward, backward []int64, m *measuredCall) verdict {
	v := verdict{family: family, name: m.name()}
	if m.Forward == nil { // only the backward pass was measured
		forward = nil
	}
	v.sizes = slices.Equal(allocations(forward), allocations(m.Forward)) &&
		slices.Equal(allocations(backward), allocations(m.Backward))
	v.events = slices.Equal(forward, m.Forward) && slices.Equal(backward, m.Backward)
	ws := l.workspaces()
	v.tensors = v.sizes || sameTensors(forward, m.Forward, ws) && sameTensors(backward, m.Backward, ws)
	if v.tensors && slices.Contains(workspaceFamilies, family) {
		for k, pass := range [][2][]int64{{forward, m.Forward}, {backward, m.Backward}} {
			got, want := scratches(pass[0]), scratches(pass[1])
			for i := 1; i < len(want) && i <= k+1; i++ { // after the result; after the gradients of the input and the weight
				v.spaces++
				v.near += oneIf(within10(at(got, i), want[i]))
			}
		}
	}
	if !v.events {
		v.detail = fmt.Sprintf("F got  %s\n    F want %s\n    B got  %s\n    B want %s", runs(forward), runs(m.Forward),
			runs(backward), runs(m.Backward))
	}
	return v
}

// sameTensors reports whether both ask for the same tensors in order: workspaces, which are freed as
// the next thing that happens, are left out, and those that outlive others' allocation may be off by a tenth.
func sameTensors(got, want []int64, workspaces map[int64]bool) bool {
	got, want = allocations(withoutScratch(got)), allocations(withoutScratch(want))
	return slices.EqualFunc(got, want, func(g, w int64) bool { return g == w || workspaces[g] && within10(g, w) })
}

// withoutScratch leaves out what is freed as the next event.
func withoutScratch(sizes []int64) []int64 {
	var out []int64
	for i := 0; i < len(sizes); i++ {
		if i+1 < len(sizes) && sizes[i] > 0 && sizes[i+1] == -sizes[i] {
			i++
			continue
		}
		out = append(out, sizes[i])
	}
	return out
}

// scratches returns, for each tensor that is kept, the workspace that was taken and given back after it. Those of
// reductions, a staging buffer around its semaphores, are left out.
func scratches(sizes []int64) []int64 {
	out := make([]int64, 1)
	for i := 0; i < len(sizes); i++ {
		switch pair := i+1 < len(sizes) && sizes[i] > 0 && sizes[i+1] == -sizes[i]; {
		case pair && i > 0 && i+2 < len(sizes) && sizes[i+2] == -sizes[i-1]:
			i++
		case pair:
			out[len(out)-1] = sizes[i]
			i++
		case sizes[i] > 0:
			out = append(out, 0)
		}
	}
	return out
}

func at(list []int64, i int) int64 {
	if i < len(list) {
		return list[i]
	}
	return 0
}

// runs prints signed sizes, repeats counted.
func runs(sizes []int64) string {
	var b strings.Builder
	for i := 0; i < len(sizes); {
		j := i
		for j < len(sizes) && sizes[j] == sizes[i] {
			j++
		}
		fmt.Fprintf(&b, "%+d", sizes[i])
		if j-i > 1 {
			fmt.Fprintf(&b, "x%d", j-i)
		}
		b.WriteByte(' ')
		i = j
	}
	return b.String()
}

type operatorData struct {
	Single []measuredCall `json:"single"`
	Swept  []measuredCall `json:"swept"`
}

var (
	allOperators   = flag.Bool("operators.all", false, "print every operator whose events differ")
	writeOperators = flag.Bool("operators.write", false, "write testdata/operators.md")
)

// workspaceFamilies are those whose allocations are not of tensors alone.
var workspaceFamilies = []string{"convolutions", "conv1d", "conv2d", "conv3d", "conv_transpose2d", "recurrent", "lstm",
	"gru", "rnn"}

// TestOperators holds every operator that was measured alone against its row.
func TestOperators(t *testing.T) {
	var data operatorData
	testfile.JSON(t, "testdata/operator-events.json.gz", &data)
	var all []verdict
	try := func(family string, m *measuredCall, build func(l *lab) func() *tensor) {
		l := newLab()
		f := build(l)
		if f == nil {
			t.Errorf("%s: no case", m.name())
			return
		}
		forward, backward := l.measure(f)
		if l.err != nil {
			t.Errorf("%s: %v", m.name(), l.err)
		}
		all = append(all, judge(family, l, forward, backward, m))
	}
	for _, c := range slices.Concat(singleCases...) {
		i := slices.IndexFunc(data.Single, func(m measuredCall) bool { return m.Name == c.name })
		if i < 0 {
			t.Errorf("%s: not measured", c.name)
			continue
		}
		try(c.family, &data.Single[i], c.build)
	}
	for i := range data.Swept {
		m := &data.Swept[i]
		try(m.Op, m, func(l *lab) func() *tensor { return sweptCase(l, m) })
	}
	for _, v := range all {
		if !v.events && *allOperators {
			t.Logf("%s: tensors %v, sizes %v\n    %s", v.name, v.tensors, v.sizes, v.detail)
		}
		switch {
		case slices.Contains(workspaceFamilies, v.family):
			if !v.tensors && v.family != "rnn" {
				t.Errorf("%s: other tensors\n    %s", v.name, v.detail)
			}
		case !v.sizes && explained[v.name] == "":
			t.Errorf("%s: other sizes\n    %s", v.name, v.detail)
		case !v.events && explained[v.name] == "":
			t.Errorf("%s: frees elsewhere\n    %s", v.name, v.detail)
		}
	}
	s := summarize(all)
	if s.sizes < 0.997 || s.tensors < 0.998 {
		t.Errorf("only %.2f %% of %d operators without workspaces are exact, and %.2f %% of all %d ask for the same tensors",
			100*s.sizes, s.plain, 100*s.tensors, s.n)
	}
	if s.passes < 0.965 {
		t.Errorf("only %.2f %% of the %d passes of convolutions have a workspace within a tenth", 100*s.passes, s.spaces)
	}
	if *writeOperators {
		must.Write(t, "testdata/operators.md", []byte(s.text))
	}
	t.Log("\n" + s.text)
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// within10 reports whether a size is within a tenth of the measured one, or a few KiB.
func within10(got, want int64) bool { return max(got-want, want-got) <= max(want/10, 8192) }
