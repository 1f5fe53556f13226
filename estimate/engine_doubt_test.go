package estimate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/test/must"
)

// oneConvolution is the recording of a convolution of one dimension with a filter of one element.
func oneConvolution(t *testing.T, channels, length int64) *recording.Recording {
	t.Helper()
	lines := []string{
		`{"format":"memestimate-recording/1","producer":"","torch":"","python":"","way":"fake-cuda","gpu":{"name":"h200",` +
			`"capability":[9,0],"multiprocessors":132,"memory":150109880320},"world_size":1,"rank":0,"alloc_conf":"",` +
			`"cudnn_benchmark":false,"allow_tf32":true}`,
		`["op","aten::convolution","default"]`,
		fmt.Sprintf(`["meta","float32",[2,%d,%d],[%d,%d,1],0]`, channels, length, channels*length, length),
		fmt.Sprintf(`["meta","float32",[256,%d,1],[%d,1,1],0]`, channels, channels),
		fmt.Sprintf(`["meta","float32",[2,256,%d],[%d,%d,1],0]`, length, 256*length, length),
		fmt.Sprintf(`["alloc",0,%d]`, 8*channels*length),
		fmt.Sprintf(`["alloc",1,%d]`, 4*256*channels),
		`["phase","forward"]`,
		`["call",0,["0:0","1:1",null,[1],[0],[1],false,[0],1],["2:2"],-1,-1]`,
		fmt.Sprintf(`["alloc",2,%d]`, 8*256*length),
	}
	return endedRecording(t, lines)
}

// cuDNN was asked about filters of one element over rows of two images: on 1,027 channels it takes no workspace, on
// 2,048 and more copies of x and y. Of 1,500 the trees disagree. The answer says which convolution it is, and what is
// allocated with the copies; where all trees agree it says nothing.
func TestEngineInDoubt(t *testing.T) {
	doubt := func(channels, length int64) string {
		r, err := Recorded(oneConvolution(t, channels, length), Options{})
		must.OK(t, err)
		for _, n := range r.Notes {
			if strings.Contains(n.Text, "in doubt") {
				return n.Text
			}
		}
		return ""
	}
	want := "cuDNN's choice for a convolution of [2 1500 1 50000] by [256 1500 1 1] is in doubt: no workspace is taken, " +
		"and in 12 in a hundred 669.86 MiB or more, with which 670.00 MiB more are reserved; safe has room for that; " +
		settles
	if got := doubt(1500, 50000); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := doubt(64, 4096); got != "" {
		t.Errorf("%q, want nothing", got)
	}
}
