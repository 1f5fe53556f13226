package estimate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/simulate/gpu"
)

// A Communicator is one of NCCL's that a recorded program made.
type Communicator struct {
	Ranks     int      `json:"ranks"`
	Connected []string `json:"connected"` // ring, for collectives; send and receive, to and from single ranks
}

// recordedNCCL is what NCCL takes of the device: of the communicators that the recording tells of, or what was measured
// for one where it was written before recorders did.
func recordedNCCL(rec *recording.Recording, s *Step) int64 {
	switch {
	case s.process > 0:
		return 0
	case s.NCCL > 0:
		return s.NCCL
	case rec.NCCL != nil:
		return rec.NCCL.Bytes(rec.Connected())
	case rec.WorldSize > 1:
		return gpu.NCCL
	}
	return 0
}

// communicators tells of a recording's communicators in a report.
func communicators(rec *recording.Recording) []Communicator {
	var out []Communicator
	for _, c := range rec.Connected() {
		to := Communicator{Ranks: c.Ranks, Connected: []string{}}
		if c.Ring && c.Ranks > 1 {
			to.Connected = append(to.Connected, "ring")
		}
		if c.Sends > 0 {
			to.Connected = append(to.Connected, "send")
		}
		if c.Receives > 0 {
			to.Connected = append(to.Connected, "receive")
		}
		out = append(out, to)
	}
	return out
}

// ncclNotes say which communicators NCCL's share is of, and what it rests on.
func ncclNotes(rec *recording.Recording, s *Step, bytes int64) []Note {
	if bytes == 0 || s.NCCL > 0 {
		return nil
	}
	if rec.NCCL == nil {
		return []Note{{Info, fmt.Sprintf("NCCL: %s, measured for one communicator of two GPUs: this recording does not say "+
			"which it made, one made today does; --nccl SIZE says otherwise", inGiB(bytes))}}
	}
	count, beyond, measured := map[int]int{}, false, true
	for i := range rec.Communicators {
		c := &rec.Communicators[i]
		count[len(c.Ranks)]++
		beyond = beyond || rec.Beyond(c)
		measured = measured && len(c.Ranks) <= 2
	}
	var parts []string
	for ranks, n := range count {
		parts = append(parts, fmt.Sprintf("%d of %s", n, plural(ranks, "rank")))
	}
	slices.SortFunc(parts, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	text := fmt.Sprintf("NCCL: %s for %s, %s", inGiB(bytes), plural(len(rec.Communicators), "communicator"),
		strings.Join(parts, ", "))
	level := Info
	switch {
	case beyond:
		level = Warning
		text += ": buffers for the network between hosts, and of trees, were not measured and are not in it"
	case !measured:
		text += ": sizes of two H200s of one host, more were not measured"
	case rec.GPU.Name != "h200":
		text += ": sizes of two H200s of one host"
	}
	if level == Warning || !measured || rec.GPU.Name != "h200" {
		text += "; --nccl SIZE says otherwise"
	}
	return []Note{{level, text}}
}
