package recording

import (
	"bytes"
	"fmt"
	"os"
	"slices"
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
			got, want := written(scaled), written(c)
			if len(got) != len(want) {
				t.Fatalf("%s %v: %d events, want %d", name, batches, len(got), len(want))
			}
			for i := range got {
				if g, w := got[i], want[i]; g != w {
					t.Fatalf("%s %v: event %d is %+v, want %+v", name, batches, i, g, w)
				}
			}
			if got[len(got)-1].Kind == timeline.Mark {
				t.Error("nothing happens")
			}
		}
	}
}

// written are the events of a recording on the GPU that is taken where none is named.
func written(r *Recording) []timeline.Event {
	return slices.Collect(r.Timeline(gpu.Default()).Log.Events)
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

// searching is a convolution of n images under torch.backends.cudnn.benchmark, and further lines.
func searching(t *testing.T, n int, more ...string) *Recording {
	t.Helper()
	bytes := n * 32 << 12
	lines := []string{
		`["op","aten::convolution","default"]`, `["meta","float32",[8,8,3,3],[72,9,3,1],0]`,
		fmt.Sprintf(`["meta","float32",[%d,8,64,64],[32768,4096,64,1],0]`, n), fmt.Sprintf(`["alloc",0,%d]`, bytes),
		`["alloc",1,2304]`, `["is",0,"input","x"]`, `["phase","forward"]`,
		`["call",0,["0:1","1:0",null,[1,1],[1,1],[1,1],false,[0,0],1],["2:1"],-1,-1]`, fmt.Sprintf(`["alloc",2,%d]`, bytes),
	}
	r, err := Read(reader(whole(append(lines, more...)...)))
	must.OK(t, err)
	return r
}

// search is its search, in which the largest engine takes 100 MiB for each image, and what it finds 50 MiB and no whole
// number more.
func search(n int) string {
	const line = `["search","forward","float32",false,false,1,[%d,8,64,64],[8,8,3,3],[%d,8,64,64],[1,1],[1,1],%d,%d]`
	return fmt.Sprintf(line, n, n, n*100<<20, n*50<<20+n/3)
}

// At a third batch the searches are those that a recording of it has; where the two have different ones there is none.
func TestScaleSearches(t *testing.T) {
	f, err := NewFamily(searching(t, 2, search(2)), searching(t, 8, search(8)))
	must.OK(t, err)
	for _, batch := range []int{1, 4, 32} {
		scaled, err := f.At(int64(batch))
		must.OK(t, err)
		got, want := scaled.Timeline(gpu.Default()), searching(t, batch, search(batch)).Timeline(gpu.Default())
		requests := strings.Join(events(got), " ")
		if wanted := strings.Join(events(want), " "); requests != wanted || !strings.Contains(requests, "release") {
			t.Errorf("batch %d: %s\nwant %s", batch, requests, wanted)
		}
		if d := got.Convolutions[0].Most - want.Convolutions[0].Most; d < -10 || d > 10 {
			t.Errorf("batch %d: what is found takes %+v, want %+v", batch, got.Convolutions[0], want.Convolutions[0])
		}
	}
	for name, other := range map[string]*Recording{
		"none":    searching(t, 8),
		"two":     searching(t, 8, search(8), search(2)),
		"another": searching(t, 8, strings.Replace(search(8), "forward", "input", 1)),
	} {
		g, err := NewFamily(searching(t, 2, search(2)), other)
		must.OK(t, err)
		scaled, err := g.At(4)
		if err != nil || g.Searches() || len(scaled.Searches) > 0 || !f.Searches() {
			t.Errorf("%s: %v, %d searches, %v", name, g.Searches(), len(scaled.Searches), err)
		}
	}
}
