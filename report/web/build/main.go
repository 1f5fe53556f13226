// Build makes the page that runs memestimate in a browser: one file that needs no network and no server.
//
//	go run ./report/web/build            # writes dist/web/index.html
//	go run ./report/web/build -o FILE
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/klauspost/compress/zstd"

	"github.com/memestimate/memestimate/report/page"
)

// inlined are the packages whose functions are inlined: the millions of requests that are simulated wait for those.
// That makes the packed program a twentieth smaller, and answers up to a fifth later than if all were (resnet50, Swin-T
// and Qwen2 in Node.js: 6, 20 and 75 ms).
var inlined = []string{
	"github.com/memestimate/memestimate/simulate/caching",
	"github.com/memestimate/memestimate/simulate/timeline",
	"internal/runtime/...",
	"runtime",
}

// mostPacked is what the packed program may take, in bytes: people wait for it.
const mostPacked = 5_200_000

func main() {
	out := flag.String("o", "dist/web/index.html", "the `FILE` to write")
	flag.Parse()
	if err := build(*out); err != nil {
		fmt.Fprintln(os.Stderr, "report/web/build:", err)
		os.Exit(1)
	}
}

func build(out string) error {
	program, err := compile()
	if err != nil {
		return err
	}
	packed, packing, err := pack(program)
	if err != nil {
		return err
	}
	if packing == "xz" && len(packed) > mostPacked {
		return fmt.Errorf("the program takes %d bytes packed, more than %d: GOOS=js GOARCH=wasm go build -ldflags "+
			"-dumpdep tells who needs what", len(packed), mostPacked)
	}
	files := map[string]string{}
	for _, name := range []string{"index.html", "page.css", "page.js", "worker.js"} {
		data, err := os.ReadFile(filepath.Join("report", "web", name))
		if err != nil {
			return fmt.Errorf("%w (this is run in the repository's folder)", err)
		}
		files[name] = string(data)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	runtime, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return err
	}
	known, err := configurations()
	if err != nil {
		return err
	}
	styles, scripts := page.Sources() // of the picture, which a frame shows
	decoder := ""
	if packing == "xz" {
		data, err := os.ReadFile(filepath.Join("report", "web", "xz", "xz-decompress.min.js"))
		if err != nil {
			return err
		}
		decoder = string(data)
		scripts += " " + page.Hash(decoder)
	}
	tmpl, err := template.New("page").Parse(files["index.html"])
	if err != nil {
		return err
	}
	var b bytes.Buffer
	err = tmpl.Execute(&b, map[string]string{
		"Policy": fmt.Sprintf("default-src 'none'; script-src 'wasm-unsafe-eval' blob: %s %s; style-src %s %s; img-src "+
			"data:; worker-src blob:; base-uri 'none'; form-action 'none'",
			page.Hash(files["page.js"]), scripts, page.Hash(files["page.css"]), styles),
		"Known": known,
		"Style": files["page.css"], "Script": files["page.js"], "Worker": files["worker.js"], "Runtime": string(runtime),
		"Program": base64.StdEncoding.EncodeToString(packed), "Packing": packing, "Decoder": decoder,
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(out, b.Bytes(), 0o666); err != nil {
		return err
	}
	fmt.Printf("%s: %.1f MB, the program in it %.2f MB (%s, of %.1f MB)\n", out, float64(b.Len())/1e6,
		float64(len(packed))/1e6, packing, float64(len(program))/1e6)
	return nil
}

// configurations returns the models of the Hugging Face hub that the Python package knows, as JSON: a name and its number
// of parameters for each.
func configurations() (string, error) {
	data, err := os.ReadFile(filepath.Join("python", "src", "memestimate", "api", "known.json"))
	if err != nil {
		return "", err
	}
	var all []struct {
		Names      []string
		Parameters int64
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return "", fmt.Errorf("known.json: %w", err)
	}
	type model struct {
		Name       string `json:"name"`
		Parameters int64  `json:"parameters"`
	}
	var out []model
	for _, m := range all {
		out = append(out, model{m.Names[0], m.Parameters})
	}
	slices.SortFunc(out, func(a, b model) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	text, err := json.Marshal(out) // in which < is \u003c
	return string(text), err
}

// compile builds the program as WebAssembly.
func compile() ([]byte, error) {
	dir, err := os.MkdirTemp("", "memestimate-web")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "memestimate.wasm")
	overlay, err := unpackGraphs(dir)
	if err != nil {
		return nil, err
	}
	args := []string{"build", "-overlay", overlay, "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=",
		"-o", file, "-gcflags=all=-l"}
	for _, packages := range inlined {
		args = append(args, "-gcflags="+packages+"=")
	}
	cmd := exec.Command("go", append(args, "./cmd/memestimate")...)
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	return os.ReadFile(file)
}

// unpackGraphs unpacks the built-in models into a directory, and returns an overlay for go build in which the files
// that models embeds are these.
func unpackGraphs(dir string) (overlay string, err error) {
	d, err := zstd.NewReader(nil)
	if err != nil {
		return "", err
	}
	defer d.Close()
	packed, err := filepath.Glob("models/*/*.onnx.zst")
	if err != nil {
		return "", err
	}
	var files struct{ Replace map[string]string }
	files.Replace = map[string]string{}
	for _, file := range packed {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		graph, err := d.DecodeAll(data, nil)
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		files.Replace[file] = filepath.Join(dir, filepath.Base(filepath.Dir(file))+"."+filepath.Base(file))
		if err := os.WriteFile(files.Replace[file], graph, 0o666); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(files)
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o666)
}

// pack packs the program with the xz command, or a fifth larger with gzip where there is none.
func pack(program []byte) (packed []byte, packing string, err error) {
	var b bytes.Buffer
	if exe, err := exec.LookPath("xz"); err == nil {
		cmd := exec.Command(exe, "-9e", "-T1", "-c") // one thread: the same bytes on every machine
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(program), &b, os.Stderr
		if err := cmd.Run(); err != nil {
			return nil, "", fmt.Errorf("xz: %w", err)
		}
		return b.Bytes(), "xz", nil
	}
	fmt.Fprintln(os.Stderr, "report/web/build: there is no xz command, the page becomes a fifth larger")
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, "", err
	}
	if _, err := z.Write(program); err != nil {
		return nil, "", err
	}
	if err := z.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), "gzip", nil
}
