package shape

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// TestNonsense changes the lines of testdata/ops at random: inputs get other types or go
// missing, attributes get other values and types. Whatever the file says, a rule answers
// with types or with an error, and leaves the loop soon.
func TestNonsense(t *testing.T) {
	inputs := []string{
		"_", "*", "-", "0", "1", "3", "2,0,4", "1,2,3,4,5,6,7", "n", "?,?", "n,n*m,4", "float16:2,3", "string:2,3",
		"complex64:4",
		"9223372036854775807,9223372036854775807", "4611686018427387904,n,2", "int64:0=", "int64:2=-1,5", "int64:2=0,0",
		"-=0", "-=-1",
		"-=9223372036854775807", "-=-9223372036854775808", "int64:3=n,?,2", "4=1.5,0.0,-2.0,1e30", "seq(2,3)", "seq(2,3)#2",
		"opt(2,3)", "map(string,float32:-)",
	}
	attrs := []string{
		"0", "1", "-1", "2", "7", "9223372036854775807", "-9223372036854775808", "0.5", "-1.0", "1e30", "abc", "\"\"",
		"\"a\",\"b\"", "[]",
		"0,0", "1,1", "-1,-1", "2,2,2,2", "3,1,2,0,4", "9223372036854775807,9223372036854775807", "1.0,1.0,2.0,0.0",
		"@undefined", "@string",
	}
	rng := rand.New(rand.NewPCG(1, 2))
	files, err := filepath.Glob("testdata/ops/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata/ops has no files: %v", err)
	}
	ran := 0
	for _, file := range files {
		data := must.Read(t, file)
		for _, line := range strings.Split(string(data), "\n") {
			words, err := splitLine(strings.TrimSpace(line))
			if err != nil || len(words) < 3 || words[0][0] == '#' || words[1] == "see" {
				continue
			}
			for range 60 {
				mutant := mutate(rng, words, inputs, attrs)
				if err := survive(mutant); err != nil {
					t.Fatalf("%s\n\tfrom %s: %s", err, file, line)
				}
				ran++
			}
		}
	}
	if ran < 1000 {
		t.Errorf("%d lines ran, wanted many more", ran)
	}
}

// mutate changes one to four words of a line, and asks for any outputs.
func mutate(rng *rand.Rand, words, inputs, attrs []string) string {
	out := append([]string(nil), words...)
	arrow := len(out)
	for i, w := range out {
		if w == "->" {
			arrow = i
		}
	}
	out = append(out[:arrow:arrow], "->", "*", "*", "*", "*")
	for range 1 + rng.IntN(4) {
		i := 1 + rng.IntN(max(1, arrow-1))
		if i >= arrow {
			break
		}
		name, _, isAttr := strings.Cut(out[i], "=")
		if colon := strings.IndexByte(out[i], ':'); colon >= 0 && (!isAttr || colon < len(name)) {
			out[i] = "x:" + inputs[rng.IntN(len(inputs))]
			continue
		}
		if isAttr {
			out[i] = name + "=" + attrs[rng.IntN(len(attrs))]
		}
	}
	if rng.IntN(4) == 0 && arrow > 1 { // the last words are gone
		keep := 1 + rng.IntN(arrow-1)
		out = append(out[:keep:keep], out[arrow:]...)
	}
	return strings.Join(out, " ")
}

// survive runs a line and returns an error only when that ended in a panic.
func survive(line string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: panic: %v", line, r)
		}
	}()
	checkLine(line) // what it finds wrong is of no interest here
	return nil
}
