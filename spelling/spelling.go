// Package spelling takes the words that users of PyTorch have for settings and says them in memestimate's: "AdamW",
// "torch.optim.SGD(momentum=0.9)", "bfloat16", "batch_size", "4090", "24G". Flags, budget files and JSON all ask here,
// so that what one takes the others take.
//
// A word that means nothing here is returned as it is: who asks knows which names there are, and refuses it. An *Error
// is about a word that is well known and means what memestimate does not do, or two things.
package spelling

import (
	"maps"
	"slices"
	"strings"
)

// An Error says why a word is not taken, and what to write instead.
type Error struct {
	Text string
	hint string
}

// Error says what is wrong with the word.
func (e *Error) Error() string { return e.Text }

// Hint says what to write instead; it may be empty.
func (e *Error) Hint() string { return e.hint }

// keys are other names of settings, in lower case with hyphens.
var keys = map[string]string{
	"batch-size": "batch", "bs": "batch", "batchsize": "batch", "per-device-train-batch-size": "batch",
	"dtype": "precision", "torch-dtype": "precision", "mixed-precision": "precision",
	"optim": "optimizer", "opt": "optimizer",
	"criterion": "loss", "loss-fn": "loss",
	"gradient-accumulation-steps": "grad-accum", "accumulate-grad-batches": "grad-accum", "accum": "grad-accum",
	"gradient-clip-val": "clip-grad-norm", "max-grad-norm": "clip-grad-norm",
	"pytorch-cuda-alloc-conf": "alloc-conf", "pytorch-alloc-conf": "alloc-conf",
	"colour": "color", "dims": "dim", "gpu-name": "gpu", "out": "output",
}

// Key returns the name of a flag, or of a setting in a file: "batch" for "Batch_Size".
func Key(typed string) string {
	name := strings.ReplaceAll(strings.ToLower(typed), "_", "-")
	if own, ok := keys[name]; ok {
		return own
	}
	return name
}

// OtherNames lists the names that settings have elsewhere, each of which Key knows.
func OtherNames() []string { return slices.Sorted(maps.Keys(keys)) }

// Value returns the value of a setting in memestimate's word for it. Those of settings that have no words pass
// unchanged.
func Value(key, typed string) (string, error) {
	switch key {
	case "precision":
		return Precision(typed)
	case "optimizer":
		return Optimizer(typed)
	case "loss":
		return Loss(typed)
	case "mode":
		if slices.Contains([]string{"generate", "generation", "generating"}, plain(typed)) {
			return "", &Error{"a graph holds one pass, not model.generate()",
				"record it: with memestimate.record(\"generate.mrec\"): model.generate(...)"}
		}
		return word(typed, modes), nil
	case "zero-grad":
		return word(typed, zeroGrads), nil
	case "grad-scaler":
		return word(typed, switches), nil
	}
	return typed, nil
}

// List takes a list of values apart at its commas, but for those within brackets: "SGD(lr=0.1, momentum=0.9),adam".
func List(s string) (out []string) {
	depth, begin := 0, 0
	for i, c := range s {
		switch {
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			depth--
		case c == ',' && depth <= 0:
			out, begin = append(out, s[begin:i]), i+1
		}
	}
	return append(out, s[begin:])
}

var (
	modes = map[string]string{
		"training": "train", "fit": "train",
		"inference": "infer", "eval": "infer", "evaluate": "infer", "evaluation": "infer", "predict": "infer",
		"forward": "infer",
		"no-grad": "infer", "inference-mode": "infer", "test": "infer", "validation": "infer", "val": "infer",
	}
	zeroGrads = map[string]string{"set-to-none": "none", "set-to-none=true": "none", "set-to-none=false": "zeros",
		"zero": "zeros"}
	switches = map[string]string{"true": "on", "yes": "on", "1": "on", "false": "off", "no": "off", "0": "off"}
)

// plain writes a word in lower case, with hyphens between its parts.
func plain(typed string) string {
	return strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(strings.TrimSpace(typed)))
}

// word returns what a word means by a table, or the word in its plain form.
func word(typed string, table map[string]string) string {
	name := plain(typed)
	if own, ok := table[name]; ok {
		return own
	}
	return name
}

