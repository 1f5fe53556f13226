package estimate

import (
	"fmt"

	"github.com/memestimate/memestimate/recording"
)

// recordedOnEach answers for each GPU of a process that used several. The report is of the one of which most is taken.
func recordedOnEach(rec *recording.Recording, opt Options) (*Report, error) {
	var most *Report
	var shown int32
	gpus := make([]OnGPU, 0, rec.GPUs)
	for i := range rec.GPUs {
		r, err := Recorded(rec.On(i), opt)
		if err != nil {
			return nil, err
		}
		p := r.Peak
		gpus = append(gpus, OnGPU{i, p.Allocated, p.Reserved, p.Device, p.Likely, p.Safe, p.UpperBound})
		if most == nil || p.Device > most.Peak.Device {
			most, shown = r, i
		}
	}
	most.GPUs = gpus
	notes := make([]Note, 0, len(gpus)+len(most.Notes))
	for i := range gpus {
		g := &gpus[i]
		text := fmt.Sprintf("GPU %d of %d: %s allocated, %s reserved, %s on the device, safe with %s",
			g.GPU, len(gpus), inGiB(g.Allocated), inGiB(g.Reserved), inGiB(g.Device), inGiB(g.Safe))
		if g.GPU == shown {
			text += ": the one that is shown"
		}
		notes = append(notes, Note{Info, text})
	}
	most.Notes = append(notes, most.Notes...)
	return most, nil
}

// replayLargest is replayRecording for that GPU of a recording of which most is taken.
func replayLargest(rec *recording.Recording, s Step) (most *Simulation, of *recording.Run, err error) {
	for i := range max(rec.GPUs, 1) {
		on := rec
		if rec.GPUs > 1 {
			on = rec.On(i)
		}
		sim, run, err := replayRecording(on, s)
		if err != nil {
			return nil, nil, err
		}
		if most == nil || sim.Peak.Device > most.Peak.Device {
			most, of = sim, run
		}
	}
	return most, of, nil
}
