package shape_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
)

func ExampleInfer() {
	data, err := models.Open("resnet50")
	if err != nil {
		log.Fatal(err)
	}
	m, err := onnxload.Read(bytes.NewReader(data), int64(len(data)), onnxload.Options{})
	if err != nil {
		log.Fatal(err)
	}

	r, err := shape.Infer(m, shape.Options{})
	if err != nil {
		log.Fatal(err)
	}
	first, last := m.Graph.Nodes[0], m.Graph.Outputs[0]
	fmt.Println(first.Op, r.Type(first.Out[0]))
	for _, u := range r.Unbound {
		fmt.Println("no size for", u.Name, "of", u.Inputs)
	}

	if r, err = shape.Infer(m, shape.Options{Batch: 32}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.Op, r.Type(first.Out[0]))
	fmt.Println(r.Type(last))
	// Output:
	// Conv float32[batch, 64, 112, 112]
	// no size for batch of [input]
	// Conv float32[32, 64, 112, 112]
	// float32[32, 1000]
}

func ExampleParseDim() {
	d, _ := shape.ParseDim("(past_sequence_length + 1) * 2")
	fmt.Println(d)
	fmt.Println(d.Bind(func(name string) (shape.Dim, bool) { return shape.N(15), true }))
	// Output:
	// 2*past_sequence_length + 2
	// 32
}
