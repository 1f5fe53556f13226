package recording

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
)

func open(t *testing.T, name string) *Recording {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".mrec")
	must.OK(t, err)
	defer f.Close()
	r, err := Read(f)
	must.OK(t, err)
	return r
}

// Of two batch sizes a third follows, request by request, also where a tensor grows with the square of the batch, and
// on both sides of the two.
func TestScale(t *testing.T) {
	for _, name := range []string{"net", "pairs"} {
		for _, batches := range [][3]string{{"8", "100", "32"}, {"8", "32", "100"}, {"100", "32", "8"}} {
			a, b, c := open(t, name+".b"+batches[0]), open(t, name+".b"+batches[1]), open(t, name+".b"+batches[2])
			f, err := NewFamily(a, b)
			must.OK(t, err)
			if difference, err := f.Check(c); difference != "" || err != nil {
				t.Errorf("%s %v: %q, %v", name, batches, difference, err)
			}
			other, _ := NewFamily(a, c)
			_, batch := other.Batches()
			scaled, err := f.At(batch)
			must.OK(t, err)
			got, want := scaled.Timeline(gpu.Default()).Log.Timeline(), c.Timeline(gpu.Default()).Log.Timeline()
			if len(got.Events) != len(want.Events) {
				t.Fatalf("%s %v: %d events, want %d", name, batches, len(got.Events), len(want.Events))
			}
			for i := range got.Events {
				if g, w := got.Events[i], want.Events[i]; g != w {
					t.Fatalf("%s %v: event %d is %+v, want %+v", name, batches, i, g, w)
				}
			}
			if got.Events[len(got.Events)-1].Kind == timeline.Mark {
				t.Error("nothing happens")
			}
		}
	}
}

// variant is a program whose input is [n, 4] and in which one tensor takes so many bytes.
func variant(t *testing.T, n, bytes string, more ...string) *Recording {
	t.Helper()
	r, err := Read(reader(whole(append([]string{
		`["op","aten::mine","default"]`, `["op","aten::yours","default"]`, `["meta","float32",[` + n +
			`,4],[4,1],0]`, `["meta","uint8",[` + bytes + `],[1],0]`, `["module",-1,"net","Net"]`,
		`["alloc",0,` + bytes + `]`, `["is",0,"input","x"]`, `["phase","forward"]`,
		`["call",0,["0:0"],["1:1"],-1,0]`, `["alloc",1,` + bytes + `]`,
	}, more...)...)))
	must.OK(t, err)
	return r
}

func TestScaleRefuses(t *testing.T) {
	two, four := variant(t, "2", "10"), variant(t, "4", "30")
	tests := []struct {
		a, b *Recording
		want string
	}{
		{two, two, "there is no batch to follow"},
		{two, variant(t, "4", "30", `["step"]`), "one of the recordings goes on"},
		{variant(t, "2", "10", `["call",0,[1],[],-1,-1]`), variant(t, "4", "30", `["call",1,[1],[],-1,-1]`),
			"part at event 6: aten.mine.default and aten.yours.default"},
		{variant(t, "2", "10", `["call",0,[1],[],-1,-1]`), variant(t, "4", "30", `["call",0,[1,2],[],-1,-1]`),
			"of 1 and of 2 arguments"},
		{variant(t, "2", "10", `["free",0]`), variant(t, "4", "30", `["free",1]`), "free of 0 and of 1"},
	}
	for _, tt := range tests {
		if _, err := NewFamily(tt.a, tt.b); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
	f, err := NewFamily(two, four)
	must.OK(t, err)
	if _, err := f.At(0); err == nil {
		t.Error("a batch of none")
	}
	if _, err := f.At(1 << 60); err == nil {
		t.Error("a batch beyond all memory")
	}
	// 10, 30, 60: as the pairs of samples grow.
	difference, err := f.Check(variant(t, "6", "60"))
	if want := `at batch 6 a tensor takes 60 bytes, where batches 2 and 4 foretell 50`; err != nil ||
		!strings.Contains(difference, want) {
		t.Errorf("%q, %v, want %q", difference, err, want)
	}
}

func reader(b []byte) *bytes.Reader { return bytes.NewReader(b) }
