package recording

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
)

// run plays lines.
func run(t *testing.T, lines ...string) *Run {
	t.Helper()
	r, err := Read(bytes.NewReader(whole(lines...)))
	must.OK(t, err)
	return r.Timeline(gpu.Default())
}

// events writes a run as words: +bytes, -bytes, the name of a phase, and release.
func events(r *Run) (words []string) {
	for e := range r.Log.Events {
		switch e.Kind {
		case timeline.Alloc:
			words = append(words, fmt.Sprintf("+%d", e.Bytes))
		case timeline.Free:
			words = append(words, fmt.Sprintf("-%d", e.Bytes))
		case timeline.Mark:
			words = append(words, fmt.Sprintf("%s%d", e.Phase, e.Step))
		case timeline.Release:
			words = append(words, "release")
		}
	}
	return words
}

// A matrix product takes cuBLAS's workspace after its result, once for each thread.
func TestProduct(t *testing.T) {
	r := run(t,
		`["op","aten::mm","default"]`, `["meta","float32",[64,64],[64,1],0]`, `["meta","float32",[64,64],[128,2],0]`,
		`["alloc",0,16384]`, `["alloc",1,32768]`, `["phase","forward"]`,
		`["call",0,["0:0","1:1"],["2:0"],-1,-1]`, `["alloc",2,16384]`, `["free",2]`,
		`["call",0,["0:0","0:0"],["3:0"],-1,-1]`, `["alloc",3,16384]`,
		`["phase","backward"]`, `["thread",1]`,
		`["call",0,["0:0","0:0"],["4:0"],-1,-1]`, `["alloc",4,16384]`, `["step"]`,
	)
	want := "load0 +16384 +32768 forward1 +16384 +16384 +33554432 -16384 -16384 +16384 backward1 +16384 +33554432"
	if got := strings.Join(events(r), " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if r.BLAS != 2 || r.DNN != 0 || !r.Trains || r.Calls != 3 || len(r.Unknown) != 0 {
		t.Errorf("%+v", r)
	}
}

// Sums of gradients are in place, and so is what autograd writes into for real tensors: the result lives in the first
// argument's block until both are gone.
func TestInPlace(t *testing.T) {
	r := run(t,
		`["op","aten::add","Tensor"]`, `["meta","float32",[128],[1],0]`, `["phase","backward"]`,
		`["alloc",0,512]`, `["alloc",1,512]`,
		`["call",0,["0:0","1:0"],["2:0"],-1,-1]`, `["alloc",2,512]`, `["sum",0]`, `["free",0]`, `["free",1]`, `["free",2]`,
	)
	if got, want := strings.Join(events(r), " "), "load0 backward1 +512 +512 -512 -512"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	put := []string{
		`["op","aten::index_put","default"]`, `["meta","float32",[128],[1],0]`, `["meta","int64",[4],[1],0]`,
		`["phase","backward"]`,
		`["alloc",0,512]`, `["alloc",1,32]`, `["alloc",2,16]`,
		`["call",0,["0:0",["1:1"],"2:0",false],["3:0"],-1,-1]`, `["alloc",3,512]`,
	}
	r = run(t, append(slices.Clone(put), `["free",0]`)...)
	if got, want := strings.Join(events(r), " "), "load0 backward1 +512 +32 +16"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	r = run(t, append(slices.Clone(put), `["step"]`, `["free",0]`)...)
	if got, want := strings.Join(events(r), " "), "load0 backward1 +512 +32 +16 +512 -512"; got != want {
		t.Errorf("with the argument still in use: %s\nwant %s", got, want)
	}
}

// Storages have a category and a layer, and resizing one is freeing it and making another.
func TestRoles(t *testing.T) {
	r := run(t,
		`["op","aten::relu","default"]`, `["op","mine::thing","default"]`, `["meta","float32",[128],[1],0]`,
		`["module",-1,"","Net"]`, `["module",0,"act","ReLU"]`,
		`["alloc",0,512]`, `["is",0,"parameter","fc.w"]`, `["alloc",1,256]`, `["is",1,"input","x"]`,
		`["phase","forward"]`,
		`["call",0,["0:0"],["2:0"],-1,1]`, `["alloc",2,512]`,
		`["call",1,["0:0"],["3:0"],-1,0]`, `["alloc",3,1024]`,
		`["resize",3,0]`, `["resize",3,2048]`,
		`["phase","backward"]`, `["alloc",4,512]`, `["is",4,"gradient","fc.w"]`, `["alloc",5,64]`,
	)
	var got []string
	for e := range r.Log.Events {
		if e.Kind == timeline.Alloc {
			layer := "-"
			if e.Layer >= 0 {
				layer = r.Log.Layers[e.Layer]
			}
			got = append(got, fmt.Sprintf("%d:%s:%s", e.Bytes, e.Category, layer))
		}
	}
	want := "512:parameter:fc 256:input:- 512:activation:act 1024:activation:model 2048:activation:- 512:gradient:fc " +
		"64:autograd_detail:-"
	if g := strings.Join(got, " "); g != want {
		t.Errorf("%s\nwant %s", g, want)
	}
	if n := r.Unknown[Op{"mine::thing", "default"}]; n != 1 || len(r.Unknown) != 1 {
		t.Errorf("unknown operators %v", r.Unknown)
	}
}

