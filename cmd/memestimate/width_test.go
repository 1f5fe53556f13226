package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// No command prints a longer line than there is room for, as COLUMNS says it; a file gets whole lines.
func TestTextFitsTheTerminal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.txt")
	for _, args := range []string{
		"resnet18 --batch 2 --gpu t4 --what-if --stats", "resnet18 --batch 2 --full", "gpt2 --batch 2 --budget 1GiB", "table bert_base --batch 2",
		"table resnet18 --batch 2 --columns layer,operator,output,dtype,parameters,saved,share",
		"fit resnet18 --gpu t4 --precision amp-bf16", "diff distilbert bert_base --batch 2",
		"diff resnet18 resnet50 --batch 1,32 --precision fp32,amp-bf16", "models",
		"compare resnet50 ../../snapshot/testdata/resnet50_seed.pickle.gz --batch 1 --optimizer sgdm",
		"snapshot show ../../snapshot/testdata/resnet50_seed.pickle.gz",
		"--help", "table --help", "run --help", "help snapshot",
	} {
		for _, width := range []int{40, 57, 80, 120} {
			stdout := inTerminal(t, width, args)
			for line := range strings.Lines(stdout) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%s: a line of %d characters in a terminal of %d: %q", args, n, width, line)
					break
				}
			}
			if stdout == "" {
				t.Errorf("%s: nothing", args)
			}
		}
	}
	inTerminal(t, 40, "resnet18 --batch 2 --output "+file)
	data, err := os.ReadFile(file)
	whole, _, _ := try(t, "resnet18", "--batch", "2", "--full")
	if err != nil || string(data) != whole {
		t.Errorf("a file has %d bytes, want the %d of --full: %v", len(data), len(whole), err)
	}
}

func inTerminal(t *testing.T, width int, args string) string {
	t.Helper()
	var out, errs bytes.Buffer
	e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(name string) string {
		if name == "COLUMNS" {
			return strconv.Itoa(width)
		}
		return ""
	}}
	if code := run(context.Background(), e, strings.Fields(args)); code != exitOK && code != exitNo {
		t.Fatalf("%s: exit code %d: %s", args, code, errs.String())
	}
	return out.String()
}
