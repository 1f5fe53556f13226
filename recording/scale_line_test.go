package recording

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/must"
)

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
