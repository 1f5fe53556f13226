package estimate

import (
	"fmt"
	"strings"

	"github.com/memestimate/memestimate/estimate/eager"
)

// A GPU is a device that a run is estimated for. Sizes are bytes.
type GPU struct {
	ID       string // "h200"
	Name     string // as nvidia-smi shows it
	Total    int64  // memory that CUDA reports
	Measured bool   // the context was measured on this device; otherwise the H200's stands in
	device   eager.GPU
}

// What a process costs beyond the caching allocator, measured on an H200 with driver 580 and
// CUDA 13.0 as nvidia-smi's figure less memory_reserved, over 311 runs: the context and the
// kernels' code, and a handle for each thread that uses cuBLAS or cuDNN. The sum is within
// 4 MiB of every measurement.
const (
	contextBase = 614 << 20
	contextBLAS = 64 << 20
	contextDNN  = 8 << 20
)

// context returns the bytes that a run costs beyond the allocator.
func context(run *eager.Run) int64 {
	return contextBase + int64(run.BLAS)*contextBLAS + int64(run.DNN)*contextDNN
}

const (
	hopperBLAS = 32 << 20 // cuBLAS workspace on compute capability 9.0 (CublasHandlePool.cpp, parseChosenWorkspaceSize)
	olderBLAS  = 8519680  // 2*4 MiB + 8*16 KiB on all others
	ltBLAS     = 1 << 20  // cublasLt workspace
)

// gpus are the devices known by name. Memory, multiprocessors and threads of one are from
// NVIDIA's data sheets and the CUDA programming guide's table of compute capabilities, memory less
// the share that the driver keeps for itself and ECC; the H200's were read off the device.
var gpus = []GPU{
	known("h200", "NVIDIA H200", 150109880320, 132, 2048, hopperBLAS, true),
	known("h100-80gb", "NVIDIA H100 80GB HBM3", 84_929_347_584, 132, 2048, hopperBLAS, false),
	known("h100-pcie", "NVIDIA H100 PCIe", 84_929_347_584, 114, 2048, hopperBLAS, false),
	known("h100-nvl", "NVIDIA H100 NVL", 99_857_989_632, 132, 2048, hopperBLAS, false),
	known("b200", "NVIDIA B200", 191_504_056_320, 148, 2048, olderBLAS, false),
	known("a100-40gb", "NVIDIA A100-SXM4-40GB", 42_285_268_992, 108, 2048, olderBLAS, false),
	known("a100-80gb", "NVIDIA A100-SXM4-80GB", 84_974_239_744, 108, 2048, olderBLAS, false),
	known("a30", "NVIDIA A30", 25_216_745_472, 56, 2048, olderBLAS, false),
	known("a10g", "NVIDIA A10G", 23_609_475_072, 80, 1536, olderBLAS, false),
	known("a40", "NVIDIA A40", 47_608_692_736, 84, 1536, olderBLAS, false),
	known("rtx-a6000", "NVIDIA RTX A6000", 50_925_535_232, 84, 1536, olderBLAS, false),
	known("l4", "NVIDIA L4", 23_580_639_232, 58, 1536, olderBLAS, false),
	known("l40s", "NVIDIA L40S", 47_696_445_440, 142, 1536, olderBLAS, false),
	known("rtx-6000-ada", "NVIDIA RTX 6000 Ada Generation", 50_925_535_232, 142, 1536, olderBLAS, false),
	known("rtx-3090", "NVIDIA GeForce RTX 3090", 25_438_126_080, 82, 1536, olderBLAS, false),
	known("rtx-4090", "NVIDIA GeForce RTX 4090", 25_393_692_672, 128, 1536, olderBLAS, false),
	known("rtx-5090", "NVIDIA GeForce RTX 5090", 33_669_578_752, 170, 1536, olderBLAS, false),
	known("t4", "Tesla T4", 15_655_829_504, 40, 1024, olderBLAS, false),
	known("v100-16gb", "Tesla V100-SXM2-16GB", 16_935_682_048, 80, 2048, olderBLAS, false),
	known("v100-32gb", "Tesla V100-SXM2-32GB", 34_079_899_648, 80, 2048, olderBLAS, false),
}

func known(id, name string, total int64, sms, threads int, blas int64, measured bool) GPU {
	return GPU{ID: id, Name: name, Total: total, Measured: measured, device: eager.GPU{
		Name: name, SMs: sms, ThreadsPerSM: threads, BLASWorkspace: blas, LtWorkspace: ltBLAS,
	}}
}

// GPUs returns the devices known by name, the default one first.
func GPUs() []GPU { return gpus }

// FindGPU returns the device of this name, which may be its ID ("h100-80gb"), or the name that
// nvidia-smi shows. "" is the H200, on which the rules were measured.
func FindGPU(name string) (GPU, error) {
	if name == "" {
		return gpus[0], nil
	}
	var ids []string
	for _, g := range gpus {
		if strings.EqualFold(name, g.ID) || strings.EqualFold(name, g.Name) {
			return g, nil
		}
		ids = append(ids, g.ID)
	}
	return GPU{}, fmt.Errorf("unknown GPU %q, want one of %s", name, strings.Join(ids, ", "))
}
