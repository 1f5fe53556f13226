//go:build !js

package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/gpu"
)

// listsWays reports whether the answer ends with other ways to train the model: where a person reads it.
func (t *tuner) listsWays() bool {
	return !t.noWays && t.way.Mode != "infer" && t.out.format == "text" && (t.out.file == "" || t.out.file == "-")
}

// otherWays are those that the table lists beside the way that was asked for: what is trained, whether activations are
// computed again, and how long sequences are. Of what was asked for they keep the rest.
func otherWays(asked tuning, seqs []int64) (out []tuning) {
	rank := cmp.Or(asked.QLoRA, asked.LoRA, "16")
	lengths := slices.Sorted(slices.Values(seqs))
	if lengths = slices.Compact(lengths); len(lengths) == 0 {
		lengths = []int64{asked.Seq}
	}
	for _, method := range []tuning{{QLoRA: rank}, {LoRA: rank}, {}} {
		for _, again := range []bool{true, false} {
			for _, n := range lengths {
				w := asked
				w.LoRA, w.QLoRA, w.Checkpoint, w.Seq = method.LoRA, method.QLoRA, again, n
				if w != asked {
					out = append(out, w)
				}
			}
		}
	}
	return out
}

// A waysTable is written row by row, as recordings are made.
type waysTable struct {
	w       io.Writer
	step    estimate.Step
	sure    estimate.Confidence
	memory  int64 // of the GPU or the budget; 0 where none was named
	verdict error // of the way that was asked for
	cache   *answerCache
}

// beginWays writes the head of the table behind the answer, whose error is kept for the end.
func (t *tuner) beginWays(e *env, c *answerCache, verdict error) (*waysTable, error) {
	step, err := t.settings.run.asked(e)
	if err != nil {
		return nil, err
	}
	w := &waysTable{w: e.stdout, step: *step, sure: t.answer.sure, memory: int64(t.answer.budget), verdict: verdict,
		cache: c}
	if w.memory == 0 && step.Limited {
		w.memory = step.GPU.Memory
	}
	w.step.Limited, w.step.MemoryLimit = false, 0
	_, err = fmt.Fprintf(w.w, "\n%-40s %9s %9s  %s\n", "ways to train it", "allocated", "safe, GiB", "fits")
	return w, outputError(err)
}

func outputError(err error) error {
	if err == nil {
		return nil
	}
	return fail(exitOutput, "stdout: %w", cause(err))
}

// row writes the line of a way, by its recording or by why there is none.
func (t *waysTable) row(way tuning, file string, why error) error {
	said := ""
	if why == nil {
		said, why = t.cache.told(&way, fmt.Sprintf("%#v %s %d", t.step, t.sure, t.memory), func() (string, error) {
			peak, err := t.peak(file)
			if err != nil {
				return "", err
			}
			need, _ := peak.At(t.sure)
			gib := func(n int64) string { return fmt.Sprintf("%.2f", float64(n)/(1<<30)) }
			return fmt.Sprintf("%9s %9s  %s", gib(peak.Allocated), gib(need), t.fits(peak)), nil
		})
	}
	if why != nil {
		said = fmt.Sprintf("%9s %9s  %s", "?", "?", report.Clean(oneLine(why.Error())))
	}
	_, err := fmt.Fprintf(t.w, "%-40s %s\n", way.name(), said)
	return outputError(err)
}

// peak returns the peak of a recording on the GPU that was asked for, without its limit.
func (t *waysTable) peak(file string) (*estimate.Peak, error) {
	rec, err := fileSource(file).recording(&env{stdin: strings.NewReader("")})
	if err != nil {
		return nil, err
	}
	r, err := estimate.Recorded(rec, estimate.Options{Name: filepath.Base(file), Step: &t.step})
	if err != nil {
		return nil, err
	}
	return r.Peak, nil
}

// fits says whether a way fits what was named, and else the smallest of the cards that it fits.
func (t *waysTable) fits(p *estimate.Peak) string {
	if t.memory > 0 && p.Fits(t.memory, t.sure) {
		return "yes"
	}
	smallest := ""
	for _, id := range shownGPUs {
		if g, err := gpu.Find(id); err == nil && p.Fits(g.Memory, t.sure) {
			smallest = gpuWord(g.ID)
			break
		}
	}
	switch {
	case smallest == "" && t.memory > 0:
		return "no, nor one " + gpuWord(shownGPUs[len(shownGPUs)-1])
	case smallest == "":
		return "no single card"
	case t.memory > 0:
		return "no; " + smallest
	}
	return smallest
}

// hubCached returns the file of a model's configuration in the Hub's cache on this machine, or "".
func hubCached(e *env, name string) string {
	if name == "" {
		return ""
	}
	cache := cmp.Or(e.getenv("XDG_CACHE_HOME"), filepath.Join(e.getenv("HOME"), ".cache"))
	base := cmp.Or(e.getenv("HF_HOME"), filepath.Join(cache, "huggingface"))
	home := cmp.Or(e.getenv("HF_HUB_CACHE"), e.getenv("HUGGINGFACE_HUB_CACHE"), filepath.Join(base, "hub"))
	folder := filepath.Join(home, "models--"+strings.ReplaceAll(name, "/", "--"))
	commit, err := os.ReadFile(filepath.Join(folder, "refs", "main"))
	if err != nil {
		return ""
	}
	path := filepath.Join(folder, "snapshots", strings.TrimSpace(string(commit)), configurationName)
	if !exists(path) {
		return ""
	}
	return path
}
