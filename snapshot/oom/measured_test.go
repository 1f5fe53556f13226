package oom

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/snapshot"
	"github.com/memestimate/memestimate/test/must"
)

// measured is what scripts/measure/oom_snapshots.py found on a GPU.
type measured struct {
	Line         int    `json:"line"` // that holds the memory
	Allocated    int64  `json:"memory_allocated"`
	Reserved     int64  `json:"memory_reserved"`
	MaxAllocated int64  `json:"max_memory_allocated"`
	MaxReserved  int64  `json:"max_memory_reserved"`
	Message      string `json:"message"`
	Tried        []struct {
		Conf     string  `json:"alloc_conf"`
		Share    float64 `json:"share"`
		Survives bool    `json:"survives"`
	} `json:"tried"`
}

// Of five programs that ran out of memory on a GPU, each for another reason, the
// report names the line that holds the memory and the reason, its figures are
// PyTorch's, and no remedy is promised that did not help there, or denied that did.
func TestMeasured(t *testing.T) {
	data := must.Read(t, "../testdata/oom/truth.json")
	var truth struct {
		Cases map[string]measured `json:"cases"`
	}
	must.OK(t, json.Unmarshal(data, &truth))
	causes := map[string]Cause{"leak": Leak, "batch": Step, "fragmentation": Fragmentation, "stream": OtherStream,
		"exception": FailedCall}
	if len(truth.Cases) != len(causes) {
		t.Fatalf("%d cases", len(truth.Cases))
	}
	for name, want := range truth.Cases {
		f, err := os.Open("../testdata/oom/" + name + ".pickle.gz")
		must.OK(t, err)
		s, err := snapshot.Read(f, snapshot.Options{})
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		h, err := s.History(0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !h.Exact || h.Allocated.Bytes != want.MaxAllocated || h.Reserved.Bytes != want.MaxReserved ||
			h.End.Allocated != want.Allocated || h.End.Reserved != want.Reserved {
			t.Errorf("%s: peaks %d and %d, end %+v, exact %v; PyTorch says %+v", name, h.Allocated.Bytes, h.Reserved.Bytes,
				h.End, h.Exact, want)
		}
		list, _, err := Explain(s, h)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		x := list[len(list)-1]
		if x.Cause != causes[name] {
			t.Errorf("%s: cause %s, wanted %s", name, x.Cause, causes[name])
		}
		line := fmt.Sprintf(":%d:", want.Line)
		if top := x.Held[0]; !strings.Contains(top.Site+top.Caller, line) {
			t.Errorf("%s: held by %s, wanted line %d", name, top.Name(), want.Line)
		}
		// PyTorch's message has what it asked for, in MiB.
		if asked := fmt.Sprintf("Tried to allocate %.2f MiB", float64(x.First.Tried)/(1<<20)); name != "leak" &&
			!strings.Contains(want.Message, asked) {
			t.Errorf("%s: %q, PyTorch says %q", name, asked, want.Message)
		}
		for _, tried := range want.Tried {
			of := &x
			what := tried.Conf
			if tried.Share < 1 {
				what, of = fmt.Sprintf("1/%.0f of the batch", 1/tried.Share), &list[0] // the first try, with that batch
			}
			for _, r := range of.Remedies {
				if (r.Conf == what && what != "" || strings.HasPrefix(r.What, what) && tried.Share < 1) &&
					(r.Helps == "yes" && !tried.Survives || r.Helps == "no" && tried.Survives) {
					t.Errorf("%s: %s: the replay says %s, the program got through: %v", name, what, r.Helps, tried.Survives)
				}
			}
		}
	}
}
