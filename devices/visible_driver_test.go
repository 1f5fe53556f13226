package devices

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// TestAsTheDriver compares with what driver 580.159.04 showed on two H100s: each line of the file is one process that
// asked libcuda for its devices with that CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER; a code of cuInit other than 0 is
// an error, and no device.
func TestAsTheDriver(t *testing.T) {
	b := must.Read(t, "testdata/visible-580.159.jsonl")
	ds := []Device{
		{Index: 0, UUID: "GPU-00128b4c-b672-e682-6878-0688883f4b57", Name: "NVIDIA H100 80GB HBM3"},
		{Index: 1, UUID: "GPU-e90688a7-be47-b455-edc5-e4d345ea0d80", Name: "NVIDIA H100 80GB HBM3"},
	}
	lines := 0
	for line := range strings.Lines(string(b)) {
		var seen struct {
			Value *string
			Order string
			Init  int
			UUIDs []string
		}
		must.OK(t, json.Unmarshal([]byte(line), &seen))
		if seen.Value == nil || seen.Order != "" && seen.Order != "PCI_BUS_ID" && seen.Order != "FASTEST_FIRST" {
			continue // a wrong order is told of apart
		}
		lines++
		var got []string
		for _, i := range ParseVisible(*seen.Value, ds, false).Indexes {
			got = append(got, ds[i].UUID)
		}
		if !slices.Equal(got, seen.UUIDs) {
			t.Errorf("%q: %q, the driver shows %q (cuInit %d)", *seen.Value, got, seen.UUIDs, seen.Init)
		}
	}
	if lines < 120 {
		t.Errorf("%d lines", lines)
	}
}
