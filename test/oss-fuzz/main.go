// Command oss-fuzz builds the fuzz targets of the module for libFuzzer, as OSS-Fuzz runs them: for each a program that
// hands libFuzzer's inputs to Go's own testing package. The tests stay as they are, in packages of their own and with
// their helpers, which tools that rewrite a file cannot build.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"

	_ "embed"
)

var (
	out    = flag.String("out", os.Getenv("OUT"), "the folder for the programs, and for the files that they read")
	only   = flag.String("only", "", "build targets whose name holds this")
	cxx    = flag.String("cxx", os.Getenv("CXX"), "the C++ compiler, clang's")
	engine = flag.String("engine", os.Getenv("LIB_FUZZING_ENGINE"), "what to link a fuzzing engine by")
)

//go:embed driver.go.tmpl
var driver string

// A listed package is what go list says of one.
type listed struct {
	ImportPath, Dir, Name     string
	TestGoFiles, XTestGoFiles []string
	XTestEmbedPatterns        []string
	Module                    struct{ Path, Dir string }
}

// A target is a fuzz target of a package.
type target struct {
	Package, Name, Folder string // Folder: of the package's tests, from the top of the module
	Types                 []string
}

func main() {
	log.SetFlags(0)
	flag.Parse()
	if *out == "" || *cxx == "" || *engine == "" {
		log.Fatal("want -out, -cxx and -engine, or OUT, CXX and LIB_FUZZING_ENGINE, as in: -out /tmp/fuzz -cxx clang++ " +
			"-engine -fsanitize=fuzzer")
	}
	for _, p := range packages() {
		if err := p.build(); err != nil {
			log.Fatalf("%s: %v", p.ImportPath, err)
		}
	}
}

// packages are those of the module at hand.
func packages() (list []*listed) {
	cmd := exec.Command("go", "list", "-json", "./...")
	cmd.Stderr = os.Stderr
	said, err := cmd.Output()
	if err != nil {
		log.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(said)); d.More(); {
		p := new(listed)
		if err := d.Decode(p); err != nil {
			log.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// build builds the targets of a package. To the compiler its tests are files of the package that end otherwise, and
// those of the package beside it one in a folder below; -overlay shows them there.
func (p *listed) build() error {
	shown := map[string]string{}
	show := func(folder string, files []string) {
		for _, f := range files {
			to := f
			if name, ok := strings.CutSuffix(f, "_test.go"); ok {
				to = name + "_libfuzzer.go"
			}
			shown[filepath.Join(folder, to)] = filepath.Join(p.Dir, f)
		}
	}
	below := filepath.Join(p.Dir, "libfuzzer")
	show(p.Dir, p.TestGoFiles)
	show(below, p.XTestGoFiles)
	for _, pattern := range p.XTestEmbedPatterns {
		paths, err := filepath.Glob(filepath.Join(p.Dir, pattern))
		if err != nil {
			return err
		}
		for _, path := range paths {
			shown[below+strings.TrimPrefix(path, p.Dir)] = path
		}
	}
	var targets []target
	for folder, files := range map[string][]string{p.ImportPath: p.TestGoFiles,
		p.ImportPath + "/libfuzzer": p.XTestGoFiles} {
		for _, f := range files {
			found, err := targetsOf(filepath.Join(p.Dir, f), folder)
			if err != nil {
				return err
			}
			targets = append(targets, found...)
		}
	}
	folder, err := filepath.Rel(p.Module.Dir, p.Dir)
	if err != nil {
		return err
	}
	for _, t := range targets {
		t.Folder = filepath.ToSlash(folder)
		name := strings.ReplaceAll(t.Folder, "/", "_") + "_" + t.Name
		if !strings.Contains(name, *only) {
			continue
		}
		if err := t.build(name, shown); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		if err := copyTestdata(p.Module.Dir, t.Folder); err != nil {
			return err
		}
		fmt.Println(name)
	}
	return nil
}

// targetsOf returns the fuzz targets of a file, with the types that they take.
func targetsOf(path, pkg string) (list []target, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Fuzz") {
			continue
		}
		t := target{Package: pkg, Name: f.Name.Name}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); !ok || s.Sel.Name != "Fuzz" || len(call.Args) != 1 {
				return true
			}
			if body, ok := call.Args[0].(*ast.FuncLit); ok {
				for _, field := range body.Type.Params.List[1:] {
					for range field.Names {
						t.Types = append(t.Types, typeName(field.Type))
					}
				}
			}
			return true
		})
		if len(t.Types) == 0 {
			return nil, fmt.Errorf("%s: what %s takes is not seen", path, t.Name)
		}
		list = append(list, t)
	}
	return list, nil
}

func typeName(x ast.Expr) string {
	if list, ok := x.(*ast.ArrayType); ok {
		return "[]" + typeName(list.Elt)
	}
	return x.(*ast.Ident).Name
}

// build makes the program of a target: an archive by Go, with the counters that libFuzzer reads, linked with it.
func (t *target) build(name string, shown map[string]string) error {
	temp, err := os.MkdirTemp("", "oss-fuzz")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	var text bytes.Buffer
	if err := template.Must(template.New("driver").Parse(driver)).Execute(&text, t); err != nil {
		return err
	}
	source := filepath.Join(temp, "main.go")
	if err := os.WriteFile(source, text.Bytes(), 0o600); err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": shown})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(temp, "overlay.json"), overlay, 0o600); err != nil {
		return err
	}
	archive := filepath.Join(temp, "target.a")
	err = run("go", "build", "-buildmode=c-archive", "-overlay", filepath.Join(temp, "overlay.json"),
		"-tags=libfuzzer", "-trimpath", "-gcflags=all=-d=libfuzzer", "-gcflags=syscall=-d=libfuzzer=0", "-o", archive, source)
	if err != nil {
		return err
	}
	// go-nvml looks for the functions of a library that is loaded later, or never
	return run(*cxx, append(strings.Fields(*engine), "-Wl,--unresolved-symbols=ignore-in-object-files", archive, "-o",
		filepath.Join(*out, name))...)
}

func run(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// copyTestdata copies what a package's tests read, and the operator tests that some of them begin with, so that a
// target finds them from where it is.
func copyTestdata(top, folder string) error {
	for _, f := range []string{folder, "estimate/shape"} {
		from, to := filepath.Join(top, f, "testdata"), filepath.Join(*out, "files", f, "testdata")
		if _, err := os.Stat(to); err == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		if _, err := os.Stat(from); err == nil {
			if err := os.CopyFS(to, os.DirFS(from)); err != nil {
				return err
			}
		}
	}
	return nil
}
