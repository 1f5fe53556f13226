// Package gpu knows the devices that a run can be estimated for: what of each decides what PyTorch allocates there.
// Nothing else names a device, or says how many multiprocessors it has. Sizes are bytes.
package gpu

import (
	"fmt"
	"strings"

	"github.com/memestimate/memestimate/spelling"
)

// A Device is a kind of GPU.
type Device struct {
	ID              string // "h200"
	Name            string // as nvidia-smi shows it
	Memory          int64  // what CUDA reports: cudaMemGetInfo's total
	Capability      Capability
	Multiprocessors int
	BLASWorkspace   int64 // what PyTorch keeps for each thread that uses cuBLAS
	LtWorkspace     int64 // likewise cublasLt
	Measured        bool  // the rules were measured on this device
	Judged          bool  // predictions for it were compared with runs that others published: see docs/ACCURACY.md
}

// A Capability is a device's compute capability: {9, 0} for Hopper.
type Capability struct{ Major, Minor int }

// AtLeast reports whether a device can what those of a capability can.
func (c Capability) AtLeast(major, minor int) bool {
	return c.Major > major || c.Major == major && c.Minor >= minor
}

// String returns the capability as NVIDIA writes it: "9.0".
func (c Capability) String() string { return fmt.Sprintf("%d.%d", c.Major, c.Minor) }

// ResidentThreads returns how many threads a multiprocessor holds at once (CUDA programming guide, table of technical
// specifications by compute capability).
func (c Capability) ResidentThreads() int {
	switch {
	case c == Capability{7, 5}:
		return 1024
	case c.Major == 8 && c.Minor > 0, c.Major == 12:
		return 1536
	}
	return 2048
}

// blasWorkspace returns the bytes of the workspace that PyTorch keeps for each thread that uses cuBLAS
// (aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize): 4096 blocks of 8 KiB on compute capability 9.0,
// 2 of 4 MiB and 8 of 16 KiB on all others.
func (c Capability) blasWorkspace() int64 {
	if c == (Capability{9, 0}) {
		return 4096 * 8 << 10
	}
	return 2*4096<<10 + 8*16<<10
}

// ltWorkspace is what PyTorch keeps for each thread that uses cublasLt, on every device (_getWorkspaceSize in the same
// file).
const ltWorkspace = 1 << 20

// What a process costs beyond the caching allocator, measured on an H200 with driver 580 and
// CUDA 13.0 as nvidia-smi's figure less memory_reserved, over 311 runs: the context and the
// kernels' code, and a handle for each thread that uses cuBLAS or cuDNN. The sum is within
// 4 MiB of every measurement. It stands in for all other devices.
const (
	contextBase = 614 << 20
	contextBLAS = 64 << 20
	contextDNN  = 8 << 20
)

// Context returns the bytes that a process costs beyond the caching allocator where so many of its threads use cuBLAS
// and cuDNN.
func (d Device) Context(blas, dnn int) int64 {
	return contextBase + int64(blas)*contextBLAS + int64(dnn)*contextDNN
}

// NCCL is what the process takes beyond its context once several GPUs work together by DDP, ZeRO-1 or FSDP2: measured
// with PyTorch 2.11 on two H200s of one host, the same for every model.
const NCCL = 842 << 20

