package gpu

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

func TestFind(t *testing.T) {
	if d, err := Find(""); err != nil || d != Default() || !d.Measured {
		t.Errorf(`Find("") is %v, %v: want the device that was measured`, d, err)
	}
	for _, d := range Known() {
		for _, name := range []string{d.ID, d.Name} {
			if got, err := Find(name); err != nil || got != d {
				t.Errorf("Find(%q) is %v, %v", name, got, err)
			}
		}
		if d.MemoryOnly != (d.Multiprocessors == 0) || d.Memory < 2<<30 ||
			!d.MemoryOnly && (d.Multiprocessors < 4 || !d.Capability.AtLeast(6, 0) || d.BLASWorkspace == 0) {
			t.Errorf("%s: %+v", d.ID, d)
		}
	}
	for _, name := range []string{"h300", "2", "3", "40", "rtx 9090", "A100 20GB", "0GiB", "-1GiB"} {
		if d, err := Find(name); err == nil {
			t.Errorf("%q is taken for %s", name, d.ID)
		}
	}
	if len(Known()) < 120 {
		t.Errorf("only %d cards", len(Known()))
	}
	for typed, id := range map[string]string{
		"NVIDIA A100-PCIE-40GB": "a100-40gb", "NVIDIA A100 80GB PCIe": "a100-80gb", "Tesla V100-PCIE-32GB": "v100-32gb",
		"Tesla P100-SXM2-16GB": "p100-16gb", "NVIDIA GeForce RTX 4060 Ti": "rtx-4060-ti-8gb", "4090": "rtx-4090",
		"rtx 3080": "rtx-3080", "RTX 4070": "rtx-4070", "2080ti": "rtx-2080-ti", "RTX 2080 Ti": "rtx-2080-ti",
		"rtx pro 6000": "rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "rtx-pro-6000",
		"mi300x": "mi300x", "AMD Instinct MI300X": "mi300x", "7900 XTX": "rx-7900-xtx", "gb10": "gb10", "DGX Spark": "gb10",
		"RTX 4090 Mobile": "rtx-4090-laptop", "3070 laptop": "rtx-3070-laptop", "4070 Ti Super": "rtx-4070-ti-super",
		"1080 Ti": "gtx-1080-ti", "A10G": "a10g", "NVIDIA A10": "a10", "a6000": "rtx-a6000", "L40S": "l40s", "l40": "l40",
		"24GiB": "24GiB", "24 GiB": "24GiB", "80gb": "80gb", "Arc B580": "arc-b580", "NVIDIA GH200 480GB": "gh200",
	} {
		if d, err := Find(typed); err != nil || d.ID != id {
			t.Errorf("%q is %q, %v: want %s", typed, d.ID, err, id)
		}
	}
}

