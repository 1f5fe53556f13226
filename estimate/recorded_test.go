package estimate

import (
	"os"
	"testing"

	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
)

func openRecording(t testing.TB, name string) *recording.Recording {
	t.Helper()
	return openRecordingAt(t, "../recording/testdata/"+name+".mrec")
}

func openRecordingAt(t testing.TB, path string) *recording.Recording {
	t.Helper()
	f, err := os.Open(path)
	must.OK(t, err)
	defer f.Close()
	r, err := recording.Read(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return r
}

// The sums of a recorded net are those of its modules: a convolution of 3 to 32 channels, a batch norm, and a linear
// layer of 8,192 to 100.
func TestRecorded(t *testing.T) {
	r, err := Recorded(openRecording(t, "net.b8"), Options{Name: "net"})
	must.OK(t, err)
	if want := int64(32*3*9 + 32 + 2*32 + 8192*100 + 100); r.Parameters.Count != want || r.Parameters.Bytes != 4*want ||
		r.Parameters.Tensors != 6 {
		t.Errorf("parameters %+v, want %d", r.Parameters, want)
	}
	if r.Buffers.Bytes != 2*32*4+8 {
		t.Errorf("buffers %+v", r.Buffers)
	}
	if r.Gradients.Bytes != r.Parameters.Bytes || r.Optimizer.Bytes != 2*r.Parameters.Bytes {
		t.Errorf("gradients %+v, states %+v of parameters %+v", r.Gradients, r.Optimizer, r.Parameters)
	}
	// Convolution and norm make 8x32x32x32 floats, pooling a quarter with int64 places, the head 8x100.
	if want := int64(2*8*32*32*32*4 + 8*32*16*16*(4+8) + 8*100*4 + 2*32*4); r.Activations.Forward != want {
		t.Errorf("activations %d, want %d", r.Activations.Forward, want)
	}
	if r.Peak.Phase != timeline.Backward.String() || r.Settings.Mode != "train" || !r.Coverage.Complete() {
		t.Errorf("peak %+v, settings %+v, coverage %+v", r.Peak, r.Settings, r.Coverage)
	}
	if r.Peak.ByCategory["workspace"] < 64<<20 {
		t.Errorf("workspaces %d, want those of cuBLAS in two threads", r.Peak.ByCategory["workspace"])
	}
}

// A recording that does not survive a limit says where it fails, and what it would take.
func TestRecordedLimit(t *testing.T) {
	rec := openRecording(t, "net.b100")
	free, err := Recorded(rec, Options{})
	must.OK(t, err)
	g := gpu.Other("small", free.Peak.Device-20<<20, gpu.Capability{Major: 9}, 132)
	r, err := Recorded(rec, Options{Step: &Step{GPU: g, Limited: true}})
	must.OK(t, err)
	if r.OOM == nil || r.Peak.Reserved != free.Peak.Reserved {
		t.Errorf("out of memory %+v, peak %d, want %d", r.OOM, r.Peak.Reserved, free.Peak.Reserved)
	}
}

// The largest batch of a family is where the next one fails.
func TestLargestRecorded(t *testing.T) {
	family, err := recording.NewFamily(openRecording(t, "net.b8"), openRecording(t, "net.b32"))
	must.OK(t, err)
	f, err := LargestRecorded(family, Options{}, 2<<30)
	must.OK(t, err)
	device := func(batch int64) int64 {
		rec, err := family.At(batch)
		must.OK(t, err)
		r, err := Recorded(rec, Options{})
		must.OK(t, err)
		return r.Peak.Device
	}
	if f.Batch < 100 || device(f.Batch) > 2<<30 || device(f.Batch+1) <= 2<<30 {
		t.Errorf("batch %d takes %d, one more %d of %d", f.Batch, device(f.Batch), device(f.Batch+1), 2<<30)
	}
}
