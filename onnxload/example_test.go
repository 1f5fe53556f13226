package onnxload_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
)

// The graph of a file, whose weights are not there: nothing is read of them but their sizes.
func ExampleRead() {
	data, err := models.Open("mlp:ts-train")
	if err != nil {
		log.Fatal(err)
	}
	m, err := onnxload.Read(bytes.NewReader(data), int64(len(data)), onnxload.Options{Path: "mlp.onnx"})
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range m.Graph.Nodes[:8] {
		if n.Op == "Gemm" {
			fmt.Println(n.Op, m.Values[n.In[0]].Name, "->", m.Values[n.Out[0]].Name)
		}
	}
	w := m.Values[m.Graph.Inits[0]]
	fmt.Println(w.Name, w.Init.DType, w.Init.Dims)
	// Output:
	// Gemm input -> /f/f.0/Gemm_output_0
	// f.0.weight float32 [4096 4096]
}

// What is not a model is refused in one line, with the place.
func ExampleRead_damaged() {
	data := []byte("<html>404</html>")
	_, err := onnxload.Read(bytes.NewReader(data), int64(len(data)), onnxload.Options{Path: "net.onnx"})
	fmt.Println(err)
	// Output:
	// net.onnx: not an ONNX model (HTML page): the download gave a page instead of the file
}