// No name of a card that exists stands for one with more memory, with or without its words in another form. Sizes are
// GiB, from NVIDIA's data sheets.
func TestNamesNeverWiden(t *testing.T) {
	for name, size := range map[string]int64{
		"GeForce GTX 1080": 8, "GeForce GTX 1080 Ti": 11, "GeForce RTX 2060": 6, "GeForce RTX 2080 Ti": 11, "TITAN RTX": 24,
		"TITAN V": 12, "GeForce RTX 3060 Ti": 8, "GeForce RTX 3060 Laptop GPU": 6,
		"GeForce RTX 3070": 8, "GeForce RTX 3080": 10, "GeForce RTX 3080 Ti": 12, "GeForce RTX 3080 Laptop GPU": 16,
		"GeForce RTX 4050 Laptop GPU": 6, "GeForce RTX 4060 Ti": 8, "GeForce RTX 4070": 12, "GeForce RTX 4070 Ti SUPER": 16,
		"GeForce RTX 4080": 16, "GeForce RTX 4090 Laptop GPU": 16, "GeForce RTX 5060": 8, "GeForce RTX 5070": 12,
		"GeForce RTX 5070 Ti": 16, "GeForce RTX 5080": 16, "GeForce RTX 5090 Laptop GPU": 24, "Quadro RTX 4000": 8,
		"Quadro RTX 5000": 16, "Quadro RTX 6000": 24, "Quadro RTX 8000": 48, "RTX A2000": 6, "RTX A4000": 16,
		"RTX A4500": 20, "RTX A5000": 24, "RTX A5500": 24, "RTX 2000 Ada Generation": 16, "RTX 4000 Ada Generation": 20,
		"RTX 4500 Ada Generation": 24, "RTX 5000 Ada Generation": 32, "RTX PRO 4000 Blackwell": 24,
		"RTX PRO 5000 Blackwell": 48, "Tesla K80": 12, "Tesla M40": 24, "Tesla P4": 8, "Tesla P40": 24,
		"Tesla P100-PCIE-16GB": 16, "A2": 16, "A10": 24, "A16": 16, "A100-PCIE-40GB": 40, "A100-SXM-64GB": 64, "A800": 80,
		"L20": 48, "L40": 48, "H20": 96, "H800": 80, "H100 SXM5 64GB": 64, "GH200 480GB": 96, "Tesla V100-PCIE-16GB": 16,
		"Tesla V100-PCIE-32GB": 32, "Tesla V100-SXM3-32GB": 32, "GB10": 120, "MI300X": 192, "MI210": 64, "Jetson AGX Orin": 32, "Jetson AGX Xavier": 16,
		"GeForce GTX 1060": 3, "GeForce RTX 3050": 6, "GeForce RTX 5060 Ti": 8, "RX 7600": 8, "RX 6700": 10, "RX 9060 XT": 8,
		"Jetson Orin Nano": 4, "Jetson Orin NX": 8, "A800 40GB": 40, "RTX 4000": 8, "RTX 5000": 16, "RTX 6000": 24, "P100": 12,
		"H100 NVL": 94, "RTX 4090 D": 24, "RTX 5090 D V2": 24, "H20-3e": 141, "MI250X": 64, "Arc A770": 8, "GTX 1650": 4,
		"Quadro P6000": 24, "RTX A1000": 8, "T400 4GB": 4, "T4G": 16, "RTX 3500 Ada": 12, "RTX 5000 Ada Laptop": 16,
		"8GB": 8, "16GB": 16, "24 GB": 24, "40G": 40, "80GiB": 80, "100": 16, "6000": 24,
	} {
		for _, form := range []string{name, "NVIDIA " + name, strings.ToLower(name), strings.ReplaceAll(name, " ", "-"),
			strings.ReplaceAll(name, " ", "")} {
			if d, err := Find(form); err == nil && d.Memory > size<<30 {
				t.Errorf("%q, which has %d GiB, is taken for %s with %d", form, size, d.ID, d.Memory>>30)
			}
		}
	}
	for _, d := range known { // a word fewer is the same card, or the least of several
		words := strings.FieldsFunc(d.ID, func(r rune) bool { return r == '-' })
		for i := range words {
			name := strings.Join(slices.Delete(slices.Clone(words), i, i+1), "-")
			if got, err := Find(name); err == nil && name != "" && got.ID != name && got.Memory > d.Memory {
				t.Errorf("%q of %s is taken for %s, which has more", name, d.ID, got.ID)
			}
		}
	}
	if d, err := Find("A100-PCIE-40GB"); err != nil || d.ID != "a100-40gb" {
		t.Errorf("A100-PCIE-40GB is %s, %v", d.ID, err)
	}
}

// parseChosenWorkspaceSize in CublasHandlePool.cpp, and the table of compute capabilities in the CUDA programming
// guide.
func TestCapabilities(t *testing.T) {
	for _, c := range []struct {
		id      string
		threads int
		blas    int64
	}{{"h200", 2048, 33554432}, {"b200", 2048, 8519680}, {"a100-80gb", 2048, 8519680}, {"a10g", 1536, 8519680}, {"l4",
		1536, 8519680},
		{"rtx-5090", 1536, 8519680}, {"t4", 1024, 8519680}, {"v100-16gb", 2048, 8519680}} {
		d, err := Find(c.id)
		must.OK(t, err)
		if got := d.Capability.ResidentThreads(); got != c.threads || d.BLASWorkspace != c.blas || d.LtWorkspace != 1<<20 {
			t.Errorf("%s: %d threads, cuBLAS keeps %d and cublasLt %d", c.id, got, d.BLASWorkspace, d.LtWorkspace)
		}
	}
}

