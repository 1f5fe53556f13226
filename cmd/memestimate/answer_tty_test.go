//go:build linux && cgo

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
	"unsafe"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/test/must"
)

// onTerminal runs the program on a terminal of this size and returns what it shows.
func onTerminal(t *testing.T, rows, columns uint16, env []string, args ...string) string {
	t.Helper()
	program, err := exec.LookPath("memestimate")
	must.OK(t, err)
	term := newTerminal(t)
	size := [4]uint16{rows, columns, 0, 0} // struct winsize
	ioctl(t, term.slave, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	c := exec.Command(program, args...)
	c.Env = append(os.Environ(), "LANG=C.UTF-8", "LC_ALL=", "NO_COLOR=", "FORCE_COLOR=")
	c.Env = append(c.Env, env...)
	term.start(t, c)
	c.Wait()
	// What is written last shows that all has come through.
	term.slave.WriteString("\nthe end")
	if !waitFor(func() bool { return strings.HasSuffix(term.text(), "the end") }) {
		t.Fatalf("terminal shows %q", term.text())
	}
	text, _ := strings.CutSuffix(strings.ReplaceAll(term.text(), "\r\n", "\n"), "\nthe end")
	return text
}

// progressLine is what is shown while an answer takes long, and taken back.
var progressLine = regexp.MustCompile("(\r[^\r]*\x1b\\[K)+")

// uncoloured takes the colours out, and what is no longer there.
func uncoloured(text string) string {
	text = progressLine.ReplaceAllString(text, "")
	var b strings.Builder
	for part := range strings.SplitSeq(text, "\x1b[") {
		if b.Len() > 0 || strings.HasPrefix(text, "\x1b[") {
			_, part, _ = strings.Cut(part, "m")
		}
		b.WriteString(part)
	}
	return b.String()
}

// An error and its hint are broken between words on a terminal.
func TestErrorFitsTheTerminal(t *testing.T) {
	got := onTerminal(t, 24, 80, nil, "resnet101")
	want := "memestimate: resnet101: no such file, and no built-in model of that name\n" +
		"memestimate: hint: of its family there are resnet18, resnet50; or ask from\n" +
		"  Python: memestimate.estimate(model, inputs)\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// The whole answer is on the screen, below the command and above the prompt, in lines that are not broken.
func TestAnswerIsOnTheScreen(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args  string
		wants []string
	}{
		{"resnet50 --batch 32", []string{"resnet50, batch 32: training in fp32 with adamw", "max_memory_allocated()",
			"nvidia-smi", "\npeak    in the backward pass of step 2, at ", "\nlayers  ", "\nfits    T4 yes",
			"fit resnet50 --gpu NAME"}},
		{"gpt2 --batch 8", []string{"loss ", "\nguess   cross-entropy taken for the loss"}},
		{"qwen2_0_5b --batch 4 --gpu rtx-4090", []string{"fits NVIDIA GeForce RTX 4090: ", "T4 no",
			"is the largest that fits RTX 4090"}},
		{"resnet50:dynamo --batch 8",
			[]string{"warning this file was not exported for training, and lost of the model: 53", "more with --full"}},
		{"resnet50 --batch 256 --gpu t4", []string{"does not fit Tesla T4: ",
			"out of memory in the forward pass of step 1, at layer2.2.conv3", "T4 no"}},
		{"mlp --batch 1 --mode infer --budget 1MiB", []string{"does not fit the budget: "}},
	} {
		for _, size := range [][2]uint16{{24, 80}, {50, 200}} {
			text := uncoloured(onTerminal(t, size[0], size[1], nil, strings.Fields(tt.args)...))
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			if len(lines) > 20 {
				t.Errorf("%s: %d lines on %dx%d\n%s", tt.args, len(lines), size[1], size[0], text)
			}
			for _, l := range lines {
				if utf8.RuneCountInString(l) > int(size[1]) {
					t.Errorf("%s: a line of %d characters: %q", tt.args, utf8.RuneCountInString(l), l)
				}
			}
			for _, want := range tt.wants {
				if !strings.Contains("\n"+text, want) {
					t.Errorf("%s on %dx%d: %q is not in\n%s", tt.args, size[1], size[0], want, text)
				}
			}
		}
	}
}

// Colours and characters follow the environment, and a pipe gets neither.
func TestLook(t *testing.T) {
	for _, tt := range []struct {
		env                []string
		args               string
		colour, characters bool
	}{
		{nil, "", true, true},
		{[]string{"NO_COLOR=1"}, "", false, true},
		{[]string{"NO_COLOR=1"}, "--color=always", true, true},
		{[]string{"NO_COLOR=1", "FORCE_COLOR=1"}, "", true, true},
		{[]string{"FORCE_COLOR=0"}, "", false, true},
		{nil, "--color never", false, true},
		{[]string{"LC_ALL=C"}, "", true, false},
	} {
		text := onTerminal(t, 24, 80, tt.env, append([]string{"mlp", "--batch", "4"}, strings.Fields(tt.args)...)...)
		if got := strings.Contains(text, "\x1b["); got != tt.colour {
			t.Errorf("%q %s: colours %v\n%q", tt.env, tt.args, got, text)
		}
		if got := strings.Contains(text, " · "); got != tt.characters {
			t.Errorf("%q %s: characters beyond ASCII %v\n%q", tt.env, tt.args, got, text)
		}
	}
	stdout, _, _ := try(t, "mlp", "--batch", "4", "--color", "always", "--full")
	if strings.Contains(stdout, "\x1b[") || !strings.Contains(stdout, "f.0") || !strings.Contains(stdout, "likely") {
		t.Errorf("a pipe gets %q", stdout)
	}
	short, _, _ := try(t, "mlp", "--batch", "4")
	if lines := strings.Count(short, "\n"); lines > 20 || strings.Contains(short, "\x1b[") ||
		!strings.Contains(short, "max_memory_allocated()") || strings.Contains(short, "likely") {
		t.Errorf("a pipe gets %d lines\n%s", lines, short)
	}
	if full := onTerminal(t, 24, 200, nil, "mlp", "--batch", "4", "--full"); full != stdout {
		t.Errorf("--full shows\n%s\na pipe gets\n%s", full, stdout)
	}
}

// What an answer shows of any built-in model fits the screen, whatever its names and warnings.
func TestEveryAnswerFits(t *testing.T) {
	t.Parallel()
	for _, name := range models.Names() {
		info, err := models.Info(name)
		must.OK(t, err)
		form := name + ":" + info.Forms[len(info.Forms)-1] // what is exported without care has the most warnings
		args := []string{form, "--gpu", "t4"}
		if strings.Contains(info.Input, "batch") {
			args = append(args, "--batch", "2")
		}
		text := uncoloured(onTerminal(t, 24, 80, nil, args...))
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) > 20 || !strings.Contains(text, "nvidia-smi") {
			t.Errorf("%s: %d lines\n%s", form, len(lines), text)
		}
		for _, l := range lines {
			if utf8.RuneCountInString(l) > 80 {
				t.Errorf("%s: a line of %d characters: %q", form, utf8.RuneCountInString(l), l)
			}
		}
	}
}
