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
	Judged          bool  // predictions for it were compared with runs that others published: see docs/accuracy.md
	// of another maker, or a size: nothing is known but the memory, and what a run takes is that on another device
	MemoryOnly bool
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
	case c.Major == 8 && c.Minor > 0, c.Major == 11, c.Major == 12:
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

func device(id, name string, memory int64, c Capability, multiprocessors int) Device {
	return Device{ID: id, Name: name, Memory: memory, Capability: c, Multiprocessors: multiprocessors,
		BLASWorkspace: c.blasWorkspace(), LtWorkspace: ltWorkspace}
}

func memoryOnly(id, name string, memory int64) Device {
	return Device{ID: id, Name: name, Memory: memory, MemoryOnly: true}
}

// Like returns the device as a run is simulated on it: one of which the memory alone is known is like another.
func (d Device) Like(other Device) Device {
	if !d.MemoryOnly {
		return d
	}
	other.ID, other.Name, other.Memory, other.MemoryOnly = d.ID, d.Name, d.Memory, true
	return other
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
	case d.MemoryOnly:
		return "memory alone"
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

// largest is more memory than any device has: 1180 Ti is no size, but a card that does not exist.
const largest = 2 << 40

// Find returns the device of this name, which may be its ID ("h100-80gb"), the name that
// nvidia-smi shows, or as much of them as spelling.GPU needs; or a size: "24GiB". "" is the default.
func Find(name string) (Device, error) {
	if name == "" {
		return Default(), nil
	}
	at, err := spelling.GPU(name, spelled())
	switch {
	case err != nil:
		return Device{}, err
	case at < 0:
		if size, err := spelling.Size(name); err == nil && 0 < size && size < largest { // which "1080 Ti" is not
			id := strings.Join(strings.Fields(name), "")
			return memoryOnly(id, id, size), nil
		}
		return Device{}, fmt.Errorf("unknown GPU %q, want a size such as 24GiB or one that memestimate gpus lists", name)
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
