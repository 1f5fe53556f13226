package recording

import (
	"bytes"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/must"
)

// TestOn holds that each GPU of a process has its own storages and the calls that made them.
func TestOn(t *testing.T) {
	two := strings.Replace(header, `"producer"`, `"gpus":2,"producer"`, 1)
	lines := []string{
		two,
		`["op","aten::empty","memory_format"]`, `["op","aten::_to_copy","default"]`,
		`["meta","float32",[4,8],[8,1],0]`,
		`["call",0,[],["0:0"],-1,-1]`, `["alloc",0,1048576]`,
		`["call",1,["0:0"],["1:0"],-1,-1]`, `["alloc",1,2097152,1]`,
		`["is",1,"buffer","there"]`, `["free",0]`, `["step"]`,
	}
	read := func(lines ...string) (*Recording, error) {
		return Read(bytes.NewReader(pack(append(lines, `["end",`+itoa(len(lines)-1)+`]`)...)))
	}
	r, err := read(lines...)
	must.OK(t, err)
	for i, want := range []struct {
		calls, events int
		bytes         int64
	}{{1, 4, 1048576}, {1, 4, 2097152}} {
		on := r.On(int32(i))
		run := on.Timeline(gpu.Default())
		calls := 0
		for _, e := range on.Events {
			if e.Kind == CallEvent {
				calls++
			}
		}
		peak, _ := run.Log.Source().Peak()
		if calls != want.calls || len(on.Events) != want.events || peak != want.bytes || on.GPUs != 0 {
			t.Errorf("GPU %d has %d calls, %d events and %d bytes, want %+v", i, calls, len(on.Events), peak, want)
		}
	}
	lines[7] = `["alloc",1,2097152,2]`
	if _, err := read(lines...); err == nil || !strings.Contains(err.Error(), "GPU 2 of 2") {
		t.Errorf("a GPU that is not there: %v", err)
	}
	lines[0] = strings.Replace(two, `"gpus":2`, `"gpus":17`, 1)
	if _, err := read(lines...); err == nil || !strings.Contains(err.Error(), "17 GPUs") {
		t.Errorf("more GPUs than a host has: %v", err)
	}
}
