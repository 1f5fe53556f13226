package devices_test

import (
	"fmt"
	"os"

	"github.com/memestimate/memestimate/devices"
)

const gib = 1 << 30

func twoGPUs() []devices.Device {
	return []devices.Device{
		{Index: 0, UUID: "GPU-aaaa", Name: "NVIDIA A100-SXM4-80GB", HasMemory: true, Total: 80 * gib, Free: 79 * gib},
		{Index: 1, UUID: "GPU-bbbb", Name: "NVIDIA GeForce RTX 4090", HasMemory: true, Total: 24 * gib, Free: 20 * gib},
	}
}

func ExampleChoose() {
	small, _ := devices.Choose(twoGPUs(), devices.Request{Bytes: 10 * gib})
	fmt.Println(devices.Environment(small)[1])
	large, _ := devices.Choose(twoGPUs(), devices.Request{Bytes: 30 * gib})
	fmt.Println(devices.Environment(large)[1])
	_, err := devices.Choose(twoGPUs(), devices.Request{Bytes: 90 * gib})
	fmt.Println(err)
	// Output:
	// CUDA_VISIBLE_DEVICES=GPU-bbbb
	// CUDA_VISIBLE_DEVICES=GPU-aaaa
	// no GPU has 90.00 GiB available: GPU 0 (NVIDIA A100-SXM4-80GB) comes closest with 79.00 GiB, 11.00 GiB short
}

func ExampleParseVisible() {
	ds := twoGPUs()
	for _, value := range []string{"GPU-b,GPU-a", "GPU-b,0", "7,0", ""} {
		v := devices.ParseVisible(value, ds, false)
		fmt.Printf("%q: %v\n", value, v.Indexes)
	}
	// Output:
	// "GPU-b,GPU-a": [1 0]
	// "GPU-b,0": [1]
	// "7,0": []
	// "": []
}

func ExampleMostFree() {
	d, ok := devices.MostFree(twoGPUs())
	fmt.Println(d.Label(), ok)
	// Output: GPU 0 true
}

func ExampleSplit() {
	// A replica takes 2 GiB, a sample half a GiB; the first GPU also gathers 20 MiB a sample.
	cost := devices.SplitCost{Fixed: 2 * gib, PerSample: gib / 2, Gathered: 20 << 20}
	parts, err := devices.Split(96, []uint64{40 * gib, 40 * gib}, cost)
	fmt.Println(parts, err)
	// Output: [46 50] <nil>
}

func ExampleBalanced() {
	parts, _ := devices.Balanced(96, 4, 12)
	fmt.Println(parts)
	// Output: [12 28 28 28]
}

func ExampleTrace() {
	used := uint64(1 << 30)
	trace := devices.NewTrace(func() (uint64, error) { return used, nil }, devices.TraceOptions{Context: "train"})
	trace.Start()
	used += 2345 << 20 // what happens is measured
	line, _ := trace.Line("epoch 1")
	trace.Stop()
	fmt.Println(line)
	// Output: △Used Peaked MB:  2,345      0 (train: epoch 1)
}

// What a block of a program takes of the first GPU.
func ExampleSession_Used() {
	session, err := devices.Open("")
	if err != nil {
		return // no driver
	}
	defer session.Close()
	list, err := session.List()
	if err != nil || len(list) == 0 {
		return
	}
	trace := devices.NewTrace(func() (uint64, error) { return session.Used(&list[0]) },
		devices.TraceOptions{Context: "train", Out: os.Stderr})
	if err := trace.Start(); err != nil {
		return
	}
	_ = trace.ReportAndReset("epoch 1")
}
