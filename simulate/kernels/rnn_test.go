package kernels

import (
	"bytes"
	"encoding/csv"
	"io"
	"strconv"
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

// A measuredRNN is a call on an H200 and what it took: a quarter of the rows of scripts/measure/recurrent.py.
type measuredRNN struct {
	shape                                 RNNShape
	forward, reserve, backward, inference int64
}

func measuredRNNs(t *testing.T) (rows []measuredRNN) {
	t.Helper()
	table := csv.NewReader(bytes.NewReader(testfile.Unzipped(t, "testdata/recurrent.csv.gz")))
	header, err := table.Read()
	must.OK(t, err)
	for {
		fields, err := table.Read()
		if err == io.EOF {
			return rows
		}
		must.OK(t, err)
		words, n := map[string]string{}, map[string]int64{}
		for i, name := range header {
			words[name] = fields[i]
			n[name], _ = strconv.ParseInt(fields[i], 10, 64)
		}
		s := RNNShape{Kind: map[string]RNNKind{"lstm": LSTM, "gru": GRU, "rnn": ElmanRNN}[words["kind"]], Elem: 2,
			Float16: words["dtype"] == "fp16", Steps: n["steps"], Batch: n["batch"], Input: n["input"], Hidden: n["hidden"],
			Projection: n["projection"], Layers: n["layers"], Both: n["both"] == 1, Dropout: n["dropout"] == 1}
		if words["dtype"] == "fp32" {
			s.Elem = 4
		}
		if n["packed"] == 1 { // of lengths that fall from all steps to a few
			for i := range s.Batch {
				s.Packed += max(1, s.Steps*(s.Batch-i)/s.Batch)
			}
		}
		rows = append(rows, measuredRNN{s, n["forward"], n["reserve"], n["backward"], n["inference"]})
	}
}

// What cuDNN takes for recurrent layers is known but for the alignment of its parts.
func TestRecurrentLayers(t *testing.T) {
	const aligned = 600
	rows := measuredRNNs(t)
	if len(rows) < 9000 {
		t.Fatalf("%d rows", len(rows))
	}
	algorithms, d := map[rnnAlgorithm]int{}, gpu.Default()
	for _, m := range rows {
		s := m.shape
		algorithms[s.algorithm(d, false)]++
		for _, c := range []struct {
			name      string
			got, want int64
		}{
			{"forward", s.ForwardWorkspace(d, true), m.forward},
			{"inference", s.ForwardWorkspace(d, false), m.inference},
			{"backward", s.BackwardWorkspace(d), m.backward},
			{"reserve", s.ReserveBytes(), m.reserve},
		} {
			if c.got > c.want+aligned || c.got < c.want-aligned {
				t.Errorf("%s of %+v: %d bytes, measured %d", c.name, s, c.got, c.want)
			}
		}
	}
	for _, a := range []rnnAlgorithm{standardRNN, persistSmall, persistStatic} {
		if algorithms[a] < 200 {
			t.Errorf("algorithm %d in %d rows: too few to show anything", a, algorithms[a])
		}
	}
}

// What get_algo chooses depends on the device: an A40 and a T4 have no persistent LSTM, an A100 has.
func TestPersistentLayersByDevice(t *testing.T) {
	s := RNNShape{Kind: LSTM, Elem: 2, Float16: true, Steps: 50, Batch: 64, Input: 512, Hidden: 512, Layers: 1}
	for _, c := range []struct {
		device gpu.Device
		want   rnnAlgorithm
	}{
		{gpu.Device{Capability: gpu.Capability{Major: 9}, Multiprocessors: 132}, persistStatic},
		{gpu.Device{Capability: gpu.Capability{Major: 8}, Multiprocessors: 108}, persistStatic},
		{gpu.Device{Capability: gpu.Capability{Major: 8}, Multiprocessors: 56}, standardRNN}, // A30
		{gpu.Device{Capability: gpu.Capability{Major: 8, Minor: 6}, Multiprocessors: 108}, standardRNN},
		{gpu.Device{Capability: gpu.Capability{Major: 7, Minor: 5}, Multiprocessors: 40}, standardRNN},
		{gpu.Device{Capability: gpu.Capability{Major: 7}, Multiprocessors: 80}, persistStatic},
	} {
		if got := s.algorithm(c.device, false); got != c.want {
			t.Errorf("capability %s with %d multiprocessors: algorithm %d, want %d", c.device.Capability,
				c.device.Multiprocessors, got, c.want)
		}
	}
}
