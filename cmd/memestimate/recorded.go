package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/recording"
)

// recordingHead is how much of a file tells whether it is a recording.
const recordingHead = 4096

// recording reads the source where it is a recording, and returns nil where it is something else. What it has read
// of standard input is there for the next reader.
func (s source) recording(e *env) (*recording.Recording, error) {
	switch {
	case s.arg == "-":
		in := bufio.NewReaderSize(e.stdin, recordingHead)
		e.stdin = in
		return s.readRecording(in)
	case s.revision != "":
		if !strings.HasSuffix(s.revision, ".mrec") {
			return nil, nil
		}
		var rec *recording.Recording
		err := s.atRevision(func(r io.Reader) (err error) {
			rec, err = s.readRecording(bufio.NewReaderSize(r, recordingHead))
			return err
		})
		return rec, err
	case s.file == "" || s.streamed(): // a pipe can be read once, and opened once: whoever writes to it would end
		return nil, nil
	}
	f, err := os.Open(s.file)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, s.missing()
		}
		return nil, nil // the reader of models says what is wrong with it
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return nil, nil
	}
	return s.readRecording(bufio.NewReaderSize(f, recordingHead))
}

// isRecording reports whether the source is a file that begins as a recording.
func (s source) isRecording() bool {
	if s.file == "" || s.streamed() {
		return false
	}
	f, err := os.Open(s.file)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, recordingHead)
	n, _ := io.ReadFull(f, head)
	return recording.Begins(head[:n])
}

// with adds further recordings of the same program.
func (s *source) with(others []string) {
	s.others, s.all = others, hintArg(s.arg)
	for _, arg := range others {
		s.all += " " + hintArg(arg)
	}
}

// readRecording reads a recording, or returns nil where the beginning is none's.
func (s source) readRecording(in *bufio.Reader) (*recording.Recording, error) {
	head, err := in.Peek(recordingHead)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, nil
	}
	if !recording.Begins(bytes.Clone(head)) {
		return nil, nil
	}
	rec, err := recording.Read(in)
	if err != nil {
		return nil, fail(exitInput, "%s: %w", quoteArg(s.arg), err)
	}
	return rec, nil
}

// family reads the further recordings of the source: the second, from which the sizes at other batches follow, and a
// third, which is held against what the two foretell.
func (s source) family(e *env, first *recording.Recording) (*recording.Family, []estimate.Note, error) {
	if len(s.others) > 2 {
		return nil, nil, usagef("%d recordings, wanted two, and a third to check them", 1+len(s.others))
	}
	var all []*recording.Recording
	for _, arg := range s.others {
		in := resolve(arg)
		rec, err := in.recording(e)
		if err != nil {
			return nil, nil, err
		}
		if rec == nil {
			return nil, nil, usagef("%s follows %s, which is a recording, and is none itself", quoteArg(arg), quoteArg(s.arg))
		}
		all = append(all, rec)
	}
	family, err := recording.NewFamily(first, all[0])
	if err != nil {
		return nil, nil, fail(exitInput, "%s and %s: %w", quoteArg(s.arg), quoteArg(s.others[0]), err)
	}
	one, two := family.Batches()
	notes := []estimate.Note{{Level: estimate.Info,
		Text: fmt.Sprintf("sizes follow from the recordings at batches %d and %d", one, two)}}
	if !family.Searches() {
		notes = append(notes, estimate.Note{Level: estimate.Warning, Text: "cuDNN's searches for its fastest engines " +
			"(torch.backends.cudnn.benchmark) are left out: the two recordings do not have the same"})
	}
	if len(all) > 1 {
		difference, err := family.Check(all[1])
		switch {
		case err != nil:
			return nil, nil, fail(exitInput, "%s and %s: %w", quoteArg(s.arg), quoteArg(s.others[1]), err)
		case difference != "":
			notes = append(notes, estimate.Note{Level: estimate.Warning, Text: difference})
		default:
			notes = append(notes, estimate.Note{Level: estimate.Info,
				Text: "the third recording has every size that the two foretell"})
		}
	}
	return family, notes, nil
}

// fixed refuses flags about what a recording holds already.
func fixed(in source, flags *pflag.FlagSet) error {
	for _, name := range append(flagsOf(inRecording, (&settings{}).rows()), "what-if") {
		if name == "batch" && len(in.others) > 0 {
			continue
		}
		if f := flags.Lookup(name); f != nil && f.Changed {
			err := usagef("--%s: %s is a recording, which has that in it", name, quoteArg(in.arg))
			if name == "batch" {
				return err.withHint("record it at two batch sizes: memestimate ONE.mrec TWO.mrec --batch N estimates any other")
			}
			return err.withHint("record the step again as it shall be")
		}
	}
	return nil
}

// recorded answers the question about a recording.
func (s *settings) recorded(e *env, in source, rec *recording.Recording, a *questions) (*estimate.Report, error) {
	if err := fixed(in, s.run.given); err != nil {
		return nil, err
	}
	step, err := s.run.asked(e)
	if err != nil {
		return nil, err
	}
	step.Record = a.record
	opt := estimate.Options{Name: in.name, Strict: s.strict, Step: step, Batch: s.batch}
	var checked []estimate.Note
	if len(in.others) > 0 {
		if s.batch == 0 {
			return nil, usagef("--batch: %s are recordings at two batch sizes: of which is the estimate?", in.all)
		}
		var family *recording.Family
		if family, checked, err = in.family(e, rec); err != nil {
			return nil, err
		}
		if rec, err = family.At(s.batch); err != nil {
			return nil, fail(exitInput, "%s: %w", in.all, err)
		}
	}
	r, err := estimate.Recorded(rec, opt)
	if err != nil {
		err = fail(exitInput, "%s: %w", quoteArg(in.arg), err)
		if errors.Is(err, estimate.ErrIncomplete) {
			return nil, fail(exitInput, "%w", err).withHint("without --strict the answer is a lower bound")
		}
		return nil, err
	}
	if r.Model.Path = in.file; in.made {
		r.Model.Path, r.Settings.Dims = in.arg, in.sizes
	}
	r.Notes = append(r.Notes, checked...)
	r.Judge(*step, int64(a.budget), a.sure)
	if a.stats {
		r.Stats = r.Simulation.Replay.Stats.Figures()
	}
	if a.short || a.drawn {
		a.gpus = gpuFits(shownGPUs, func(other estimate.Step) (*estimate.Peak, error) {
			r, err := estimate.Recorded(rec, estimate.Options{Name: in.name, Step: &other})
			if err != nil {
				return nil, err
			}
			return r.Peak, nil
		}, *step, r.Peak)
	}
	return r, nil
}
