package devices_test

import (
	"fmt"

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
