// Package models holds ONNX graphs of well-known models, without their weights.
//
// Every model comes in up to four forms, one for each way in which PyTorch exports
// it; see Forms. The graphs are compressed with Zstandard, one file each, so
// that opening one costs no more than its own size. NOTICE names where they
// come from and under which licences.
package models

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Forms lists the ways of exporting a model, the one that a bare name stands for
// first: a graph made for training keeps batch norms, dropout and every parameter
// as the module has them.
//
//	ts-train      torch.onnx.export(dynamo=False, training=TrainingMode.TRAINING, do_constant_folding=False)
//	dynamo-train  torch.export of the model in train mode, then torch.onnx.export(optimize=False)
//	ts-eval       torch.onnx.export(dynamo=False) of the model in eval mode
//	dynamo        torch.onnx.export(dynamo=True) of the model in eval mode
func Forms() []string { return []string{"ts-train", "dynamo-train", "ts-eval", "dynamo"} }

// A Model says what a built-in model is.
type Model struct {
	Name    string   `json:"name"`
	Source  string   `json:"source"`  // the library and the call that built it
	Licence string   `json:"licence"` // of the library, as an SPDX identifier
	Input   string   `json:"input"`   // element type and dimensions; "batch" is symbolic
	Sizes   []string `json:"sizes"`   // its input's last dimensions, by the names under which they take other sizes
	Forms   []string `json:"forms"`   // the forms it comes in, the default one first

	traced bool // only the forms that were traced take other sizes: in the others they are constants
	apart  bool // no form does, but the graph that OpenSized returns
}

// ErrUnknown is what Open and Info return, wrapped, for a name that is not
// built in.
var ErrUnknown = errors.New("no built-in model has this name")

// Names returns the names of all built-in models, sorted.
func Names() []string {
	names := make([]string, len(table))
	for i, m := range table {
		names[i] = m.Name
	}
	slices.Sort(names)
	return names
}

// Meant returns the name of the built-in model that is meant by one in other letters: "resnet50" by "ResNet-50". A
// form after a colon stays. It is "" when there is none.
func Meant(typed string) string {
	base, form, explicit := strings.Cut(typed, ":")
	bare := strings.NewReplacer("-", "", "_", "", ".", "", " ", "")
	for _, m := range table {
		if strings.EqualFold(bare.Replace(m.Name), bare.Replace(base)) {
			if explicit {
				return m.Name + ":" + strings.ToLower(form)
			}
			return m.Name
		}
	}
	return ""
}

// Info describes the model of that name; of a form after a colon, only Sizes depends on it.
func Info(name string) (Model, error) {
	base, form, _ := strings.Cut(name, ":")
	for _, m := range table {
		if m.Name == base {
			for _, form := range Forms() {
				if _, err := fs.Stat(graphs, file(base, form)); err == nil {
					m.Forms = append(m.Forms, form)
				}
			}
			if m.traced && strings.HasPrefix(form, "dynamo") || m.apart && form != "" {
				m.Sizes = nil
			}
			return m, nil
		}
	}
	return Model{}, fmt.Errorf("%q: %w", base, ErrUnknown)
}

// Open returns the ONNX file of a built-in model: "resnet50" for its default
// form, "resnet50:dynamo" for another one.
func Open(name string) ([]byte, error) {
	base, form, explicit := strings.Cut(name, ":")
	m, err := Info(base)
	if err != nil {
		return nil, err
	}
	if !explicit {
		form = m.Forms[0]
	}
	if !slices.Contains(m.Forms, form) {
		return nil, fmt.Errorf("%s has no form %q, it has %s", base, form, strings.Join(m.Forms, ", "))
	}
	return read(name, file(base, form))
}

// OpenSized is Open for a model that shall take other Sizes. Where these are constants in all forms, it is an export as
// dynamo-train is, with the dimension open.
func OpenSized(name string) ([]byte, error) {
	m, err := Info(name)
	if err != nil || !m.apart || len(m.Sizes) == 0 {
		return Open(name)
	}
	return read(name, "open/"+m.Name+".onnx.zst")
}

// SizedApart reports whether other sizes take another graph than the model's own.
func (m *Model) SizedApart() bool { return m.apart }

// read returns the content of an embedded file.
func read(name, path string) ([]byte, error) {
	data, err := graphs.ReadFile(path)
	if err == nil {
		data, err = unpack(data)
	}
	if err != nil {
		return nil, fmt.Errorf("built-in model %s: %w", name, err)
	}
	return data, nil
}

func file(base, form string) string { return "graphs/" + base + "." + form + ".onnx.zst" }
