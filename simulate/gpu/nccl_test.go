package gpu

import "testing"

// TestNCCL holds the sizes to what two H200s measured in MiB (free memory before and after, NCCL 2.28.9), in the order
// of the script: init_process_group with a device_id, an all-reduce, an all-to-all, another group of both and its
// reduce-scatter, a group of one and its all-reduce.
func TestNCCL(t *testing.T) {
	byDefault := NCCLSettings{Buffer: -1, Channels: -1, Direct: true}
	with := func(change func(*NCCLSettings)) NCCLSettings {
		s := byDefault
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		settings NCCLSettings
		measured [6]float64 // what each step added
	}{
		"default":              {byDefault, [6]float64{366, 474, 442, 198, 288, 388}},
		"NCCL_BUFFSIZE=1 MiB":  {with(func(s *NCCLSettings) { s.Buffer = 1 << 20 }), [6]float64{366, 426, 378, 198, 240, 388}},
		"NCCL_MAX_NCHANNELS=4": {with(func(s *NCCLSettings) { s.Channels = 4 }), [6]float64{198, 234, 106, 30, 48, 28}},
		"NCCL_MAX_NCHANNELS=1": {with(func(s *NCCLSettings) { s.Channels = 1 }), [6]float64{180, 198, 70, 12, 12, 10}},
		"NCCL_P2P_DISABLE=1":   {with(func(s *NCCLSettings) { s.Direct = false }), [6]float64{198, 186, 58, 30, 0, 388}},
	} {
		steps := [][]Communicator{
			{{Ranks: 2}},
			{{Ranks: 2, Ring: true}},
			{{Ranks: 2, Ring: true, Sends: 1, Receives: 1}},
			{{Ranks: 2, Ring: true, Sends: 1, Receives: 1}, {Ranks: 2}},
			{{Ranks: 2, Ring: true, Sends: 1, Receives: 1}, {Ranks: 2, Ring: true}},
			{{Ranks: 2, Ring: true, Sends: 1, Receives: 1}, {Ranks: 2, Ring: true}, {Ranks: 1, Ring: true}},
		}
		for i, of := range steps {
			before := int64(0)
			if i > 0 {
				before = c.settings.Bytes(steps[i-1])
			}
			if got := float64(c.settings.Bytes(of)-before) / (1 << 20); got != c.measured[i] {
				t.Errorf("%s: step %d takes %g MiB, measured %g", name, i, got, c.measured[i])
			}
		}
	}
	// A send of its own has a communicator of the two: 262 MiB where it is sent from, 518 where it goes to.
	others := []Communicator{{Ranks: 2, Ring: true, Sends: 1, Receives: 1}}
	for want, c := range map[int64]Communicator{262: {Ranks: 2, Sends: 1}, 518: {Ranks: 2, Receives: 1}} {
		if got := byDefault.Bytes(append(others[:1:1], c)) - byDefault.Bytes(others); got != want<<20 {
			t.Errorf("%+v takes %d MiB, measured %d", c, got>>20, want)
		}
	}
	if got := byDefault.Bytes(nil); got != 0 {
		t.Errorf("no communicator takes %d bytes", got)
	}
	most := NCCLSettings{Buffer: 1 << 62, Channels: 1 << 62, Direct: true}
	for _, of := range [][]Communicator{{{Ranks: 2, Ring: true, Sends: 1 << 40, Receives: 1 << 62}}} {
		if got := most.Bytes(of); got != 1<<50 {
			t.Errorf("%d bytes, wanted an end", got)
		}
	}
}
