package caching

import (
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

func TestParseOptions(t *testing.T) {
	o, err := ParseOptions(" expandable_segments:True, " +
		"max_split_size_mb:64,max_non_split_rounding_mb:30,garbage_collection_threshold:0.8,large_segment_size_mb:12," +
		"per_process_memory_fraction:0.5,backend:native,pinned_num_register_threads:8,release_lock_on_cudamalloc:False,")
	must.OK(t, err)
	want := Options{ExpandableSegments: true, MaxSplitSize: 64 << 20, MaxNonSplitRound: 30 << 20, GCThreshold: 0.8,
		LargeSegmentSize: 12 << 20, MemoryFraction: 0.5}
	if o != want {
		t.Errorf("options %+v, want %+v", o, want)
	}
	if o, err := ParseOptions(""); err != nil || o != (Options{}) {
		t.Errorf("an empty string gives %+v, %v", o, err)
	}
	for conf, want := range map[string]string{
		"max_split_size:64":                        `unknown key "max_split_size", perhaps max_split_size_mb`,
		"expandable_segment:True":                  "perhaps expandable_segments",
		"expandable_segments:true":                 "wanted True or False",
		"expandable_segments":                      "no value",
		"expandable_segments,max_split_size_mb:64": "no value",
		"max_split_size_mb:10":                     "wanted 20 or more",
		"max_split_size_mb:x":                      "whole number",
		"max_split_size_mb:[1,2]":                  "a list",
		"large_segment_size_mb:1":                  "wanted 2 or more",
		"garbage_collection_threshold:1":           "between 0 and 1",
		"garbage_collection_threshold:NaN":         "between 0 and 1",
		"roundup_power2_divisions:3":               "power of two",
		"roundup_power2_divisions:[3:2]":           "power of two",
		"roundup_power2_divisions:[4:3]":           "power of two",
		"roundup_power2_divisions:[4]":             "size:divisions",
		"roundup_power2_divisions:[4:4":            "closing",
		"roundup_power2_divisions:[4:4]x":          "comma",
		"backend:cudaMallocAsync":                  "not modelled",
	} {
		if _, err := ParseOptions(conf); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", conf, err, want)
		}
	}
}

func FuzzParseOptions(f *testing.F) {
	for _, s := range []string{"expandable_segments:True", "roundup_power2_divisions:[256:1,512:2,>:4]", "a:b,c", "[]:,,",
		"max_split_size_mb:99999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, conf string) {
		o, err := ParseOptions(conf)
		if err != nil {
			return
		}
		a := New(Config{Options: o, Total: 1 << 36})
		for _, n := range []int64{1, 3 << 20, 100 << 20} {
			b, err := a.Malloc(n, 0)
			if err != nil {
				continue
			}
			if a.Size(b) < n {
				t.Fatalf("%d bytes got a block of %d", n, a.Size(b))
			}
		}
		if wrong := check(a); wrong != "" {
			t.Fatal(wrong)
		}
	})
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{5: "5 bytes", 1500: "1.46 KiB", 392 << 20: "392.00 MiB", 3 << 30: "3.00 GiB"} {
		if got := formatSize(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// A replay allocates for its tables, not for its events.
func TestReplayAllocations(t *testing.T) {
	var events []truthEvent
	testfile.JSON(t, "testdata/traces/resnet50.train.json.gz", &events)
	tl, _ := toTimeline(t, events)
	n := testing.AllocsPerRun(5, func() {
		if _, err := NewReplayer(Config{}).Finish(tl); err != nil {
			t.Fatal(err)
		}
	})
	if per := n / float64(tl.Len()); per > 0.04 {
		t.Errorf("%.0f allocations for %d events, want less than one in twenty-five", n, tl.Len())
	}
}
