package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// otherFile says what a file is that is no graph, and which command is of use; nil where its name does not tell.
func otherFile(path string) error {
	is := func(what string) *exitError { return fail(exitInput, "%s: %s", quoteArg(path), what) }
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return aFolder(path)
	}
	base := strings.TrimSuffix(path, filepath.Ext(path))
	switch strings.ToLower(filepath.Ext(path)) {
	case ".safetensors":
		if config := filepath.Join(filepath.Dir(path), "config.json"); exists(config) {
			return is("weights alone; config.json there says which model they are of").
				withHint("memestimate %s", hintArg(config))
		}
		return is("weights alone, which do not say what computes with them").
			withHint("memestimate ORG/NAME or its config.json; memestimate train.py for a script")
	case ".gguf":
		return is("weights for llama.cpp, which does not train").
			withHint("the model that they were made of: memestimate ORG/NAME --qlora 16")
	case ".pt", ".pth", ".ckpt", ".bin":
		return is("a checkpoint of PyTorch: weights, without the program that computes with them").
			withHint("the script that trains it: memestimate train.py")
	case ".ipynb":
		return is("a notebook").withHint("jupyter nbconvert --to script %s && memestimate %s.py", hintArg(path),
			hintArg(base))
	case ".keras", ".h5":
		return is("a Keras model").withHint("keras.saving.load_model(%q).export(%q, format=\"onnx\") in Python, then "+
			"memestimate %s.onnx", path, base+".onnx", hintArg(base))
	}
	return nil
}

// aFolder says what is in a folder that could be estimated.
func aFolder(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return fail(exitInput, "%s: %w", quoteArg(path), cause(err))
	}
	what, hint := "a folder, wanted a file", "it holds no script, no recording, no .onnx file and no config.json"
	var found []string
	for _, e := range entries {
		switch {
		case e.IsDir():
		case slices.Contains([]string{".onnx", ".mrec", ".py"}, strings.ToLower(filepath.Ext(e.Name()))):
			found = append(found, hintArg(filepath.Join(path, e.Name())))
		case e.Name() == "config.json":
			hint = "its config.json names no model_type of transformers"
		}
	}
	switch {
	case strings.HasSuffix(path, ".mlpackage"):
		what, hint = "a Core ML package", "the script that trains it: memestimate train.py"
	case len(found) > 3:
		hint = fmt.Sprintf("name one of its %d scripts, recordings and .onnx files: memestimate %s", len(found),
			found[0])
	case len(found) > 0:
		hint = didYouMean(found...)
	}
	return fail(exitInput, "%s: %s", quoteArg(path), what).withHint("%s", hint)
}
