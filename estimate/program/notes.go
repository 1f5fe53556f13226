package program

import (
	"cmp"
	"fmt"
)

// Words say in a few words each how the step departs from the plain one.
func (p Plan) Words() (words []string) {
	say := func(set bool, format string, args ...any) {
		if set {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	say(p.TrainOnly != "", "only %s trained", p.TrainOnly)
	say(p.Freeze != "", "%s frozen", p.Freeze)
	say(p.LoRA != "", "LoRA %s", p.LoRA)
	say(p.Checkpoint != "", "%s checkpointed", p.Checkpoint)
	say(p.GPUs > 1, "%s on %d GPUs", cmp.Or(p.Parallel, DDP), p.GPUs)
	say(p.Shard != "", "%s sharded", p.Shard)
	say(p.NoReshard, "not resharded")
	say(p.ParamDType != "", "parameters in %s", p.ParamDType)
	say(p.ReduceDType != "", "reduced in %s", p.ReduceDType)
	say(p.MetaDevice, "from the meta device")
	say(p.Offload, "offloaded to the CPU")
	say(p.Bucket > 0, "buckets of %d bytes", p.Bucket)
	say(p.View, "gradients as views of buckets")
	say(p.Static, "a static graph")
	return words
}

// Notes say of a planned program how its figures come about.
func (p Plan) Notes(prog *Program) (info []string) {
	if l, _ := ParseLoRA(p.LoRA); l.Rank > 0 {
		adapters, parameters := 0, int64(0)
		for _, id := range prog.State {
			if v := &prog.Values[id]; isAdapter(v.Name) {
				adapters, parameters = adapters+1, parameters+Numel(v.Shape)
			}
		}
		info = append(info, fmt.Sprintf("%d adapters of %d parameters in all train, in float32: "+
			"the peak has them, the sum of the model's parameters does not", adapters/2, parameters))
	}
	if p.GPUs > 1 {
		info = append(info, "the figures are those of rank 0, and the batch is one rank's")
	}
	switch {
	case p.GPUs < 2:
	case p.Static && p.Parallel != FSDP:
		info = append(info, "with a static graph DDP's old bucket is taken to be there in the third forward pass, as it was "+
			"in nine of ten measured ranks")
	case p.Parallel != FSDP:
		info = append(info, "whether DDP's first bucket is still there in the second forward pass is a race: "+
			"the prediction has it gone, the upper bound has it")
	case p.MetaDevice:
		info = append(info, fmt.Sprintf("fully_shard has %d modules and the model; each rank makes its parts alone",
			len(prog.Groups)-1))
	default:
		info = append(info, fmt.Sprintf("fully_shard has %d modules and the model, which is on the GPU as a whole before: "+
			"--meta-device says that it never is", len(prog.Groups)-1))
	}
	return info
}
