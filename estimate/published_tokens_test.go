package estimate

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/recording"
)

// TestPublishedTokens compares recordings with xMem's runs of language models, as TestPublishedGPUs does graphs of
// images. Their texts are cut at 128 tokens: a batch of ten or more has one as long all but surely; smaller ones stand
// in a table of their own, with what they would take at that length.
func TestPublishedTokens(t *testing.T) {
	steps := publishedSteps{of: packedRecordings(t, publishedGPUs+"/tokens.tar.zst")}
	var long, short []*publishedRun
	for _, r := range xMemRuns(t) {
		if !steps.has(r) {
			continue
		}
		steps.predict(t, r)
		if r.Batch >= 10 {
			long = append(long, r)
		} else {
			short = append(short, r)
		}
	}
	others := []string{"xMem", "DNNMem", "SchedTune", "LLMem"}
	text := publishedHead(others)
	for _, card := range []string{"RTX 3060", "RTX 4060"} {
		text += publishedRow(t, card, long, others)
	}
	text += "\nBatches below 10:\n" + publishedHead(others)
	for _, card := range []string{"RTX 3060", "RTX 4060", "A100 40GB"} {
		text += publishedRow(t, card, short, others)
	}
	holdPart(t, "published tokens", text)
}

// publishedSteps are recordings of published runs, by name; of a model at two batches every other batch follows.
type publishedSteps struct {
	of       map[string][]byte
	families map[string]*recording.Family
}

// name is that of the recordings of a run, but for the batch.
func (*publishedSteps) name(r *publishedRun) string {
	when := 0
	if r.ZeroGrad != nil {
		when = *r.ZeroGrad
	}
	return fmt.Sprintf("%s-%s-zg%d", r.Model, r.Optimizer, when)
}

func (p *publishedSteps) has(r *publishedRun) bool {
	name := p.name(r)
	return p.of[name+"-b1"] != nil || p.of[name+"-b10"] != nil
}

func (p *publishedSteps) read(t *testing.T, name string) *recording.Recording {
	t.Helper()
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(p.of[name]); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	rec, err := recording.Read(&packed)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return rec
}

// at is the recording of a run.
func (p *publishedSteps) at(t *testing.T, r *publishedRun) *recording.Recording {
	t.Helper()
	name := p.name(r)
	if one := fmt.Sprint(name, "-b", r.Batch); p.of[one] != nil {
		return p.read(t, one)
	}
	f := p.families[name]
	if f == nil {
		var err error
		if f, err = recording.NewFamily(p.read(t, name+"-b10"), p.read(t, name+"-b40")); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if p.families == nil {
			p.families = map[string]*recording.Family{}
		}
		p.families[name] = f
	}
	rec, err := f.At(r.Batch)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return rec
}

func (p *publishedSteps) predict(t *testing.T, r *publishedRun) {
	rec := p.at(t, r)
	r.predict = func(limit int64) (int64, bool) {
		step := r.step(t)
		step.MemoryLimit = limit
		sim, _, err := replayRecording(rec, step)
		if err != nil {
			t.Fatalf("%v: %v", r, err)
		}
		return sim.Peak.Reserved, sim.OOM() != nil
	}
}

// packedRecordings reads an archive of recordings, each without its compression: they differ little from each other.
func packedRecordings(t *testing.T, file string) map[string][]byte {
	t.Helper()
	packed, err := readGraph(file)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string][]byte{}
	for all := tar.NewReader(bytes.NewReader(packed)); ; {
		head, err := all.Next()
		if errors.Is(err, io.EOF) {
			return of
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		text, err := io.ReadAll(all)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		of[strings.TrimSuffix(head.Name, ".jsonl")] = text
	}
}
