package onnxload

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

const hintExport = `export the model from Python with torch.onnx.export(model, inputs, "model.onnx")`

// A magic is how files of a format begin.
type magic struct {
	at     int
	bytes  string
	format string
	hint   string
}

// magics are the formats that are taken for ONNX models by accident, with the
// bytes by which their specifications tell them.
var magics = []magic{
	{0, "\x89PNG\r\n\x1a\n", "PNG image", ""},
	{0, "\xff\xd8\xff", "JPEG image", ""},
	{0, "GIF8", "GIF image", ""},
	{0, "%PDF-", "PDF document", ""},
	{0, "GGUF", "GGUF file of llama.cpp", hintExport},
	{0, "tjgg", "GGML file of llama.cpp", hintExport},
	{0, "lmgg", "GGML file of llama.cpp", hintExport},
	{0, "ftrt", "TensorRT engine", "give the ONNX file that it was built from"},
	{0, "ptrt", "TensorRT engine", "give the ONNX file that it was built from"},
	{4, "ORTM", "ONNX Runtime's ORT format", "give the .onnx file that it was made from"},
	{4, "TFL3", "TensorFlow Lite model", "convert it with python -m tf2onnx.convert --tflite"},
	{4, "ET12", "ExecuTorch program", hintExport},
	{0, "\x89HDF\r\n\x1a\n", "HDF5 file, as Keras writes", "convert the model with tf2onnx"},
	{0, "\x93NUMPY", "NumPy array", ""},
	{0, "BZh", "bzip2 file", "unpack it first"},
	{0, "\xfd7zXZ\x00", "xz file", "unpack it first"},
	{0, "\x28\xb5\x2f\xfd", "zstd file", "unpack it first"},
	{0, "7z\xbc\xaf\x27\x1c", "7z archive", "unpack it first"},
	{257, "ustar", "tar archive", "unpack it first"},
	{0, "\x7fELF", "ELF program or library", ""},
	{0, "MZ", "Windows program or library", ""},
	{0, "PK\x05\x06", "empty zip archive", ""},
	{0, "\xff\xfe", "UTF-16 text", "it went through a text converter: transfer the file as binary"},
	{0, "\xfe\xff", "UTF-16 text", "it went through a text converter: transfer the file as binary"},
	{0, "\xef\xbb\xbf", "text with a byte order mark", "it went through a text converter: transfer the file as binary"},
	{0, "%TSD-Header-###%", "encrypted file", ""},
}

// sniff names what the input is when its beginning says that it is no ONNX
// model, and returns nil when it may be one. size may be unknownSize.
func sniff(head []byte, size int64) *FormatError {
	if len(head) == 0 {
		return &FormatError{Format: "empty file", Hint: "was its export or download broken off?"}
	}
	if f := sniffLFS(head); f != nil {
		return f
	}
	for _, m := range magics {
		if len(head) >= m.at+len(m.bytes) && string(head[m.at:m.at+len(m.bytes)]) == m.bytes {
			return &FormatError{Format: m.format, Hint: m.hint}
		}
	}
	if bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		return sniffZip(head)
	}
	if bytes.HasPrefix(head, []byte("\x1f\x8b")) {
		return sniffGzip(head)
	}
	if head[0] == 0x80 && len(head) > 1 && head[1] <= 5 {
		return sniffPickle(head)
	}
	if len(head) >= 10 && head[8] == '{' && (head[9] == '"' || head[9] == '}') {
		if n := binary.LittleEndian.Uint64(head); n <= 100<<20 && (size == unknownSize || n <= uint64(size)) {
			return &FormatError{Format: "safetensors file", Hint: "it has weights but no graph; " + hintExport}
		}
	}
	return sniffText(head)
}

// sniffLFS reads a git-lfs pointer: the text that stands for a file that was not fetched.
func sniffLFS(head []byte) *FormatError {
	if !bytes.HasPrefix(head, []byte("version https://git-lfs")) {
		return nil
	}
	f := &FormatError{Format: "git-lfs pointer", Hint: "fetch the file with git lfs pull"}
	for line := range strings.Lines(string(head)) {
		if s, ok := strings.CutPrefix(line, "size "); ok {
			var n int64
			if _, err := fmt.Sscanf(s, "%d", &n); err == nil && n >= 0 {
				f.Format = fmt.Sprintf("git-lfs pointer to a file of %d bytes", n)
			}
		}
	}
	return f
}

// sniffZip looks at the name of the archive's first member.
func sniffZip(head []byte) *FormatError {
	name := ""
	if len(head) >= 30 {
		n := int(binary.LittleEndian.Uint16(head[26:]))
		name = string(head[30:min(30+n, len(head))])
	}
	switch {
	case strings.HasSuffix(name, "/data.pkl"), strings.HasSuffix(name, "/version"), strings.HasSuffix(name, "/byteorder"),
		strings.HasSuffix(name, "/archive_format"), strings.HasSuffix(name, "/constants.pkl"),
		strings.HasSuffix(name, "/data/0"): // TorchScript's begin with their tensors
		return &FormatError{Format: "PyTorch file", Hint: "load it in Python and " + hintExport}
	case strings.HasSuffix(name, ".npy"):
		return &FormatError{Format: "NumPy archive"}
	case strings.HasSuffix(name, ".onnx"):
		return &FormatError{Format: "zip archive with an ONNX file", Hint: "unpack it first"}
	}
	return &FormatError{Format: "zip archive", Hint: "unpack it first; if it is a PyTorch file, " + hintExport}
}

