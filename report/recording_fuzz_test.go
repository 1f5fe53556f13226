package report_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/test/must"
)

// recordings are the lines of the smaller recordings, which MEMESTIMATE_CORPUS has in its folder recordings.
var recordings = sync.OnceValues(func() (all [][]string, err error) {
	folders := []string{"../recording/testdata", "../estimate/testdata/recordings"}
	if corpus := os.Getenv("MEMESTIMATE_CORPUS"); corpus != "" {
		folders = []string{filepath.Join(corpus, "recordings")}
	}
	for _, folder := range folders {
		paths, err := filepath.Glob(filepath.Join(folder, "*.mrec"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			z, err := gzip.NewReader(bytes.NewReader(b))
			if err != nil || len(b) > 12<<10 {
				continue
			}
			text, err := io.ReadAll(z)
			if err != nil {
				return nil, err
			}
			all = append(all, strings.Split(strings.TrimSpace(string(text)), "\n"))
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no recordings in %q", folders)
	}
	return all, nil
})

var (
	word     = regexp.MustCompile(`-?[0-9]+(\.[0-9]+)?|"(\\.|[^"\\])*"|null|true|false`)
	oddWords = []string{"0", "1", "-1", "2", "3", "7", "255", "512", "4096", "1048576", "2147483648",
		"9223372036854775807", "-9223372036854775808", "18446744073709551616", "1e400", "0.5", "null", "true", "[]", "{}",
		"[[[]]]", `""`,
		`"0:0"`, `"c:0"`, `"1:99999"`, `"!float32"`, `"!complex128"`, `"'x"`, `"\u001b[31m"`, `"\u202e"`, `"\ud800"`,
		`"parameter"`, `"buffer"`, `"gradient"`, `"forward"`, `"backward"`, `"aten::mm"`, `"aten::convolution"`, `"out"`,
		`"` + strings.Repeat("n", 5000) + `"`}
)

// mutantRecording makes a recording out of two: lines go missing, come twice, change places, come from the other one;
// words become odd ones, or others of the recording. Mostly it stays one that can be read: what has a number by its
// order stays in it, a number becomes a number, and the count at the end is that of the lines.
func mutantRecording(rng *rand.Rand, raw, other []string) []byte {
	lines := slices.Clone(raw)
	rough := rng.IntN(8) == 0
	for range 1 + rng.IntN(5) {
		i, k, from := rng.IntN(len(lines)), rng.IntN(len(lines)), other[rng.IntN(len(other))]
		op := rng.IntN(12)
		if op < 4 && !rough && (numbered(lines[i]) || numbered(from)) {
			op = 4
		}
		switch op {
		case 0:
			if lines = slices.Delete(lines, i, i+1); len(lines) == 0 {
				return nil
			}
		case 1:
			lines = slices.Insert(lines, k, lines[i])
		case 2:
			lines[i], lines[k] = lines[k], lines[i]
		case 3:
			lines = slices.Insert(lines, k, from)
		default:
			lines[i] = reworded(rng, lines[i], lines[k], rough)
		}
	}
	if n := len(lines); rng.IntN(20) > 0 && strings.HasPrefix(lines[n-1], `["end",`) {
		lines[n-1] = fmt.Sprintf(`["end",%d]`, n-2)
	}
	return packed(strings.Join(lines, "\n"))
}

// numbered reports whether others name a line by its number, or it ends what one of those began.
func numbered(line string) bool {
	return !strings.HasPrefix(line, `["call"`) && !strings.HasPrefix(line, `["is"`) &&
		!strings.HasPrefix(line, `["phase"`) && !strings.HasPrefix(line, `["step"`) && !strings.HasPrefix(line, `["sum"`)
}

// reworded is a line with one word changed: into one of its kind, but where it may be rough.
func reworded(rng *rand.Rand, line, other string, rough bool) string {
	at := word.FindAllStringIndex(line, -1)
	if len(at) < 2 {
		return line
	}
	p := at[1+rng.IntN(len(at)-1)]
	with := slices.Clone(oddWords)
	if rng.IntN(2) == 0 {
		with = word.FindAllString(other, -1)
	}
	if !rough {
		with = slices.DeleteFunc(with, func(w string) bool { return kindOfWord(w) != kindOfWord(line[p[0]:p[1]]) })
	}
	if len(with) == 0 {
		return line
	}
	return line[:p[0]] + with[rng.IntN(len(with))] + line[p[1]:]
}

// kindOfWord says of what kind a word is: a number, a value of a call, a name.
func kindOfWord(w string) byte {
	switch {
	case strings.HasPrefix(w, `"!`), strings.HasPrefix(w, `"'`):
		return w[1]
	case w[0] == '"' && strings.Contains(w, ":") && !strings.Contains(w, "::"):
		return ':'
	case w[0] == '"', w[0] == '[', w[0] == '{':
		return w[0]
	case w[0] >= 'a':
		return 'a'
	}
	return '0'
}

func packed(text string) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	io.WriteString(z, text)
	z.Close()
	return b.Bytes()
}

// executeRecording reads a recording, replays it and writes the report, and returns what is wrong, "" for nothing.
func executeRecording(rng *rand.Rand, raw []byte) (wrong string, ran bool) {
	defer func() {
		if p := recover(); p != nil {
			wrong = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	opt, step := asked(rng)
	step.Plan = program.Plan{}
	opt.Step = step
	form := rng.IntN(len(forms))
	var first []byte
	for try := range 1 + max(0, rng.IntN(8)-6) {
		rec, err := recording.Read(bytes.NewReader(raw))
		if err != nil {
			return line(err), false
		}
		r, err := estimate.Recorded(rec, opt)
		if err != nil {
			return line(err), false
		}
		out, wrong := written(r, form)
		if wrong = cmp.Or(wrong, sound(r, step.Plan, 0)); wrong != "" {
			return wrong, true
		}
		if try > 0 && !bytes.Equal(first, out) {
			return "another answer the second time", true
		}
		first = out
	}
	return "", true
}

// FuzzRecording changes the text of recordings, and replays what comes out.
func FuzzRecording(f *testing.F) {
	all, err := recordings()
	if err != nil {
		f.Fatal(err)
	}
	for i, lines := range all {
		f.Add(strings.Join(lines, "\n"), uint64(i))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		lines := strings.Split(text, "\n")
		if len(text) > 256<<10 {
			t.Skip("larger than what one wants to wait for")
		}
		rng := rand.New(rand.NewPCG(seed, 2))
		if wrong, _ := executeRecording(rng, mutantRecording(rng, lines, all[rng.IntN(len(all))])); wrong != "" {
			t.Error(wrong)
		}
	})
}

// TestRecordingMutants is FuzzRecording without a fuzzer, as TestModelMutants is FuzzModel.
func TestRecordingMutants(t *testing.T) {
	all, err := recordings()
	must.OK(t, err)
	mutants(t, "mrec", 10, func(rng *rand.Rand) (raw []byte, wrong string, ran bool) {
		raw = mutantRecording(rng, all[rng.IntN(len(all))], all[rng.IntN(len(all))])
		wrong, ran = executeRecording(rng, raw)
		return raw, wrong, ran
	})
}
