package estimate

import (
	"cmp"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/simulate/gpu"
)

// options are how eager mode runs a step, and on which device.
func (s *Step) options() (opts torch.Options, device gpu.Device) {
	opts = torch.Options{Settings: s.Settings, Train: !s.Infer, Tensors: s.Record}
	switch together := s.GPUs > 1 && !s.Infer; {
	case together && s.Parallel == program.FSDP:
		opts.Shards = shards(s.Plan)
	case together:
		opts.Replicas = torch.Replicas{
			World: s.GPUs, Bucket: s.Bucket, View: s.View, Static: s.Static, Late: s.late || s.Static,
			Partition: s.Parallel == program.ZeRO1,
		}
	}
	device = s.on(gpu.Default())
	opts.GPU = &device
	return opts, device
}

// on returns the device that the step runs on, which is the given one where it names none.
func (s *Step) on(d gpu.Device) gpu.Device {
	if s.GPU.ID != "" {
		d = s.GPU.Like(d)
	}
	d.Memory = cmp.Or(s.memory, d.Memory)
	return d
}

// shards are the settings of FSDP2.
func shards(p program.Plan) torch.Shards {
	types := map[string]program.DType{"fp32": program.Float32, "bf16": program.BFloat16, "fp16": program.Float16}
	return torch.Shards{
		World: p.GPUs, Keep: p.NoReshard, Meta: p.MetaDevice, Offload: p.Offload,
		Param: types[p.ParamDType], Reduce: types[p.ReduceDType],
	}
}
