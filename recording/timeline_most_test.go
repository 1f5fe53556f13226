package recording

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/timeline"
)

// What a backward pass gave to an all-reduce may live until the next backward pass is over, after the program let go
// of it: at most it does. A tensor that another phase reduced does not.
func TestStashed(t *testing.T) {
	r := run(t,
		`["op","c10d::allreduce_","default"]`, `["meta","float32",[64,64],[64,1],0]`,
		`["alloc",0,16384]`, `["alloc",1,32768]`, `["call",0,[["1:0"],null],[],-1,-1]`,
		`["phase","backward"]`, `["call",0,[["0:0"],null],[],-1,-1]`, `["step"]`,
		`["phase","forward"]`, `["free",0]`, `["free",1]`, `["alloc",2,1024]`,
		`["phase","backward"]`, `["call",0,[["2:0"],null],[],-1,-1]`, `["free",2]`, `["phase","optimizer"]`, `["step"]`,
	)
	likely := "load0 +16384 +32768 backward1 forward2 -16384 -32768 +1024 backward2 -1024 optimizer2"
	if got := strings.Join(events(r), " "); got != likely {
		t.Errorf("%s\nwant %s", got, likely)
	}
	if !r.Doubtful {
		t.Fatal("nothing is in doubt")
	}
	most := "load0 +16384 +32768 backward1 forward2 -32768 +1024 backward2 -16384 -1024 optimizer2"
	if got := strings.Join(events(&Run{Log: r.AtMost()}), " "); got != most {
		t.Errorf("at most %s\nwant %s", got, most)
	}
}

// At its most a convolution takes what any tree names, also where most say that it takes nothing.
func TestConvolutionAtMost(t *testing.T) {
	more, none := 0, 0
	for _, channels := range []int{3, 24, 37, 96, 200, 320} {
		for _, size := range []int{1, 3, 5, 7} {
			x, y := fmt.Sprintf("[5,%d,61,61]", channels), fmt.Sprintf("[5,130,%d,%d]", 62-size, 62-size)
			r := run(t,
				`["op","aten::convolution","default"]`, fmt.Sprintf(`["meta","float32",%s,[%d,3721,61,1],0]`, x, channels*3721),
				fmt.Sprintf(`["meta","float32",[130,%d,%d,%d],[%d,%d,%d,1],0]`, channels, size, size, channels*size*size,
					size*size, size),
				fmt.Sprintf(`["meta","float32",%s,[%d,%d,%d,1],0]`, y, 130*(62-size)*(62-size), (62-size)*(62-size), 62-size),
				fmt.Sprintf(`["alloc",0,%d]`, 5*channels*3721*4), fmt.Sprintf(`["alloc",1,%d]`,
					130*channels*size*size*4), `["phase","forward"]`,
				`["call",0,["0:0","1:1",null,[1,1],[0,0],[1,1],false,[0,0],1],["2:2"],-1,-1]`, fmt.Sprintf(`["alloc",2,%d]`,
					5*130*(62-size)*(62-size)*4),
			)
			plan := r.Convolutions[0]
			taken := int64(0)
			for _, e := range r.AtMost().Timeline().Events {
				if e.Kind == timeline.Alloc && e.Plan == 1 {
					taken = e.Bytes
				}
			}
			if plan.Most < plan.Bytes || taken != plan.Most || r.Doubtful != (plan.Most > plan.Bytes) {
				t.Errorf("%d channels, filter %d: likely %d, at most %d, taken %d, in doubt %v", channels, size, plan.Bytes,
					plan.Most, taken, r.Doubtful)
			}
			if plan.Most > plan.Bytes {
				more++
				if plan.Bytes == 0 {
					none++
				}
			}
		}
	}
	if more == 0 || none == 0 {
		t.Errorf("%d convolutions may take more than is likely, %d where none is likely: wanted some of both", more, none)
	}
}
