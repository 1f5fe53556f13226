package models

import (
	"bytes"
	"flag"
	"testing"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/memestimate/memestimate/test/must"
)

var update = flag.Bool("update", false, "write the embedded graph of conv_example anew")

// A message is an encoded protobuf message under construction. The field numbers
// below are those of onnx.proto.
type message []byte

func (m *message) str(field protowire.Number, s string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), s)
}

func (m *message) num(field protowire.Number, n uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), n)
}

func (m *message) sub(field protowire.Number, s message) { m.str(field, string(s)) }

// convExample is the network whose figures the README of Pytorch-Memory-Utils
// prints, written as torch.onnx.export(training=TRAINING) would write it.
func convExample() []byte {
	node := func(op, module, weights, in, out string, ints map[string][]uint64) message {
		var n message
		n.str(1, in)
		if weights != "" {
			n.str(1, weights+".weight")
			n.str(1, weights+".bias")
		}
		n.str(2, out)
		n.str(3, "/"+module+"/"+op)
		n.str(4, op)
		for _, name := range []string{"dilations", "kernel_shape", "pads", "strides"} {
			if vs, ok := ints[name]; ok {
				var a message
				a.str(1, name)
				for _, v := range vs {
					a.num(8, v)
				}
				a.num(20, 7) // INTS
				n.sub(5, a)
			}
		}
		return n
	}
	value := func(name string, dims ...uint64) message {
		var shape, tensor, typ, v message
		for _, d := range dims {
			var dim message
			dim.num(1, d)
			shape.sub(1, dim)
		}
		tensor.num(1, 1) // FLOAT
		tensor.sub(2, shape)
		typ.sub(1, tensor)
		v.str(1, name)
		v.sub(2, typ)
		return v
	}
	conv := map[string][]uint64{"dilations": {1, 1}, "kernel_shape": {3, 3}, "pads": {1, 1, 1, 1}, "strides": {1, 1}}
	pool := map[string][]uint64{"kernel_shape": {2, 2}, "pads": {0, 0, 0, 0}, "strides": {2, 2}}
	var g message
	g.sub(1, node("Conv", "conv_1", "conv_1", "input", "/conv_1/Conv_output_0", conv))
	g.sub(1, node("Relu", "relu_1", "", "/conv_1/Conv_output_0", "/relu_1/Relu_output_0", nil))
	g.sub(1, node("Conv", "conv_2", "conv_2", "/relu_1/Relu_output_0", "/conv_2/Conv_output_0", conv))
	g.sub(1, node("Relu", "relu_2", "", "/conv_2/Conv_output_0", "/relu_2/Relu_output_0", nil))
	g.sub(1, node("MaxPool", "pool_2", "", "/relu_2/Relu_output_0", "/pool_2/MaxPool_output_0", pool))
	g.sub(1, node("Conv", "conv_3", "conv_3", "/pool_2/MaxPool_output_0", "output", conv))
	g.str(2, "Sequential")
	weight := func(name string, dims ...uint64) {
		var t, location message
		for _, d := range dims {
			t.num(1, d)
		}
		t.num(2, 1) // FLOAT
		t.str(8, name)
		location.str(1, "location")
		location.str(2, "weights.bin")
		t.sub(13, location)
		t.num(14, 1) // EXTERNAL
		g.sub(5, t)
	}
	weight("conv_1.weight", 64, 3, 3, 3)
	weight("conv_1.bias", 64)
	weight("conv_2.weight", 64, 64, 3, 3)
	weight("conv_2.bias", 64)
	weight("conv_3.weight", 128, 64, 3, 3)
	weight("conv_3.bias", 128)
	g.sub(11, value("input", 1, 3, 682, 700))
	g.sub(12, value("output", 1, 128, 341, 350))
	var m, opset message
	m.num(1, 8) // IR version
	m.sub(7, g)
	opset.str(1, "")
	opset.num(2, 17)
	m.sub(8, opset)
	return m
}

func TestConvExampleIsWhatItsGeneratorWrites(t *testing.T) {
	want := convExample()
	if *update {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
		must.OK(t, err)
		must.Write(t, file("conv_example", "ts-train"), w.EncodeAll(want, nil))
	}
	got, err := Open("conv_example")
	must.OK(t, err)
	if !bytes.Equal(got, want) {
		t.Error("run go test ./models -update")
	}
}