// known lists the devices, the default one first. Memory and multiprocessors are from
// NVIDIA's data sheets, memory less the share that the driver keeps for itself and ECC; the H200's were read off the
// device.
var known = []Device{
	device("h200", "NVIDIA H200", 150_109_880_320, Capability{9, 0}, 132).measured(),
	device("h100-80gb", "NVIDIA H100 80GB HBM3", 84_929_347_584, Capability{9, 0}, 132),
	device("h100-pcie", "NVIDIA H100 PCIe", 84_929_347_584, Capability{9, 0}, 114),
	device("h100-nvl", "NVIDIA H100 NVL", 99_857_989_632, Capability{9, 0}, 132),
	device("b200", "NVIDIA B200", 191_504_056_320, Capability{10, 0}, 148),
	device("a100-40gb", "NVIDIA A100-SXM4-40GB", 42_285_268_992, Capability{8, 0}, 108).judged(),
	device("a100-80gb", "NVIDIA A100-SXM4-80GB", 84_974_239_744, Capability{8, 0}, 108),
	device("a30", "NVIDIA A30", 25_216_745_472, Capability{8, 0}, 56),
	device("a10g", "NVIDIA A10G", 23_609_475_072, Capability{8, 6}, 80),
	device("a40", "NVIDIA A40", 47_608_692_736, Capability{8, 6}, 84),
	device("rtx-a6000", "NVIDIA RTX A6000", 50_925_535_232, Capability{8, 6}, 84),
	device("l4", "NVIDIA L4", 23_580_639_232, Capability{8, 9}, 58),
	device("l40s", "NVIDIA L40S", 47_696_445_440, Capability{8, 9}, 142),
	device("rtx-6000-ada", "NVIDIA RTX 6000 Ada Generation", 50_925_535_232, Capability{8, 9}, 142),
	device("rtx-3090", "NVIDIA GeForce RTX 3090", 25_438_126_080, Capability{8, 6}, 82),
	device("rtx-3060", "NVIDIA GeForce RTX 3060", 12_622_168_064, Capability{8, 6}, 28).judged(),
	device("rtx-4060", "NVIDIA GeForce RTX 4060", 8_318_222_336, Capability{8, 9}, 24).judged(),
	device("rtx-4090", "NVIDIA GeForce RTX 4090", 25_393_692_672, Capability{8, 9}, 128),
	device("rtx-5090", "NVIDIA GeForce RTX 5090", 33_669_578_752, Capability{12, 0}, 170),
	device("t4", "Tesla T4", 15_655_829_504, Capability{7, 5}, 40),
	device("v100-16gb", "Tesla V100-SXM2-16GB", 16_935_682_048, Capability{7, 0}, 80),
	device("v100-32gb", "Tesla V100-SXM2-32GB", 34_079_899_648, Capability{7, 0}, 80).judged(),
}

func device(id, name string, memory int64, c Capability, multiprocessors int) Device {
	return Device{ID: id, Name: name, Memory: memory, Capability: c, Multiprocessors: multiprocessors,
		BLASWorkspace: c.blasWorkspace(), LtWorkspace: ltWorkspace}
}

func (d Device) measured() Device {
	d.Measured = true
	return d
}

func (d Device) judged() Device {
	d.Judged = true
	return d
}

// Basis says what predictions for the device rest on.
func (d Device) Basis() string {
	switch {
	case d.Measured:
		return "measured"
	case d.Judged:
		return "judged on published runs"
	}
	return "derived"
}

// Other returns a device that is not known by name, of a name, a memory in bytes, a capability and so many
// multiprocessors.
func Other(name string, memory int64, c Capability, multiprocessors int) Device {
	return device(name, name, memory, c, multiprocessors)
}

// Known returns the devices known by name, the default one first.
func Known() []Device { return known }

// Default returns the device that is meant where none is named: the one on which the rules were measured.
func Default() Device { return known[0] }

// Find returns the device of this name, which may be its ID ("h100-80gb"), the name that
// nvidia-smi shows, or as much of them as spelling.GPU needs. "" is the default.
func Find(name string) (Device, error) {
	if name == "" {
		return Default(), nil
	}
	at, err := spelling.GPU(name, spelled())
	switch {
	case err != nil:
		return Device{}, err
	case at < 0:
		var ids []string
		for _, d := range known {
			ids = append(ids, d.ID)
		}
		return Device{}, fmt.Errorf("unknown GPU %q, want one of %s", name, strings.Join(ids, ", "))
	}
	return known[at], nil
}

// Family returns all devices that a name could mean: those of 40 and of 80 GB for "a100".
func Family(name string) (all []Device) {
	for _, i := range spelling.GPUs(name, spelled()) {
		all = append(all, known[i])
	}
	return all
}

func spelled() []spelling.Device {
	names := make([]spelling.Device, len(known))
	for i, d := range known {
		names[i] = spelling.Device{ID: d.ID, Name: d.Name}
	}
	return names
}
