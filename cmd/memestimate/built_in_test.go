package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/models"
)

// What all layers put out, and what autograd saves, in bytes at batch 4, in exports that were made at another size: of
// 320 x 384 pixels, r3d_18's of 160 x 192.
var otherSizes = map[string][2]int64{
	"convnext_tiny":      {1219501696, 1069262036},
	"densenet121":        {1312390784, 1277335972},
	"efficientnet_b0":    {876633600, 863617844},
	"fcn_resnet50":       {2605701120, 1958432260},
	"inception_v3":       {503727744, 535171236},
	"mobilenet_v2":       {771128960, 766212004},
	"mobilenet_v3_large": {444269312, 431817828},
	"r3d_18":             {2005416192, 1653526308},
	"regnety_016_timm":   {792434400, 703333252},
	"resnet18":           {232021632, 217314468},
	"resnet50":           {1095155328, 841743524},
	"resnext50_32x4d":    {1352711808, 1099360420},
	"shufflenet_v2_x1_0": {187885184, 199746420},
	"squeezenet1_1":      {178772736, 208444196},
	"vgg19_features":     {641925120, 766771200},
}

// A built-in model at another size takes what its own export at that size takes, and at its own size what it took.
func TestOtherSizes(t *testing.T) {
	sums := func(args ...string) (forward, saved int64) {
		t.Helper()
		stdout, stderr, code := try(t, append(args, "--batch", "4", "--format", "json")...)
		if code != exitOK {
			t.Fatalf("%q: exit code %d, %s", args, code, stderr)
		}
		var r struct {
			Activations struct {
				Forward int64 `json:"forward_bytes"`
				Saved   int64 `json:"saved_bytes"`
			}
			Notes []struct{ Text string }
		}
		check(t, json.Unmarshal([]byte(stdout), &r))
		for _, n := range r.Notes {
			if strings.Contains(n.Text, "declares") {
				t.Errorf("%q: %s", args, n.Text)
			}
		}
		return r.Activations.Forward, r.Activations.Saved
	}
	for _, name := range models.Names() {
		m, err := models.Info(name)
		check(t, err)
		want, ok := otherSizes[name]
		if ok != (len(m.Sizes) > 0) {
			t.Errorf("%s: sizes %q, measured %v", name, m.Sizes, ok)
		}
		if !ok {
			continue
		}
		height, width := 320, 384
		if name == "r3d_18" {
			height, width = 160, 192
		}
		forward, saved := sums(name, "--dim", fmt.Sprint("height=", height), "--dim", fmt.Sprint("width=", width))
		if forward != want[0] || saved != want[1] {
			t.Errorf("%s: %d and %d bytes, wanted %d and %d", name, forward, saved, want[0], want[1])
		}
	}
	if a, _ := sums("resnet50", "--input", "input=4x3x320x384"); a != otherSizes["resnet50"][0] {
		t.Errorf("--input: %d bytes", a)
	}
	if a, _ := sums("resnet50"); a != 447217280 {
		t.Errorf("resnet50 as it was exported: %d bytes", a)
	}
	if _, stderr, code := try(t, "fcn_resnet50:dynamo", "--batch", "4", "--dim", "height=320"); code != exitUsage ||
		!strings.Contains(stderr, "height") {
		t.Errorf("a graph with constants for its sizes: exit code %d, %s", code, stderr)
	}
	if _, stderr, _ := try(t, "gpt2"); !strings.Contains(stderr, `no size is given for "batch"`) {
		t.Errorf("gpt2 asks %s", stderr)
	}
}
