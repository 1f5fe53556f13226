package estimate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// answerOf is the answer about one tensor of a rank of a job, recorded with further lines.
func answerOf(t *testing.T, world, rank int, step *Step, lines ...string) *Report {
	t.Helper()
	all := append([]string{
		fmt.Sprintf(`{"format":"memestimate-recording/1","gpu":{"name":"h200","capability":[9,0],"multiprocessors":132,`+
			`"memory":150109880320},"world_size":%d,"rank":%d}`, world, rank),
	}, lines...)
	r, err := Recorded(endedRecording(t, append(all, `["alloc",0,1048576]`)), Options{Step: step})
	must.OK(t, err)
	return r
}

// What NCCL takes stands in the device's figure, in what is safe, and by itself.
func TestCommunicators(t *testing.T) {
	const settings = `["nccl",4,-1,-1,true]`
	job := []string{settings, `["communicator",[0,1,2,3]]`, `["communicator",[0,2]]`, `["connect",0,"ring",[]]`,
		`["connect",1,"send",[2]]`, `["connect",1,"receive",[2]]`}
	alone := answerOf(t, 1, 0, nil)
	if alone.NCCL != 0 || len(alone.Communicators) > 0 {
		t.Errorf("a process alone: %d bytes, %v", alone.NCCL, alone.Communicators)
	}
	for _, c := range []struct {
		name  string
		world int
		step  *Step
		lines []string
		nccl  int64 // MiB
		note  string
	}{
		{"an older recording", 4, nil, nil, 842, "info NCCL: 842.00 MiB, measured for one communicator of two GPUs"},
		{"no communicator", 4, nil, []string{settings}, 0, ""},
		{"two GPUs", 2, nil, []string{`["nccl",2,-1,-1,true]`, `["communicator",[0,1]]`, `["connect",0,"ring",[]]`}, 840,
			"info NCCL: 840.00 MiB for 1 communicator, 1 of 2 ranks"},
		{"two of four", 4, nil, job, 840 + 198 + 58 + 384,
			"info NCCL: 1.45 GiB for 2 communicators, 1 of 2 ranks, 1 of 4 ranks: sizes of two H200s of one host, more were"},
		{"as asked", 4, &Step{}, job, 1000, ""},
		{"a launcher's one process", 1, nil, []string{`["nccl",1,-1,-1,true]`, `["communicator",[0]]`}, 168 + 388,
			"info NCCL: 556.00 MiB for 1 communicator, 1 of 1 rank"},
		{"two hosts", 8, nil, append(job, `["communicator",[0,1,2,3,4,5,6,7]]`, `["connect",2,"send",[1,4]]`),
			840 + 198 + 58 + 384 + 198 + 64, "warning NCCL: 1.70 GiB for 3 communicators, 1 of 2 ranks, 1 of 4 ranks, 1 of 8"},
	} {
		if c.step != nil {
			c.step.NCCL = c.nccl << 20
		}
		r := answerOf(t, c.world, 0, c.step, c.lines...)
		more := c.nccl << 20
		if r.NCCL != more || r.Context != alone.Context+more || r.Peak.Device != alone.Peak.Device+more ||
			r.Peak.Safe < r.Peak.Device || r.Peak.Safe > r.Peak.Device+r.Peak.Device/20 {
			t.Errorf("%s: NCCL %d MiB, wanted %d; context %d, device %d, safe %d; alone %d, %d", c.name, r.NCCL>>20, c.nccl,
				r.Context, r.Peak.Device, r.Peak.Safe, alone.Context, alone.Peak.Device)
		}
		note := ""
		for _, n := range r.Notes {
			if strings.HasPrefix(n.Text, "NCCL") {
				note = n.Level + " " + n.Text
			}
		}
		if !strings.HasPrefix(note, c.note) || (c.note == "") != (note == "") {
			t.Errorf("%s: %q, wanted %q", c.name, note, c.note)
		}
	}
	if got := fmt.Sprint(answerOf(t, 4, 0, nil, job...).Communicators); got != "[{4 [ring]} {2 [send receive]}]" {
		t.Errorf("communicators %s", got)
	}
}
