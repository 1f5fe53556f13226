package main

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// lfsPointer is what git has in the place of a file that git-lfs keeps.
var lfsPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("4d", 32) +
	"\nsize 102400\n"

// An attempt is a way to get growth past the check: what grows must be over its limit, and what cannot be compared an
// error.
type attempt struct {
	name string
	try  func(y *yard) []string // what else is on the command line
	code int
	says string
}

// holdOff runs attempts, none of which may succeed.
func holdOff(t *testing.T, all []attempt) {
	if runtime.GOOS == "windows" {
		t.Skip("links, pipes and devices")
	}
	for _, tt := range all {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			args := tt.try(y)
			begun := time.Now()
			output, code := y.check(args...)
			if code != tt.code || !strings.Contains(output, tt.says) {
				t.Errorf("code %d, want %d and %q\n%s", code, tt.code, tt.says, output)
			}
			if strings.Contains(strings.ToLower(output), "within budget") &&
				!strings.Contains(output, "unchanged and within budget") {
				t.Errorf("it is called within budget:\n%s", output)
			}
			if _, err := os.Stat(y.path("ran")); err == nil {
				t.Error("the repository had a command run")
			}
			if d := time.Since(begun); d > time.Minute {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// What is honest passes: a model that the entry says is new, a file that only moved, one that git-lfs keeps and is
// here.
func TestHonestWays(t *testing.T) {
	for _, tt := range []struct {
		name string
		try  func(y *yard) []string
		says string
	}{
		{"unchanged", func(y *yard) []string { return nil }, "1 model unchanged and within budget"},
		{"moved", func(y *yard) []string { y.git("mv", "nets/net.onnx", "nets/other.onnx"); return nil },
			"`nets/other.onnx` was `nets/net.onnx`"},
		{"new", func(y *yard) []string {
			y.write("memestimate.yaml",
				"settings: {batch: 256}\nmodels: {path: nets/*.onnx, limits: {growth: 5%}, new: nets/big.onnx}\n")
			y.put("nets/big.onnx", "inserted")
			return nil
		}, "new: nothing to grow from, as the entry says"},
		{"a lower bound that is accepted", func(y *yard) []string {
			y.write("memestimate.yaml",
				"settings: {batch: 256}\nmodels: {path: nets/*.onnx, limits: {growth: 5%}, lower-bound: true}\n")
			y.write("nets/net.onnx", string(strange()))
			y.commit()
			return nil
		}, "within budget"},
		{"a limit beyond reach", func(y *yard) []string {
			y.put("nets/net.onnx", "inserted")
			y.write("memestimate.yaml", strings.Replace(growthBudget, "5%", "999999%", 1))
			return nil
		}, "- `growth` goes from `5%` to `999999%` for `nets/net.onnx`\n"},
		{"moved to where exclude names it", func(y *yard) []string {
			y.put("nets/other.onnx", "widened")
			y.commit()
			y.must(os.Mkdir(y.path("archive"), 0o777))
			y.git("mv", "nets/net.onnx", "archive/@team <b>`x`.onnx")
			y.write("memestimate.yaml", "settings: {batch: 256}\nmodels:\n"+
				"  path: nets/*.onnx\n  limits: {growth: 5%}\n  exclude: archive/**\n")
			return nil
		}, "- `nets/net.onnx`: moved to `\"archive/@team"},
		{"limits that change, models that go", func(y *yard) []string {
			y.put("nets/gone.onnx", "widened")
			y.put("nets/left.onnx", "widened")
			y.write("memestimate.yaml", "settings: {batch: 256}\nmodels: {path: nets/*.onnx, limits: {device: 4GiB}}\n")
			y.commit()
			y.remove("nets/gone.onnx")
			y.write("memestimate.yaml",
				"base: HEAD\nsettings: {batch: 128}\nmodels: {path: nets/*.onnx, limits: {device: 64GiB, growth: 10%}, "+
					"exclude: nets/left.onnx}\n")
			return nil
		}, "- `base` goes from nothing to `HEAD`\n- `device` goes from `4.00 GiB` to `64.00 GiB` for `nets/net.onnx`\n\n" +
			"**2 models no longer checked:**\n\n- `nets/gone.onnx`: deleted\n- `nets/left.onnx`: no path of " +
			"memestimate.yaml matches it now\n\n**What is asked of models changes here:**\n\n" +
			"- `growth` goes from nothing to `10%` for `nets/net.onnx`\n- `batch` goes from `256` to `128` for `nets/net.onnx`\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			output, code := y.check(tt.try(y)...)
			if code != exitOK || !strings.Contains(output, tt.says) ||
				!strings.HasPrefix(output, "### GPU memory: within budget") {
				t.Errorf("code %d, want %q\n%s", code, tt.says, output)
			}
			harmless(t, output)
		})
	}
}
