package onnxtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// Hostile is the catalogue of inputs that must not be taken for models, or not for good
// ones. Every refused case is an error of one line that contains Want, and costs
// less than a megabyte of memory beyond the input's own size; with Want "" the model loads.
func Hostile() []HostileCase {
	return []HostileCase{
		// Not ONNX.
		{"A1 empty", nil, "empty file"},
		{"A2 PNG", text("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), "PNG image"},
		{"A2 HTML", text("\n<!DOCTYPE html><html>404</html>"), "HTML page"},
		{"A2 JSON", text(` {"error": "not found"}`), "JSON"},
		{"A2 XML", text(`<?xml version="1.0"?><net name="x">`), "OpenVINO"},
		{"A2 PDF", text("%PDF-1.7"), "PDF"},
		{"A2 text", text("hello world\n"), "(text)"},
		{"A3 PyTorch zip", zipOf("archive/data.pkl"), "torch.onnx.export"},
		{"A3 PyTorch legacy", text("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03."),
			"torch.onnx.export"},
		{"A3 other pickle", text("\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00K\x01."), "Python pickle"},
		{"A4 safetensors", Safetensors(), "safetensors"},
		{"A4 gguf", text("GGUF\x03\x00\x00\x00"), "GGUF"},
		{"A4 TFLite", text("\x1c\x00\x00\x00TFL3\x14\x00"), "TensorFlow Lite"},
		{"A4 TensorRT", text("ftrt\x00\x00\x00\x00"), "TensorRT"},
		{"A4 CoreML", Bytes(Varint(nil, 1, 4), 2, Bytes(nil, 1, Str(nil, 1, "input"))), "Core ML"},
		{"A4 SavedModel", Bytes(Varint(nil, 1, 1), 2, Bytes(nil, 1, make([]byte, 300))), "TensorFlow SavedModel"},
		{"A4 ORT format", text("\x18\x00\x00\x00ORTM\x00\x00"), "ORT format"},
		{"A4 HDF5", text("\x89HDF\r\n\x1a\n\x00"), "HDF5"},
		{"A4 NumPy", text("\x93NUMPY\x01\x00"), "NumPy"},
		{"A4 TensorFlow graph", Bytes(nil, 1, Str(Str(nil, 1, "input"), 2, "Placeholder")), "TensorFlow graph"},
		{"A5 git-lfs", text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 102400\n"),
			"of 102400 bytes): fetch the file with git lfs pull"},
		{"A7 ONNX text", text("<\n  ir_version: 7,\n  opset_import: [\"\" : 13]\n>\nagraph (float[N] x) => (y) {}"),
			"ONNX in text form"},
		{"A7 protobuf text", text("ir_version: 7\ngraph {\n}\n"), "ONNX in text form"},
		{"A7 gzip", text("\x1f\x8b\x08\x00\x00\x00\x00\x00"), "gzip file): unpack"},
		{"A7 tar", tarOf("model.onnx"), "tar archive): unpack"},
		{"A7 zip", zipOf("model.onnx"), "zip archive with an ONNX file): unpack"},
		{"A8 snapshot", text("\x80\x04\x95\x30\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x08segments\x94]\x94" +
			"\x8c\x0ddevice_traces\x94]\x94u."), "memestimate snapshot show"},
		{"A9 UTF-16", utf16("\x08\nab"), "UTF-16"},
		{"A9 CRLF", bytes.ReplaceAll(GraphOf(Op("A", "x", "y"), Op("B", "x", "z"), Op("C", "x", "w"),
			Op("D", "x", "v")).Bytes(), []byte("\n"), []byte("\r\n")), "carriage return"},
		{"A9 text decoder", bytes.ReplaceAll(append([]byte{8, 10, 0x3a, 0xff, 0xff, 0xff},
			WithInit(Zeros("w", onnxload.Float32, 9)).Bytes()...), []byte{0xff}, text("\xef\xbf\xbd\xef\xbf\xbd")), "U+FFFD"},
		{"a single tensor", Float32s("t", 1, 2).Bytes(), "wire type"},

		// Broken wire data.
		{"A11 length beyond", text("\x08\x0a\x3a\x7f\x0a"), "127 bytes, where the file has 1 bytes left"},
		{"A11 length 2^63", append(text("\x08\x0a\x3a"), binary.AppendUvarint(nil, 1<<63)...), "truncated"},
		{"A11 length 2^64-1 inside", Bytes(Varint(nil, 1, 10), 7,
			append(text("\x0a"), binary.AppendUvarint(nil, math.MaxUint64)...)), "bytes left"},
		{"A11 varint of 11 bytes", text("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "varint"},
		{"A11 varint of 65 bits", text("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), "larger than 64 bits"},
		{"A11 huge tensor name", Bytes(Varint(nil, 1, 10), 7,
			Bytes(nil, 5, append(text("\x42"), binary.AppendUvarint(nil, 1<<40)...))), "bytes left"},
		{"A12 field number 0", text("\x08\x0a\x00\x01"), "byte 2: field number 0"},
		{"A12 zeros", make([]byte, 64), "byte 0: field number 0"},
		{"A12 wire type 6", text("\x08\x0a\x3e\x01"), "byte 2: wire type 6"},
		{"A12 wire type 7", text("\x08\x0a\x3f\x01"), "wire type 7"},
		{"A12 end of group", text("\x08\x0a\x3c"), "group"},
		{"A12 group", text("\x08\x0a\xfb\x01\xfc\x01"), "group"},
		{"A12 wrong wire type", append(Varint(nil, 1, 10), Varint(nil, 7, 3)...),
			"byte 2: ModelProto.graph has wire type 0, want 2"},
		{"A12 field number 2^29", binary.AppendUvarint(text("\x08\x0a"), 1<<32), "field number"},
		{"A13 unknown fields", Model{Graph: Relu(), Extra: Str(Varint(nil, 99, 5), 98, "future")}.Bytes(), ""},
		{"A13 future version", Model{IR: 15, Graph: Relu()}.Bytes(), ""},
		{"A14 second graph", Model{Graph: Relu(), Extra: Bytes(nil, 7, Relu().Bytes())}.Bytes(), "second graph"},
		{"A14 scalar twice", Model{IR: 3, Graph: Relu(), Extra: Varint(nil, 1, 8)}.Bytes(), ""},
		{"A14 type twice", Model{Graph: Graph{Extra: Bytes(nil, 11,
			Bytes(Bytes(Str(nil, 1, "x"), 2, nil), 2, nil))}}.Bytes(), "second type"},
		{"A15 packed and not", GraphOf(Node{Op: "X", Out: []string{"y"},
			Extra: Bytes(nil, 5, Varint(Bytes(Varint(Str(nil, 1, "a"), 8, 1), 8, text("\x02\x03")), 20, 7))}).Bytes(), ""},
		{"A16 nested 40", nest(40), "nesting deeper than 100"},
		{"A16 nested 1,000", nest(1000), "nesting deeper than 100"},
		{"A16 types nested 3,000,000", deepTypes(3_000_000), "nesting deeper than 100"},
		{"A17 trailing garbage", append(Model{Graph: Relu()}.Bytes(), 0, 1, 2, 3), "field number 0"},
		{"A17 trailing zip", append(Model{Graph: Relu()}.Bytes(), zipOf("x")...), "field number 0"},

		// Broken graphs.
		{"A21 cycle", GraphOf(Op("Neg", "q", "p").Named("a"), Op("Neg", "p", "q").Named("b")).Bytes(), `"a" -> "b" -> "a"`},
		{"A21 self-edge", GraphOf(Op("Neg", "p", "p").Named("a")).Bytes(), `cycle: "a" -> "a"`},
		{"A21 cycle through a subgraph", GraphOf(Op("If", "x", "p",
			A("then_branch", Graph{Nodes: []Node{Op("Neg", "q", "t")}, Out: []Value{{Name: "t"}}})).Named("if"), Op("Neg", "p",
			"q").Named("b")).Bytes(), `"if" -> "b" -> "if"`},
		{"A21 a subgraph reads its own node's output", GraphOf(Op("If", "x", "p",
			A("then_branch", Graph{Nodes: []Node{Op("Neg", "p", "t")},
				Out: []Value{{Name: "t"}}})).Named("if")).Bytes(), `"if" -> "if"`},
		{"A22 out of order", GraphOf(Op("Neg", "p", "q"), Op("Neg", "x", "p")).Bytes(), ""},
		{"A23 two producers", GraphOf(Op("Neg", "x", "p").Named("first"), Op("Abs", "x", "p").Named("second")).Bytes(),
			`node 0 "first" and node 1 "second" both produce "p"`},
		{"A23 one node twice", GraphOf(Op("Split", "x", "p p").Named("s")).Bytes(), `node 0 "s" produces "p" twice`},
		{"A23 input and output", GraphOf(Op("Neg", "x", "x").Named("n")).Bytes(),
			`node 0 "n" produces "x", which is an input`},
		{"A23 initializer and output", WithInit(Bare("y", onnxload.Float32, 1)).Bytes(), ""},
		{"A23 initializer, input and output", func() []byte {
			m := WithInit(Bare("y", onnxload.Float32, 1))
			m.Graph.In = append(m.Graph.In, Float("y", 1))
			return m.Bytes()
		}(), `produces "y", which is an input`},
		{"A23 two inputs of one name", Model{Graph: Graph{In: []Value{Float("x", 1), Float("x", 2)}}}.Bytes(),
			`input "x" of the graph is there twice`},
		{"A24 duplicate initializers", WithInit(Bare("w", onnxload.Float32, 1), Bare("w", onnxload.Float32, 1)).Bytes(),
			`initializer "w" is there twice`},
		{"A24 duplicate sparse initializer", Model{Graph: Graph{Inits: []Tensor{Int64s("w", 1)},
			Sparse: []Sparse{SparseOf(Int64s("w", 1), Int64s("", 0), 3)}}}.Bytes(), `initializer "w" is there twice`},
		{"A25 undefined input", GraphOf(Op("Neg", "x", "p"), Op("Conv", "p W", "y").Named("conv")).Bytes(),
			`node 1 "conv" reads "W", which nothing produces`},
		{"A25 undefined in a subgraph", GraphOf(Op("If", "x", "p",
			A("then_branch", Graph{Nodes: []Node{Op("Neg", "Q", "t")},
				Out: []Value{{Name: "t"}}})).Named("if")).Bytes(),
			`attribute "then_branch" of node 0 "if": node 0 ("Neg") reads "Q"`},
		{"A25 an inner value is not visible outside", GraphOf(Op("If", "x", "p",
			A("then_branch", Graph{Nodes: []Node{Op("Neg", "x", "t")}, Out: []Value{{Name: "t"}}})), Op("Neg", "t",
			"u")).Bytes(), `reads "t", which nothing produces`},
		{"A25 undefined output", Model{Graph: Graph{Out: []Value{{Name: "y"}}}}.Bytes(),
			`output "y" of the graph is produced by nothing`},
		{"A27 unused initializer", WithInit(Bare("w", onnxload.Float32, 1<<30)).Bytes(), ""},
		{"A29 omitted optionals", GraphOf(Op("LSTM", "x - - x", "- y -")).Bytes(), ""},
		{"A30 same input twice", GraphOf(Op("Mul", "x x", "y")).Bytes(), ""},
		{"A32 recursion", Calling([]Function{
			{Domain: "l", Name: "f", In: []string{"a"}, Out: []string{"b"}, Nodes: []Node{Op("g", "a", "b").Of("l")}},
			{Domain: "l", Name: "g", In: []string{"a"}, Out: []string{"b"},
				Nodes: []Node{Op("If", "a", "b", A("then_branch",
					Graph{Nodes: []Node{Op("f", "a", "t").Of("l")}, Out: []Value{{Name: "t"}}}))}},
		}, "f").Bytes(), `recursive function: "l.f" -> "l.g" -> "l.f"`},
		{"A32 recursion, not called", func() []byte {
			m := GraphOf()
			m.Functions = []Function{{Name: "f", In: []string{"a"}, Out: []string{"b"}, Nodes: []Node{Op("f", "a", "b")}}}
			return m.Bytes()
		}(), `recursive function: "f" -> "f"`},
		{"A32 calls 200 deep", Calling(chainOfCalls(200), "f200").Bytes(), "more than 100 deep"},
		{"A32 65,536 nodes of 2 kB", Calling(Fib(16), "f16").Bytes(), "unfolds to more than"},
		{"A32 2^60 nodes", Calling(Fib(60), "f60").Bytes(), "unfolds to more than"},
		{"A32 10,000 functions", Calling(func() []Function {
			var fs []Function
			for i := range 10_000 {
				fs = append(fs, Function{Domain: "l", Name: "f" + strconv.Itoa(i), In: []string{"a"}, Out: []string{"b"},
					Nodes: []Node{Op("Neg", "a", "b")}})
			}
			return fs
		}(), "f9999").Bytes(), ""},
		{"A32 a long name in a function called often", func() []byte {
			long := strings.Repeat("n", 200_000)
			var calls []Node
			for i := range 2000 {
				calls = append(calls, Op("f", fmt.Sprint("v", i), fmt.Sprint("v", i+1)).Of("l"))
			}
			m := GraphOf(calls...)
			m.Graph.In, m.Graph.Out = []Value{Float("v0", 1)}, []Value{{Name: "v2000"}}
			m.Functions = []Function{{Domain: "l", Name: "f", In: []string{"a"}, Out: []string{"b"},
				Nodes: []Node{Op("Neg", "a", long), Op("Neg", long, "b")}}}
			return m.Bytes()
		}(), ""},
		{"A32 function twice", Calling(append(Fib(1), Fib(0)...), "f1").Bytes(), `function "l.f0" is declared twice`},
		{"A32 too many inputs", func() []byte {
			m := GraphOf(Op("f0", "x x", "y").Of("l"))
			m.Functions = Fib(0)
			return m.Bytes()
		}(), "2 inputs, want at most 1"},
		{"A32 output from nothing", Calling([]Function{{Domain: "l", Name: "f", Out: []string{"b"}, In: []string{"a"}}},
			"f").Bytes(), "output 0 is produced by nothing"},
		{"A32 a graph used twice", func() []byte {
			m := GraphOf(Op("f", "x", "y", A("g", Graph{Nodes: []Node{Op("Neg", "x", "t")}, Out: []Value{{Name: "t"}}})).Of("l"))
			ref := A("then_branch", RefTo("g", onnxload.AttrGraph))
			m.Functions = []Function{{Domain: "l", Name: "f", In: []string{"a"}, Out: []string{"b"}, Attrs: []string{"g"},
				Nodes: []Node{Op("If", "a", "m", ref), Op("If", "m", "b", ref)}}}
			return m.Bytes()
		}(), `uses the graph of attribute "g" twice`},
		{"A33 custom domain, opset 99", Model{Opset: 99, Graph: Graph{In: []Value{{Name: "x"}},
			Nodes: []Node{Op("Magic", "x", "y").Of("com.example"), Op("Neg", "y", "z")}}}.Bytes(), ""},
		{"A33 no opset", Model{Opset: -1, Graph: Relu()}.Bytes(), ""},
		{"A33 opset of -5", Model{Graph: Relu(), Extra: Bytes(nil, 8, Varint(nil, 2, uint64(math.MaxUint64-4)))}.Bytes(),
			`version -5 of operator set "ai.onnx"`},
		{"A33 IR version of -1", Varint(Model{Graph: Relu()}.Bytes(), 1, uint64(math.MaxUint64)), "IR version -1"},
		{"A34 INT where INTS", GraphOf(Node{Op: "X", Out: []string{"y"},
			Extra: Bytes(nil, 5, Varint(Varint(Str(nil, 1, "axes"), 3, 1), 20,
				7))}).Bytes(), `attribute "axes" is declared INTS, but holds INT`},
		{"A34 two values", GraphOf(Node{Op: "X", Out: []string{"y"},
			Extra: Bytes(nil, 5, Varint(Str(Str(nil, 1, "a"), 4, "s"), 3, 1))}).Bytes(), "declares no type"},
		{"A34 too many attributes", func() []byte {
			n := Op("X", "x", "y")
			for i := range 5000 {
				n.Attrs = append(n.Attrs, A(fmt.Sprint("a", i), 1))
			}
			return GraphOf(n).Bytes()
		}(), "has more than 256 attributes, which is the limit"},
		{"A34 attribute twice", GraphOf(Op("X", "x", "y", A("a", 1), A("a", 2))).Bytes(), `attribute "a" twice`},
		{"A34 attribute type 77", GraphOf(Node{Op: "X", Out: []string{"y"},
			Extra: Bytes(nil, 5, Varint(Str(nil, 1, "a"), 20, 77))}).Bytes(), "attribute type 77"},
		{"A34 attribute without name", GraphOf(Op("X", "x", "y", A("", 1))).Bytes(), "attribute without name"},
		{"A34 reference outside a function", GraphOf(Op("X", "x", "y", A("a", RefTo("k", onnxload.AttrInt)))).Bytes(),
			`refers to "k"`},
		{"A34 no operator", GraphOf(Op("", "x", "y").Named("nameless")).Bytes(), "no op_type"},
		{"A34 empty node", Bytes(Varint(nil, 1, 10), 7, text("\x0a\x00")), "op_type"},
		{"A35 no nodes", Model{Graph: Graph{In: []Value{Float("x", 1)}, Out: []Value{Float("x", 1)}}}.Bytes(), ""},
		{"A35 nothing at all", Varint(nil, 1, 10), "no graph"},
		{"A36 sparse, training", Model{Graph: Graph{Sparse: []Sparse{SparseOf(Float32s("w", 1), Int64s("", 0), 3)}},
			Extra: Bytes(nil, 20, nil)}.Bytes(), ""},
		{"A36 sparse indices of another shape", Model{Graph: Graph{Sparse: []Sparse{SparseOf(Float32s("w", 1),
			Int64s("", 0, 1), 3)}}}.Bytes(), "has indices of shape [2], want [1] or [1 1]"},
		{"A36 sparse with too many values", Model{Graph: Graph{Sparse: []Sparse{SparseOf(Float32s("w", 1, 2),
			Int64s("", 0, 1), 1)}}}.Bytes(), "more than its 1 elements"},

		// Sizes.
		{"A37 dim -1, read as not known", withInput(2, -1).Bytes(), ""},
		{"A37 dim -2", withInput(2, -2).Bytes(), `dim 1 of "in" is -2`},
		{"A37 dim MIN_INT64", withInput(int64(math.MinInt64)).Bytes(), `dim 0 of "in" is -9223372036854775808`},
		{"A37 initializer of dim -1", WithInit(Bare("w", onnxload.Float32, 3, -1)).Bytes(), `dim 1 of "w" is -1`},
		{"A38 2^62 x 4", WithInit(Bare("w", onnxload.Float32, 1<<62, 4)).Bytes(),
			`size of "w", [4611686018427387904 4] elements, does not fit`},
		{"A38 2^32 x 2^32", WithInit(Bare("w", onnxload.Int8, 1<<32, 1<<32)).Bytes(), "does not fit"},
		{"A38 2^62 floats", WithInit(Bare("w", onnxload.Float32, 1<<62)).Bytes(), "does not fit"},
		{"A39 zero first", WithInit(Bare("w", onnxload.Float32, 0, 1<<62, 1<<62)).Bytes(), ""},
		{"A39 zero last", WithInit(Bare("w", onnxload.Float32, 1<<62, 1<<62, 0)).Bytes(), ""},
		{"A40 the sum of weights", WithInit(Bare("a", onnxload.Int8, 1<<62), Bare("b", onnxload.Int8, 1<<62),
			Bare("c", onnxload.Int8, 1<<62)).Bytes(), ""},
		{"A40 the sum of activations",
			Model{Graph: Graph{In: []Value{Val("x", onnxload.Int8, 1<<62)}, Out: []Value{{Name: "c"}},
				Nodes: []Node{Op("Neg", "x", "a"), Op("Neg", "a", "b"), Op("Neg", "b", "c")}}}.Bytes(), ""},
		{"A41 300 GB activation", withInput(300, 1<<28).Bytes(), ""},
		{"A42 raw_data short", WithInit(Tensor{Name: "w", DType: onnxload.Float32, Dims: []int64{2},
			Raw: make([]byte, 7)}).Bytes(), `"w" of float32 [2] has 7 bytes of raw_data, want 8`},
		{"A42 raw_data long", WithInit(Tensor{Name: "w", DType: onnxload.Int4, Dims: []int64{3},
			Raw: make([]byte, 3)}).Bytes(), "3 bytes of raw_data, want 2"},
		{"A42 raw_data where no elements are", WithInit(Tensor{Name: "w", DType: onnxload.Int8, Dims: []int64{0},
			Raw: make([]byte, 3)}).Bytes(), "3 bytes of raw_data, want 0"},
		{"A42 float_data short", WithInit(Tensor{Name: "w", DType: onnxload.Float32, Dims: []int64{2},
			Typed: []float32{1}}).Bytes(), "1 elements in float_data, want 2"},
		{"A42 float_data of 5 bytes", WithInit(Tensor{Name: "w", DType: onnxload.Float32, Dims: []int64{1},
			Extra: Bytes(nil, 4, make([]byte, 5))}).Bytes(), "not a whole number"},
		{"A42 int64_data of floats", WithInit(Tensor{Name: "w", DType: onnxload.Float32, Dims: []int64{1},
			Typed: []int64{1}}).Bytes(), "in int64_data, want float_data"},
		{"A42 raw_data and float_data", WithInit(Tensor{Name: "w", DType: onnxload.Float32, Dims: []int64{1},
			Typed: []float32{1}, Raw: make([]byte, 4)}).Bytes(), "both float_data and raw_data"},
		{"A42 strings as raw_data", WithInit(Tensor{Name: "w", DType: onnxload.String, Dims: []int64{1},
			Raw: make([]byte, 4)}).Bytes(), "strings as raw_data"},
		{"A43 complex, fp8, 2-bit", WithInit(Zeros("a", onnxload.Complex64, 3), Zeros("b", onnxload.Float8E8M0, 3),
			Zeros("c", onnxload.Uint2, 5), Tensor{Name: "d", DType: onnxload.String, Dims: []int64{2},
				Typed: []string{"", "x"}}).Bytes(), ""},
		{"A44 data_type 0", WithInit(Bare("w", 0, 1)).Bytes(), `tensor "w" has data_type 0`},
		{"A44 data_type 99", WithInit(Bare("w", 99, 1)).Bytes(), `tensor "w" has data_type 99`},
		{"A44 declared type 99", Model{Graph: Graph{In: []Value{Val("x", 99, 1)}}}.Bytes(), "element type 99"},
		{"A47 rank 65", WithInit(Bare("w", onnxload.Float32, make([]int64, 65)...)).Bytes(), "more than 64 dimensions"},
		{"A47 rank 10^6", withInput(make([]any, 1_000_000)...).Bytes(), "more than 64 dimensions"},
		{"A47 rank 10^6, packed", WithInit(Tensor{Name: "w", DType: onnxload.Float32,
			Extra: Bytes(nil, 1, make([]byte, 1_000_000))}).Bytes(), "more than 64 dimensions"},

		// External data: nothing is opened, whatever the location says.
		{"A49 location outside", WithInit(Tensor{Name: "w", DType: onnxload.Float32, Dims: []int64{1},
			External: []string{"location", "../../etc/passwd"}}).Bytes(), ""},
		{"A53 10^5 keys", WithInit(Tensor{Name: "w", DType: onnxload.Float32, Dims: []int64{1},
			External: make([]string, 200_000)}).Bytes(), ""},

		// Names.
		{"A61 name of 1 MB", GraphOf(Op("Neg", "x", strings.Repeat("n", 1<<20))).Bytes(), ""},
		{"A62 invalid UTF-8", GraphOf(Op("Neg", "x", "\xff\xfe\x9b")).Bytes(), ""},
	}
}

// A HostileCase is an input of the catalogue, whose name begins with its number in test/catalogue.md.
type HostileCase struct {
	Name string
	File []byte
	Want string // a part of the message that refuses it; "" where it is a model
}