// TestNCCL holds the sizes to what two H200s measured in MiB (free memory before and after, NCCL 2.28.9), in the order
// of the script: init_process_group with a device_id, an all-reduce, an all-to-all, another group of both and its
// reduce-scatter, a group of one and its all-reduce.
func TestNCCL(t *testing.T) {
	byDefault := NCCLSettings{Buffer: -1, Channels: -1, Direct: true}
	with := func(change func(*NCCLSettings)) NCCLSettings {
		s := byDefault
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		settings NCCLSettings
		measured [6]float64 // what each step added
	}{
		"default":              {byDefault, [6]float64{366, 474, 442, 198, 288, 388}},
		"NCCL_BUFFSIZE=1 MiB":  {with(func(s *NCCLSettings) { s.Buffer = 1 << 20 }), [6]float64{366, 426, 378, 198, 240, 388}},
		"NCCL_MAX_NCHANNELS=4": {with(func(s *NCCLSettings) { s.Channels = 4 }), [6]float64{198, 234, 106, 30, 48, 28}},
		"NCCL_MAX_NCHANNELS=1": {with(func(s *NCCLSettings) { s.Channels = 1 }), [6]float64{180, 198, 70, 12, 12, 10}},
		"NCCL_P2P_DISABLE=1":   {with(func(s *NCCLSettings) { s.Direct = false }), [6]float64{198, 186, 58, 30, 0, 388}},
	} {
		steps := [][]Communicator{
			{{Ranks: 2}},
			{{Ranks: 2, Ring: true}},
			{{Ranks: 2, Ring: true, Sends: 1, Receives: 1}},
			{{Ranks: 2, Ring: true, Sends: 1, Receives: 1}, {Ranks: 2}},
			{{Ranks: 2, Ring: true, Sends: 1, Receives: 1}, {Ranks: 2, Ring: true}},
			{{Ranks: 2, Ring: true, Sends: 1, Receives: 1}, {Ranks: 2, Ring: true}, {Ranks: 1, Ring: true}},
		}
		for i, of := range steps {
			before := int64(0)
			if i > 0 {
				before = c.settings.Bytes(steps[i-1])
			}
			if got := float64(c.settings.Bytes(of)-before) / (1 << 20); got != c.measured[i] {
				t.Errorf("%s: step %d takes %g MiB, measured %g", name, i, got, c.measured[i])
			}
		}
	}
	// A send of its own has a communicator of the two: 262 MiB where it is sent from, 518 where it goes to.
	others := []Communicator{{Ranks: 2, Ring: true, Sends: 1, Receives: 1}}
	for want, c := range map[int64]Communicator{262: {Ranks: 2, Sends: 1}, 518: {Ranks: 2, Receives: 1}} {
		if got := byDefault.Bytes(append(others[:1:1], c)) - byDefault.Bytes(others); got != want<<20 {
			t.Errorf("%+v takes %d MiB, measured %d", c, got>>20, want)
		}
	}
	if got := byDefault.Bytes(nil); got != 0 {
		t.Errorf("no communicator takes %d bytes", got)
	}
	most := NCCLSettings{Buffer: 1 << 62, Channels: 1 << 62, Direct: true}
	for _, of := range [][]Communicator{{{Ranks: 2, Ring: true, Sends: 1 << 40, Receives: 1 << 62}}} {
		if got := most.Bytes(of); got != 1<<50 {
			t.Errorf("%d bytes, wanted an end", got)
		}
	}
}

// The Python package has the default device, for what is recorded without asking the program.
func TestPythonDefault(t *testing.T) {
	const path = "../../python/src/memestimate/core/gpus.py"
	text := must.Read(t, path)
	d := Default()
	for _, line := range []string{
		fmt.Sprintf("\nDEFAULT = GPU(%q, %q, (%d, %d), %d, %d)\n",
			d.ID, d.Name, d.Capability.Major, d.Capability.Minor, d.Multiprocessors, d.Memory),
		fmt.Sprintf("\nCONTEXT = %d << 20\n", contextBase>>20),
	} {
		if !strings.Contains(string(text), line) {
			t.Errorf("%s: want %q", path, line)
		}
	}
}
