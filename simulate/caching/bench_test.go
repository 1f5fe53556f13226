package caching

import (
	"testing"

	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/testfile"
)

// BenchmarkReplay replays measured training runs; it reports the time of 100,000
// events, and how many heap allocations an event costs.
func BenchmarkReplay(b *testing.B) {
	for _, name := range []string{"resnet50.train", "qwen2_0_5b.train", "densenet121.train"} {
		var events []truthEvent
		testfile.JSON(b, "testdata/traces/"+name+".json.gz", &events)
		tl, _ := toTimeline(b, events)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Replay(tl, Config{}); err != nil {
					b.Fatal(err)
				}
			}
			perEvent := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / float64(len(tl.Events))
			b.ReportMetric(perEvent*0.1, "ms/100k-events")
		})
	}
}

// BenchmarkFragmented is the worst case for the pools: tens of thousands of
// cached blocks of different sizes.
func BenchmarkFragmented(b *testing.B) {
	var tb timeline.Builder
	blocks := make([]int32, 50000)
	for i := range blocks {
		blocks[i] = tb.Alloc(timeline.Unknown, int64(i%2000+1)*512)
	}
	for i := 0; i < len(blocks); i += 2 {
		tb.Free(blocks[i], 0)
	}
	for i := range 25000 {
		tb.Alloc(timeline.Unknown, int64(i*7919%2000+1)*512)
	}
	tl := tb.Timeline()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Replay(tl, Config{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(tl.Events))*0.1, "ms/100k-events")
}

// A replay allocates for its tables, not for its events.
func TestReplayAllocations(t *testing.T) {
	var events []truthEvent
	testfile.JSON(t, "testdata/traces/resnet50.train.json.gz", &events)
	tl, _ := toTimeline(t, events)
	n := testing.AllocsPerRun(5, func() {
		if _, err := Replay(tl, Config{}); err != nil {
			t.Fatal(err)
		}
	})
	if per := n / float64(len(tl.Events)); per > 0.04 {
		t.Errorf("%.0f allocations for %d events, want less than one in twenty-five", n, len(tl.Events))
	}
}