// sniffGzip tells a recording of a step from other compressed files.
func sniffGzip(head []byte) *FormatError {
	z, err := gzip.NewReader(bytes.NewReader(head))
	if err == nil {
		start := make([]byte, 100)
		n, _ := io.ReadFull(z, start)
		if bytes.Contains(start[:n], []byte("memestimate-recording")) {
			return &FormatError{Format: "recording of a training step", Hint: "it has no graph: memestimate FILE estimates it"}
		}
	}
	return &FormatError{Format: "gzip file", Hint: "unpack it first"}
}

// IsSnapshot reports whether a file begins as what torch.cuda.memory._dump_snapshot pickles.
func IsSnapshot(head []byte) bool {
	return bytes.HasPrefix(head, []byte{0x80}) &&
		(bytes.Contains(head, []byte("device_traces")) || bytes.Contains(head, []byte("segments")))
}

// sniffPickle tells a memory snapshot from weights.
func sniffPickle(head []byte) *FormatError {
	if IsSnapshot(head) {
		return &FormatError{Format: "PyTorch memory snapshot", Hint: "memestimate snapshot show FILE tells what it holds"}
	}
	// PyTorch's files before 1.6 begin with its magic number, a pickled long.
	if bytes.Contains(head, []byte("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19")) {
		return &FormatError{Format: "PyTorch file of the old kind", Hint: "load it in Python and " + hintExport}
	}
	return &FormatError{Format: "Python pickle", Hint: "load it in Python and " + hintExport}
}

// sniffText tells kinds of text apart. A model has bytes below tab within its first few.
func sniffText(head []byte) *FormatError {
	if bytes.IndexFunc(head[:min(len(head), 256)], func(r rune) bool { return r < '\t' || r == 0x7f }) >= 0 {
		return nil
	}
	s := strings.ToLower(strings.TrimLeft(string(head), " \t\r\n\v\f"))
	after, tagged := strings.CutPrefix(s, "<")
	switch {
	case strings.HasPrefix(s, "<!doctype html"), strings.HasPrefix(s, "<html"), strings.HasPrefix(s, "<head"):
		return &FormatError{Format: "HTML page", Hint: "the download gave a page instead of the file"}
	case strings.HasPrefix(s, "<?xml"), strings.HasPrefix(s, "<net "):
		return &FormatError{Format: "XML, as OpenVINO writes", Hint: "give the ONNX file that it was made from"}
	case tagged && strings.HasPrefix(strings.TrimLeft(after, " \t\r\n"), "ir_version"), strings.HasPrefix(s, "ir_version"):
		return &FormatError{Format: "ONNX in text form",
			Hint: "convert it in Python with onnx.parser.parse_model or google.protobuf.text_format, and onnx.save"}
	case strings.HasPrefix(s, "{") && (strings.Contains(s, `"model_type"`) || strings.Contains(s, `"architectures"`)):
		return &FormatError{Format: "configuration of a Hugging Face model",
			Hint: "memestimate config.json estimates it"}
	case strings.HasPrefix(s, "{"), strings.HasPrefix(s, "["):
		return &FormatError{Format: "JSON", Hint: hintExport}
	case pythonSource(s):
		return &FormatError{Format: "Python source", Hint: hintExport}
	}
	if len(s) > 0 {
		return &FormatError{Format: "text", Hint: hintExport}
	}
	return &FormatError{Format: "white space"}
}

// pythonSource reports whether a line of a text begins as modules of Python do.
func pythonSource(text string) bool {
	for line := range strings.Lines(text) {
		word, _, _ := strings.Cut(line, " ")
		if word == "import" || word == "from" || word == "class" || word == "def" {
			return true
		}
	}
	return false
}

// sniffFailed names what an input is that could not be decoded, or had no graph.
func sniffFailed(head []byte, m *Model, err error) *FormatError {
	var wire *WireError
	broken := errors.As(err, &wire)
	if len(head) == 0 || !broken && !errors.Is(err, errNoGraph) {
		return nil
	}
	switch {
	case head[0] == 0x0a && broken && wire.Offset < 16:
		return &FormatError{Format: "another protobuf message: a TensorFlow graph, or a single ONNX tensor or graph"}
	case !broken && coreML(head):
		return &FormatError{Format: "Core ML model or TensorFlow SavedModel",
			Hint: "convert it to ONNX, or give the model that it was converted from"}
	case broken && crlf(head):
		return &FormatError{Format: "a damaged file",
			Hint: "every line feed has a carriage return before it: transfer the file as binary"}
	case broken && bytes.Count(head, []byte("\xef\xbf\xbd")) >= 4:
		return &FormatError{Format: "a damaged file", Hint: "bytes were replaced by U+FFFD: it went through a text converter"}
	}
	return nil
}

// coreML reports whether the input begins as Core ML's Model message or
// TensorFlow's SavedModel: a version, then a message with messages where ONNX has the
// producer's name.
func coreML(head []byte) bool {
	if len(head) < 3 || head[0] != 0x08 || head[1] > 32 || head[2] != 0x12 {
		return false
	}
	_, n := binary.Uvarint(head[3:])
	if n <= 0 || len(head) <= 3+n {
		return false
	}
	first := head[3+n]
	return first == 0x0a || first == 0x52 || first == 0xa2
}

// crlf reports whether text conversion put a carriage return before every line feed.
func crlf(head []byte) bool {
	n := bytes.Count(head, []byte("\n"))
	return n >= 4 && bytes.Count(head, []byte("\r\n")) == n
}
