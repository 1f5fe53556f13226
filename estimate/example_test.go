package estimate_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/simulate/gpu"
)

func mlp() *onnxload.Model {
	data, err := models.Open("mlp")
	if err != nil {
		log.Fatal(err)
	}
	m, err := onnxload.Read(bytes.NewReader(data), int64(len(data)), onnxload.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return m
}

func ExampleRun() {
	r, err := estimate.Run(mlp(), estimate.Options{Batch: 64,
		Step: &estimate.Step{Settings: torch.Settings{Optimizer: "adam"}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("peak in the", r.Peak.Phase, "of step", r.Peak.Step)
	fmt.Println("parameters", r.Peak.ByCategory["parameter"])
	fmt.Println("optimizer state", r.Peak.ByCategory["optimizer_state"])
	fmt.Println("reserved is no less than allocated:", r.Peak.Reserved >= r.Peak.Allocated)
	// Output:
	// peak in the optimizer of step 1
	// parameters 419139488
	// optimizer state 838278976
	// reserved is no less than allocated: true
}

// A model is bound once, and simulated as often as there are questions.
func ExampleBind() {
	b, err := estimate.Bind(mlp(), estimate.Options{Batch: 64})
	if err != nil {
		log.Fatal(err)
	}
	var peaks []int64
	for _, name := range []string{"sgd", "sgdm", "adamw"} {
		s, err := b.Simulate(estimate.Step{Settings: torch.Settings{Optimizer: name}})
		if err != nil {
			log.Fatal(err)
		}
		peaks = append(peaks, s.Peak.Allocated)
	}
	fmt.Println("momentum takes more:", peaks[0] < peaks[1], "and two moments more again:", peaks[1] < peaks[2])
	// Output:
	// momentum takes more: true and two moments more again: true
}

func ExampleLargest() {
	t4, err := gpu.Find("t4")
	if err != nil {
		log.Fatal(err)
	}
	f, err := estimate.Largest(mlp(), estimate.Options{Step: &estimate.Step{GPU: t4}}, t4.Memory)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("some batch fits:", f.Batch > 0, "and a safe one is no larger:", f.Safe <= f.Batch)
	// Output:
	// some batch fits: true and a safe one is no larger: true
}
