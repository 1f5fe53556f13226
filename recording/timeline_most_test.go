package recording

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
)

// What a backward pass gave to an all-reduce may live until the next backward pass is over, after the program let go
// of it: at most it does. A tensor that another phase reduced does not.
func TestStashed(t *testing.T) {
	r := run(t,
		`["op","c10d::allreduce_","default"]`, `["meta","float32",[64,64],[64,1],0]`,
		`["alloc",0,16384]`, `["alloc",1,32768]`, `["call",0,[["1:0"],null],[],-1,-1]`,
		`["phase","backward"]`, `["call",0,[["0:0"],null],[],-1,-1]`, `["step"]`,
		`["phase","forward"]`, `["free",0]`, `["free",1]`, `["alloc",2,1024]`,
		`["phase","backward"]`, `["phase","forward"]`, // of a microbatch
		`["phase","backward"]`, `["call",0,[["2:0"],null],[],-1,-1]`, `["free",2]`, `["phase","optimizer"]`, `["step"]`,
	)
	likely := "load0 +16384 +32768 backward1 forward2 -16384 -32768 +1024 backward2 forward2 backward2 -1024 optimizer2"
	if got := strings.Join(events(r), " "); got != likely {
		t.Errorf("%s\nwant %s", got, likely)
	}
	if r.Doubtful != kernels.OfGuesses || r.Raced != 16384 {
		t.Fatalf("in doubt %v, %d bytes of buckets", r.Doubtful, r.Raced)
	}
	most := "load0 +16384 +32768 backward1 forward2 -32768 +1024 backward2 forward2 backward2 -16384 -1024 optimizer2"
	if got := strings.Join(events(&Run{Log: r.AtMost(kernels.OfGuesses)}), " "); got != most {
		t.Errorf("at most %s\nwant %s", got, most)
	}
}

// Of what other streams use, the last two blocks of a stream may be in use when the program has let go of them.
func TestCrossing(t *testing.T) {
	r := run(t,
		`["phase","forward"]`, `["alloc",0,1024]`, `["alloc",1,2048]`, `["alloc",2,4096]`, `["alloc",3,8192]`,
		`["record_stream",0,1]`, `["record_stream",1,1]`, `["record_stream",2,1]`,
		`["free",3]`, `["free",0]`, `["free",1]`, `["free",2]`, `["step"]`,
	)
	const begins = "load0 forward1 +1024 +2048 +4096 +8192 -8192 -1024"
	if got, want := strings.Join(events(r), " "), begins+" -2048 -4096"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := strings.Join(events(&Run{Log: r.AtMost(kernels.OfGuesses)}), " "); got != begins || r.Doubtful == 0 {
		t.Errorf("at most %s, in doubt %v\nwant %s", got, r.Doubtful, begins)
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
			for e := range r.AtMost(kernels.OfEngines).Events {
				if e.Kind == timeline.Alloc && e.Plan == 1 {
					taken = e.Bytes
				}
			}
			if plan.Most < plan.Bytes || taken != plan.Most || (r.Doubtful == kernels.OfEngines) != (plan.Most > plan.Bytes) {
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

// A search takes its workspace when a thread first runs a pass, and gives all cached memory back then; what it finds
// may take more than is likely. It takes nothing where the device has no room for it.
func TestSearch(t *testing.T) {
	const size = 64 << 20
	lines := []string{
		`["op","aten::convolution","default"]`, `["meta","float32",[4,8,64,64],[32768,4096,64,1],0]`,
		`["meta","float32",[8,8,3,3],[72,9,3,1],0]`, `["alloc",0,524288]`, `["alloc",1,2304]`, `["phase","forward"]`,
		`["call",0,["0:0","1:1",null,[1,1],[1,1],[1,1],false,[0,0],1],["2:0"],-1,-1]`, `["alloc",2,524288]`,
		`["call",0,["0:0","1:1",null,[1,1],[1,1],[1,1],false,[0,0],1],["3:0"],-1,-1]`, `["alloc",3,524288]`, `["thread",1]`,
		`["call",0,["0:0","1:1",null,[1,1],[1,1],[1,1],false,[0,0],1],["4:0"],-1,-1]`, `["alloc",4,524288]`,
	}
	plain := strings.Join(events(run(t, lines...)), " ")
	const pass = `"forward","float32",false,false,1,[4,8,64,64],[8,8,3,3],[4,8,64,64],[1,1],[1,1]`
	search := fmt.Sprintf(`["search",%s,%d,%d]`, pass, size, 3<<20)
	r := run(t, append(lines, search)...)
	took := fmt.Sprintf(" +%d -%d release", size, size)
	got := strings.Join(events(r), " ")
	if strings.Count(got, took) != 2 || strings.ReplaceAll(got, took, "") != plain {
		t.Errorf("%s\nwithout searches %s", got, plain)
	}
	if third := strings.Split(got, "+524288"); strings.Contains(third[3], took) {
		t.Errorf("the second call searches again: %s", got)
	}
	if of := r.Convolutions[0]; of.Most < 3<<20 || r.Doubtful == 0 {
		t.Errorf("the engine that is found takes %d at most, in doubt %v", of.Most, r.Doubtful)
	}
	for room, want := range map[int64]int64{size - 1: 4 << 20, 2 * size: size + 2<<20} {
		cfg := caching.Config{Room: room}
		replay, err := caching.NewReplayer(cfg).Finish(r.Log)
		must.OK(t, err)
		if got := replay.PeakReserved.Reserved; got > want+32<<20 || (got >= size) != (room >= size) {
			t.Errorf("with room for %d: %d reserved", room, got)
		}
		large, survives := caching.LargeOf(r.Log, cfg.Options).Reserved(cfg)
		if !survives || (large >= size) != (room >= size) {
			t.Errorf("with room for %d: %d reserved by large requests, survives %v", room, large, survives)
		}
	}
}
