package estimate

import (
	"cmp"
	"fmt"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/program/parallel"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/simulate/gpu"
)

// options are how eager mode runs a step, and on which device.
func (s *Step) options() (opts torch.Options, device gpu.Device) {
	opts = torch.Options{Settings: s.Settings, Train: !s.Infer, Compiled: s.Compile, Tensors: s.Record, Steps: s.steps}
	switch together := s.GPUs > 1 && !s.Infer; {
	case together && s.Parallel == parallel.FSDP:
		opts.Shards = shards(s.Plan)
	case together && s.Parallel == parallel.PP:
		opts.Pipeline = torch.Pipeline{
			Stages: s.GPUs, Stage: s.Stage, Microbatches: cmp.Or(s.Microbatches, s.GPUs),
			FillDrain: s.Schedule == parallel.FillDrain,
		}
	case together && (s.Parallel == parallel.ZeRO2 || s.Parallel == parallel.ZeRO3):
		opts.DeepSpeed = torch.DeepSpeed{World: s.GPUs, Stage: 2, Bucket: s.Bucket, Meta: s.MetaDevice}
		if s.Parallel == parallel.ZeRO3 {
			opts.DeepSpeed.Stage = 3
		}
	case together && s.Parallel != parallel.TP:
		opts.Replicas = torch.Replicas{
			World: s.GPUs, Bucket: s.Bucket, View: s.View, Static: s.Static, Late: s.late || s.Static,
			Partition: s.Parallel == parallel.ZeRO1,
		}
	}
	device = s.on(gpu.Default())
	opts.GPU = &device
	return opts, device
}

// on returns the device that the step runs on, which is the given one where it names none.
func (s *Step) on(d gpu.Device) gpu.Device {
	if s.GPU.ID != "" {
		d = s.GPU
	}
	d.Memory = cmp.Or(s.memory, d.Memory)
	d.BLASWorkspace = cmp.Or(s.Profile.BLASWorkspace, d.BLASWorkspace)
	return d
}

// ncclOf is what NCCL takes on the device of the rank that takes most.
func ncclOf(p parallel.Plan) int64 {
	switch p.Parallel {
	case parallel.TP:
		return gpu.NCCLTensor
	case parallel.PP:
		return gpu.NCCLPipeline
	}
	return gpu.NCCL
}

// shards are the settings of FSDP2.
func shards(p parallel.Plan) torch.Shards {
	types := map[string]program.DType{"fp32": program.Float32, "bf16": program.BFloat16, "fp16": program.Float16}
	return torch.Shards{
		World: p.GPUs, Keep: p.NoReshard, Meta: p.MetaDevice, Offload: p.Offload,
		Param: types[p.ParamDType], Reduce: types[p.ReduceDType],
	}
}

// A Stage is what one GPU of a pipeline takes. Sizes are bytes.
type Stage struct {
	Begins     string `json:"begins"` // the module that it begins with; "" for the first
	Allocated  int64  `json:"allocated_bytes"`
	Reserved   int64  `json:"reserved_bytes"`
	Device     int64  `json:"device_bytes"`
	Likely     int64  `json:"likely_bytes"`
	Safe       int64  `json:"safe_bytes"`
	UpperBound int64  `json:"upper_bound_bytes"`
}

// simulateStages simulates every stage of a pipeline, and answers with that which takes most. What is likely and safe,
// and the upper bound, hold for all of them.
func (b *Bound) simulateStages(s Step) (*Simulation, error) {
	var largest *Simulation
	var stages []Stage
	var loss string
	for s.Stage = range s.GPUs {
		sim, err := b.simulateRank(s)
		if err != nil {
			return nil, fmt.Errorf("stage %d: %w", s.Stage, err)
		}
		sim.stage = s.Stage
		stages = append(stages, Stage{
			Begins: sim.prog.Begins, Allocated: sim.Peak.Allocated, Reserved: sim.Peak.Reserved,
			Device: sim.Peak.Device, Likely: sim.Peak.Likely, Safe: sim.Peak.Safe, UpperBound: sim.Peak.UpperBound,
		})
		loss = cmp.Or(sim.Run.Loss, loss) // which the last stage alone computes
		if largest == nil || sim.Replay.OOM != nil && largest.Replay.OOM == nil || sim.Peak.Device > largest.Peak.Device {
			largest = sim
		}
	}
	largest.Stages, largest.Run.Loss = stages, loss
	for _, k := range stages {
		largest.Peak.Likely, largest.Peak.Safe = max(largest.Peak.Likely, k.Likely), max(largest.Peak.Safe, k.Safe)
		largest.Peak.UpperBound = max(largest.Peak.UpperBound, k.UpperBound)
	}
	return largest, nil
}