// precisions are other names of element types. Autocast alone is that of torch.autocast("cuda"), whose default is
// float16.
var precisions = map[string]string{
	"float32": "fp32", "float": "fp32", "f32": "fp32", "full": "fp32", "32": "fp32", "32-true": "fp32", "o0": "fp32",
	"no": "fp32", "single": "fp32",
	"bfloat16": "bf16", "bf16-true": "bf16", "brain": "bf16",
	"float16": "fp16", "half": "fp16", "f16": "fp16", "16-true": "fp16", "o3": "fp16",
	"bf16-mixed": "amp-bf16", "mixed-bf16": "amp-bf16", "mixed-bfloat16": "amp-bf16", "amp-bfloat16": "amp-bf16",
	"autocast-bf16": "amp-bf16", "bf16-amp": "amp-bf16",
	"amp": "amp-fp16", "autocast": "amp-fp16", "mixed": "amp-fp16", "o1": "amp-fp16", "16-mixed": "amp-fp16",
	"fp16-mixed": "amp-fp16",
	"mixed-fp16": "amp-fp16", "mixed-float16": "amp-fp16", "amp-float16": "amp-fp16", "amp-half": "amp-fp16",
	"native-amp": "amp-fp16", "fp16-amp": "amp-fp16",
}

// notModelled are element types that people ask for and that have no figures here, with what to write instead; %s is
// the word that was typed.
var notModelled = []struct {
	names      []string
	text, hint string
}{
	{[]string{"16"}, "%s has two readings", "16-mixed is amp-fp16, 16-true is fp16"},
	{[]string{"tf32"}, "TF32 is how fp32 is multiplied: its tensors are those of fp32", "--precision fp32"},
	{[]string{"fp64", "float64", "double"}, "%s is not modelled, and takes more than fp32", ""},
	{[]string{"o2"}, "the master weights of Apex's O2 are not modelled", "O1 is amp-fp16, O3 is fp16"},
	{[]string{"fp8", "float8", "e4m3", "e5m2", "mxfp8", "mxfp4", "fp4", "nf4", "int8", "int4", "8bit", "4bit", "8-bit",
		"4-bit", "qlora"}, "%s is not modelled", "bf16 takes more: it is an upper bound"},
}

// Precision returns the name of element types: "bf16" for "torch.bfloat16".
func Precision(typed string) (string, error) {
	name := strings.TrimPrefix(plain(typed), "torch.")
	for _, n := range notModelled {
		if slices.Contains(n.names, name) {
			return "", &Error{strings.ReplaceAll(n.text, "%s", typed), n.hint}
		}
	}
	return word(name, precisions), nil
}

// losses are the names of PyTorch's classes and functions, in lower case without hyphens and without "loss" at their
// end.
var losses = map[string]string{
	"crossentropy": "cross-entropy", "ce": "cross-entropy", "xent": "cross-entropy",
	"softmaxcrossentropy": "cross-entropy",
	"nll":                 "nll", "mse": "mse", "l2": "mse", "meansquarederror": "mse", "l1": "l1", "mae": "l1",
	"smoothl1":      "smooth-l1",
	"bcewithlogits": "bce-logits", "bcelogits": "bce-logits", "binarycrossentropywithlogits": "bce-logits",
}

// Loss returns the name of a criterion: "cross-entropy" for "nn.CrossEntropyLoss()".
func Loss(typed string) (string, error) {
	name := strings.TrimSuffix(strings.ToLower(strings.TrimSpace(typed)), "()")
	for _, module := range []string{"torch.nn.functional.", "torch.nn.", "nn.functional.", "nn.", "f."} {
		name = strings.TrimPrefix(name, module)
	}
	key := strings.TrimSuffix(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name), "loss")
	if key == "bce" || key == "binarycrossentropy" {
		return "", &Error{typed + " takes probabilities, which a training step rarely has", "bce-logits is BCEWithLogitsLoss"}
	}
	if own, ok := losses[key]; ok {
		return own, nil
	}
	return plain(name), nil
}