// What a program allocates on a stream of its own is served from that stream's blocks.
func TestStreams(t *testing.T) {
	r := run(t, `["alloc",0,20971520]`, `["free",0]`, `["stream",3]`, `["alloc",1,20971520]`, `["free",1]`,
		`["stream",0]`, `["alloc",2,20971520]`)
	var streams []uint8
	for e := range r.Log.Events {
		if e.Kind == timeline.Alloc {
			streams = append(streams, e.Stream)
		}
	}
	if !slices.Equal(streams, []uint8{0, 3, 0}) {
		t.Errorf("streams %v", streams)
	}
	res, err := caching.NewReplayer(caching.Config{}).Finish(r.Log)
	must.OK(t, err)
	if res.PeakReserved.Reserved != 40<<20 {
		t.Errorf("%d bytes are reserved, want two blocks of 20 MiB", res.PeakReserved.Reserved)
	}
	if large, ok := caching.LargeOf(r.Log, caching.Options{}).Reserved(caching.Config{}); !ok || large != 40<<20 {
		t.Errorf("the large pool reserves %d", large)
	}
}

// What a program gives back by torch.cuda.empty_cache() serves no later request, so that the device holds less.
func TestEmptyCache(t *testing.T) {
	const emptied, after = `["empty_cache"]`, "load0 forward1 +67108864 -67108864 release +33554432"
	lines := []string{`["phase","forward"]`, `["alloc",0,67108864]`, `["free",0]`, emptied, `["alloc",1,33554432]`}
	with := run(t, lines...)
	if got := strings.Join(events(with), " "); got != after {
		t.Errorf("%s\nwant %s", got, after)
	}
	without := run(t, slices.DeleteFunc(lines, func(l string) bool { return l == emptied })...)
	for r, want := range map[*Run]int64{with: 32 << 20, without: 64 << 20} {
		replay, err := caching.NewReplayer(caching.Config{}).Finish(r.Log)
		must.OK(t, err)
		large, survives := caching.LargeOf(r.Log, caching.Options{}).Reserved(caching.Config{})
		if replay.End.Reserved != want || replay.PeakReserved.Reserved != 64<<20 || large != 64<<20 || !survives {
			t.Errorf("%d reserved at the end, %d at most, %d by large requests, want %d and %d", replay.End.Reserved,
				replay.PeakReserved.Reserved, large, want, 64<<20)
		}
	}
}

// What CUDA graphs hold in their private pool stays reserved, and serves no other request; the workspaces of cuBLAS go
// when they are cleared, and come back with the next product.
func TestPrivatePool(t *testing.T) {
	pool := run(t, `["pool",3]`, `["stream",3]`, `["alloc",0,20971520]`, `["free",0]`, `["stream",0]`, `["empty_cache"]`,
		`["alloc",1,20971520]`)
	res, err := caching.NewReplayer(caching.Config{}).Finish(pool.Log)
	must.OK(t, err)
	if res.End.Reserved != 40<<20 {
		t.Errorf("%d bytes are reserved, want two blocks of 20 MiB", res.End.Reserved)
	}
	product := []string{`["call",0,["0:0","0:0"],["%d:0"],-1,-1]`, `["alloc",%d,65536]`}
	lines := []string{`["op","aten::mm","default"]`, `["meta","float32",[128,128],[128,1],0]`, `["alloc",0,65536]`}
	for i, between := range []string{`["clear_workspaces"]`, `["reset_peak"]`} {
		for n := 1; n <= 2; n++ {
			lines = append(lines, fmt.Sprintf(product[0], 2*i+n), fmt.Sprintf(product[1], 2*i+n), between)
		}
	}
	const want = "load0 +65536 +65536 +33554432 -33554432 +65536 +33554432 -33554432 +65536 +33554432 +65536"
	if got := strings.Join(events(run(t, lines...)), " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// The inputs and labels are those of the first step, of which each later one is given new ones as large.
func TestInputsOfTheFirstStep(t *testing.T) {
	rec, err := Read(bytes.NewReader(whole(
		`["alloc",0,512]`, `["is",0,"input","x"]`, `["alloc",1,256]`, `["is",1,"label","y"]`, `["phase","forward"]`,
		`["step"]`,
		`["alloc",2,512]`, `["is",2,"input","x"]`, `["alloc",3,256]`, `["is",3,"label","y"]`, `["phase","forward"]`,
	)))
	must.OK(t, err)
	s := rec.Summary()
	if len(s.Inputs) != 1 || s.Inputs[0].Name != "x" || len(s.Labels) != 1 || s.Labels[0].Name != "y" {
		t.Errorf("inputs %v, labels %v", s.Inputs, s.Labels)
	}
}

// The buffer that Inductor writes between the runs of what it times is no activation of the layer whose kernel that is.
func TestColdCache(t *testing.T) {
	r := run(t, `["op","inductor::cold_cache","default"]`, `["meta","int32",[16],[1],0]`, `["module",-1,"fc","Linear"]`,
		`["phase","forward"]`, `["phase","backward"]`, `["phase","forward"]`, `["call",0,[],["0:0"],-1,0]`, `["alloc",0,64]`)
	for e := range r.Log.Events {
		if e.Kind == timeline.Alloc && (e.Category != timeline.Workspace || e.Layer != timeline.NoLayer) {
			t.Errorf("%v of layer %d, want a workspace of none", e.Category, e.Layer)
		}
	}
	if len(r.Unknown) != 0 {
		t.Errorf("unknown operators %v", r.Unknown)
	}
}
