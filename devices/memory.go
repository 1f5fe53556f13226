package devices

import "fmt"

// A Memory is a GPU's memory in bytes, as fastai's GPUMemory is in MB.
type Memory struct{ Total, Free, Used uint64 }

// MemoryOf returns the memory of the GPU with NVML index i, as fastai's gpu_mem_get.
// It is an error when there is no such GPU or its memory is not known.
func MemoryOf(ds []Device, i int) (Memory, error) {
	for _, d := range ds {
		if d.Index == i && d.MIG != MIGInstance {
			if !d.HasMemory {
				return Memory{}, fmt.Errorf("GPU %d: its memory is not known: %s", i, d.Reason)
			}
			return Memory{d.Total, d.Free, d.Used}, nil
		}
	}
	return Memory{}, fmt.Errorf("GPU %d: no such GPU, wanted one of %d", i, countGPUs(ds))
}

// Memories returns the memory of every GPU, by NVML index, as fastai's gpu_mem_get_all. A GPU
// whose memory is not known has the zero Memory. MIG instances are left out: their GPU counts them.
func Memories(ds []Device) []Memory {
	var all []Memory
	for _, d := range ds {
		if d.MIG != MIGInstance {
			all = append(all, Memory{d.Total, d.Free, d.Used})
		}
	}
	return all
}

// MostFree returns the usable device with the most free memory, as fastai's
// gpu_with_max_free_mem; of equals the first. ok is false when no device can be used.
func MostFree(ds []Device) (best Device, ok bool) {
	for _, d := range ds {
		if d.Usable() && d.HasMemory && (!ok || d.Free > best.Free) {
			best, ok = d, true
		}
	}
	return best, ok
}

func countGPUs(ds []Device) int {
	n := 0
	for _, d := range ds {
		if d.MIG != MIGInstance {
			n++
		}
	}
	return n
}
