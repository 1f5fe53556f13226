package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/devices"
	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/gpu"
)

// A room is memory that a batch is to fit: of a known GPU, or what is free of a live one.
type room struct {
	gpu    gpu.Device
	memory int64
	live   *devices.Device // nil for a known GPU
	why    string          // no process can be given the live one now; "" when one can
}

// liveRooms returns the GPUs of this machine with what is free of each: less what reservations still have coming.
// At least one can be had.
func liveRooms(e *env) ([]room, error) {
	var g gpuSource
	list, err := g.look(e)
	if err != nil {
		return nil, err
	}
	tellVisible(e, list.Devices)
	offered, rejected := devices.Offered(list.Devices, devices.Request{Visible: visibleDevices(e), PCIOrder: pciOrder(e),
		Held: e.getenv(devices.HeldVariable)})
	byNumber := func(a, b *devices.Device) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.GPUInstance, b.GPUInstance))
	}
	slices.SortStableFunc(rejected, func(a, b devices.Rejection) int { return byNumber(&a.Device, &b.Device) })
	var rooms []room
	for i := range offered {
		d := &offered[i]
		rooms = append(rooms, room{gpu: kindOf(d), memory: int64(d.Available()), live: d})
	}
	if len(rooms) == 0 {
		why := make([]string, len(rejected))
		for i := range rejected {
			why[i] = rejected[i].Device.Label() + " " + rejected[i].Why
		}
		return nil, fail(exitDevice, "fit: --gpu auto: no GPU can be had now: %s", strings.Join(why, "; "))
	}
	for i := range rejected {
		d := &rejected[i].Device
		rooms = append(rooms, room{gpu: kindOf(d), live: d, why: rejected[i].Why})
	}
	slices.SortStableFunc(rooms, func(a, b room) int { return byNumber(a.live, b.live) })
	return rooms, nil
}

// kindOf returns what is known of a live GPU's kind. One that is not known by name lends its memory alone.
func kindOf(d *devices.Device) gpu.Device {
	g, err := gpu.Find(d.Name)
	if err != nil {
		g = gpu.Default()
		g.ID, g.Name, g.Measured = "auto", d.Name, false
	}
	g.Memory = int64(d.Total - d.Reserved)
	return g
}

// A fitAnswer is the largest batch: of --gpu auto that of the live GPU which holds the largest, with those of all.
type fitAnswer struct {
	estimate.Fitting
	UUID string    `json:"uuid,omitempty"` // of that GPU
	GPUs []liveFit `json:"live_gpus,omitempty"`
}

// A liveFit is the largest batch for a GPU of this machine.
type liveFit struct {
	Index  int    `json:"index"`
	UUID   string `json:"uuid"`
	Name   string `json:"name"`
	Memory int64  `json:"memory_bytes"` // that the process may take
	Batch  int64  `json:"batch"`
	Likely int64  `json:"likely_batch"`
	Safe   int64  `json:"safe_batch"`
	Why    string `json:"reason,omitempty"` // why it cannot be had now

	label string
}

// best finds the batch for each room and returns the largest; of equals that of the GPU with least available. step's
// GPU is the room's whenever largest is called.
func (f *fitting) best(step *estimate.Step, rooms []room,
	largest func(memory int64) (*estimate.Fitting, error)) (*fitAnswer, error) {
	var answer *fitAnswer
	var all []liveFit
	found := map[string]*estimate.Fitting{} // by the kind of GPU and its memory: a host has many alike
	for _, p := range rooms {
		row := liveFit{Memory: p.memory, Why: p.why}
		if p.live != nil {
			row.Index, row.UUID, row.Name, row.label = p.live.Index, p.live.UUID, p.live.Name, p.live.Label()
		}
		if p.why == "" {
			key := fmt.Sprint(p.gpu.ID, " ", p.memory)
			r := found[key]
			if r == nil {
				step.GPU = p.gpu
				var err error
				if r, err = largest(p.memory); err != nil {
					return nil, err
				}
				found[key] = r
			}
			row.Batch, row.Likely, row.Safe = r.Batch, r.Likely, r.Safe
			batch := func(x *estimate.Fitting) int64 { return x.Largest(f.sure.value()) }
			if answer == nil || batch(r) > batch(&answer.Fitting) ||
				batch(r) == batch(&answer.Fitting) && p.memory < answer.Memory {
				answer = &fitAnswer{Fitting: *r, UUID: row.UUID}
			}
		}
		if p.live != nil {
			all = append(all, row)
		}
	}
	answer.GPUs = all
	return answer, nil
}

// writeRooms writes what fits each live GPU.
func (f *fitting) writeRooms(w io.Writer, e *env, r *fitAnswer) error {
	if len(r.GPUs) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return f.out.grid(w, e, r.rooms())
}

// rooms lists this machine's GPUs.
func (r *fitAnswer) rooms() *report.Grid {
	g := &report.Grid{Columns: []report.Column{
		{Title: "GPU"}, {Title: "name", Code: true}, {Title: "available", Right: true}, {Title: "batch", Right: true},
		{Title: "likely batch", Right: true}, {Title: "safe batch", Right: true}, {Title: "remark"},
	}}
	for i := range r.GPUs {
		p := &r.GPUs[i]
		row := []string{p.label[len("GPU "):], printable(p.Name), "", "", "", "", p.Why}
		if p.Why == "" {
			row[2], row[3] = report.Size(p.Memory), report.Count(p.Batch)
			row[4], row[5] = report.Count(p.Likely), report.Count(p.Safe)
			if p.UUID == r.UUID {
				row[6] = "the answer"
			}
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}
