package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/test/must"
)

// A hint is the whole command: what else its command line needs is in it.
func TestHintsAreCommandsThatWork(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"diff resnet50 resnet18", "hint: memestimate diff resnet50 resnet18 --batch 8\n"},
		{"compare resnet18 ../../snapshot/testdata/resnet50_seed.pickle.gz",
			"hint: memestimate compare resnet18 ../../snapshot/testdata/resnet50_seed.pickle.gz --batch 8\n"},
		{"run resnet18 -- true", "hint: memestimate run resnet18 --batch 8 -- COMMAND\n"},
		{"trace resnet18 -- true", "hint: memestimate trace resnet18 --batch 8 -- COMMAND\n"},
	} {
		_, stderr, code := try(t, strings.Fields(tt.args)...)
		if code != exitUsage && code != exitLauncher || !strings.HasSuffix(stderr, tt.want) {
			t.Errorf("%s: code %d, stderr %q, want %q at its end", tt.args, code, stderr, tt.want)
		}
	}
}

// Values that would be taken for nothing, or for something else, are refused.
func TestContradictionsAreRefused(t *testing.T) {
	same := filepath.Join(t.TempDir(), "same")
	for _, tt := range []struct{ args, want string }{
		{"resnet18 --batch 2 --budget 0", `--budget: "0" leaves no memory`},
		{"resnet18 --batch 2 --memory-limit 0GiB", `--memory-limit: "0GiB" leaves no memory`},
		{"resnet18 --batch 2 --output " + same + " --snapshot " + same,
			"--snapshot " + quoteArg(same) + " is the --output as well"},
		{"fit resnet18 --gpu t4 --memory 0", `--memory: "0" leaves no memory`},
		{"table resnet18 --batch 2 --memory-limit 0", `--memory-limit: "0" leaves no memory`},
		{"run --need 0 -- true", `--need: "0" leaves no memory`},
		{"resnet18 --batch 2 --snapshot -", "--snapshot - is standard output, which has the report"},
		{"resnet18 --batch 2 --stats --format csv", "--stats has no place in --format csv"},
		{"resnet18 --batch 2 --what-if --format modelsize", "--what-if has no place in --format modelsize"},
		{"resnet18 --batch 2 --confidence safe", "--confidence goes with --budget or --gpu"},
		{"table resnet18 --batch 2 --format json --columns saved", "--columns has no place in --format json"},
		{"run --need 1GiB --format json -- true", "run: --format goes with --print"},
		{"run --need 1GiB --print --verbose", "run: --print says what would be chosen"},
		{"comment --post --output f", "--output is for a comment that is printed"},
		{"comment --wait 1s", "--wait goes with --post"},
		{"comment --pull 3", "--pull goes with --post"},
		{"resnet18 --batch 2 --foreach=maybe", `invalid argument "maybe" for --foreach: want true or false`},
		{"run --need 1GiB --count x -- true", `--count: "x" is not a number of GPUs such as 2, or 2-4`},
	} {
		stdout, stderr, code := try(t, strings.Fields(tt.args)...)
		if code != exitUsage && code != exitLauncher || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: code %d, stdout %q, stderr %q, want %q", tt.args, code, stdout, stderr, tt.want)
		}
	}
}

// What is asked for is in every form that has a place for it.
func TestStatisticsAreShown(t *testing.T) {
	for _, format := range []string{"text", "markdown", "json", "html"} {
		stdout, _, code := try(t, "mlp", "--batch", "2", "--stats", "--format", format)
		if code != exitOK || !strings.Contains(stdout, "active_bytes.all.peak") {
			t.Errorf("%s: code %d, and no statistics", format, code)
		}
	}
}

// A name in a message is what a shell would have to be given for it, and nothing that a shell would run.
func TestQuotedArgumentsAreShellWords(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	for _, name := range append(slices.Clone(tricks), "plain.onnx", "two words.onnx", "it's", `say "hi"`,
		"`touch pwned`.onnx", "$(touch pwned).onnx", "a$HOME", "wow!!", "back\\slash", "tab\there", "naïve.onnx", "*", "~",
		"#x", "-x") {
		if strings.Contains(name, "\x00") {
			continue
		}
		quoted := quoteArg(name)
		if strings.ContainsFunc(quoted, unicode.IsControl) {
			t.Errorf("%q is shown as %q", name, quoted)
		}
		cmd := exec.Command(shell, "-c", "printf %s "+quoted)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != name {
			t.Errorf("%q is shown as %s, which a shell takes for %q: %v", name, quoted, out, err)
		}
		if left, _ := os.ReadDir(cmd.Dir); len(left) != 0 {
			t.Errorf("%s ran a command", quoted)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	flag, _, code := try(t, "--version")
	command, _, _ := try(t, "version")
	if code != exitOK || flag != command {
		t.Errorf("--version: code %d, %q, want what version says, %q", code, flag, command)
	}
}

// A list in the JSON is a list when nothing is in it.
func TestNotesAreNeverNull(t *testing.T) {
	stdout, _, _ := try(t, "swin_t", "--batch", "2", "--format", "json")
	var r map[string]json.RawMessage
	must.OK(t, json.Unmarshal([]byte(stdout), &r))
	if s := string(r["notes"]); !strings.HasPrefix(s, "[") {
		t.Errorf("notes is %s, want a list", s)
	}
}

// What has no end is not read to it.
func TestFilesWithoutEnd(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip("no /dev/zero")
	}
	for _, tt := range []struct{ args, want string }{
		{"check --config /dev/zero", "memestimate: /dev/zero: more than 1.00 MiB, which a budget file never has\n"},
	} {
		stdout, stderr, code := try(t, strings.Fields(tt.args)...)
		if code != exitInput || stdout != "" || stderr != tt.want {
			t.Errorf("%s: code %d, stdout %q, stderr %q, want %q", tt.args, code, stdout, stderr, tt.want)
		}
	}
}

// No flag that names a file to write makes a command replace one that it reads.
func TestNothingThatIsReadIsReplaced(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "memestimate.yaml", "settings: {batch: 2}\nmodels: m.onnx\n")
	write(t, "m.onnx", "a model")
	write(t, "s.pickle", "a snapshot")
	for _, args := range []string{
		"check -o memestimate.yaml", "check -o m.onnx", "check -f markdown -o m.onnx",
		"comment -o memestimate.yaml", "comment -o m.onnx",
		"m.onnx --snapshot m.onnx", "fit m.onnx --memory 1GiB -o m.onnx", "table m.onnx -o m.onnx",
		"diff m.onnx m.onnx -o m.onnx", "compare m.onnx s.pickle -o s.pickle", "compare m.onnx s.pickle -o m.onnx",
		"trace m.onnx -o m.onnx -- true", "snapshot show s.pickle -o s.pickle", "table m.onnx -o ./m.onnx",
	} {
		_, stderr, code := try(t, strings.Fields(args)...)
		if code != exitUsage && code != exitLauncher || !strings.Contains(stderr, "would replace a file that is read") {
			t.Errorf("%s: code %d, %s", args, code, stderr)
		}
	}
	for name, want := range map[string]string{"m.onnx": "a model", "s.pickle": "a snapshot"} {
		if data, err := os.ReadFile(name); err != nil || string(data) != want {
			t.Errorf("%s is %q: %v", name, data, err)
		}
	}
}

// A run that is larger than any machine is not simulated: it does not run out of a memory that nobody limited.
func TestBeyondWhatIsSimulated(t *testing.T) {
	stdout, stderr, code := try(t, "resnet18", "--batch", "100000000")
	if code != exitOK || stderr != "" || strings.Contains(stdout, "out of memory") || !strings.Contains(
		strings.Join(strings.Fields(stdout), " "), "the run is not simulated, so there is no peak: it takes more than 1 PiB") {
		t.Errorf("code %d, stderr %q: %s", code, stderr, stdout)
	}
	if _, stderr, code = try(t, "resnet18", "--batch", "100000000", "--gpu", "t4"); code != exitNo ||
		!strings.Contains(stderr, "out of memory") {
		t.Errorf("on a GPU: code %d, %s", code, stderr)
	}
	if _, stderr, code = try(t, "resnet18", "--batch", "100000000", "--strict"); code != exitInput {
		t.Errorf("strict: code %d, %s", code, stderr)
	}
}

// Help has the flags that people use first, a line each, and what it leaves out is in --help-all: every flag of every
// command, in lines of 80 characters.
func TestHelpPages(t *testing.T) {
	stdout, _, _ := try(t, "--help")
	for name := range firstFlags {
		n := 0
		for line := range strings.Lines(stdout) {
			if strings.Contains(line, " --"+name+" ") && strings.HasPrefix(strings.TrimLeft(line, " "), "-") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("--help has %d lines for --%s:\n%s", n, name, stdout)
		}
	}
	all, _, _ := try(t, "--help-all")
	for _, c := range rootCommand(&env{}, subcommands()).Commands() {
		if n := strings.Count(all, "\n  "+c.Name()+" "); c.IsAvailableCommand() && n != 1 {
			t.Errorf("--help-all lists %s %d times", c.Name(), n)
		}
	}
	for _, g := range commandGroups {
		for _, name := range g.names {
			if !strings.Contains(strings.ReplaceAll(stdout, "\n", " "), " "+name+" ") {
				t.Errorf("--help does not name %s", name)
			}
		}
	}
	if n := strings.Count(stdout, "\n"); n > 22 {
		t.Errorf("--help has %d lines, where a terminal of 24 shows the command, 22 and the prompt", n)
	}
	if len(firstFlags) != 10 || strings.Contains(stdout, "--zero-grad") || !strings.Contains(stdout, "--help-all tells ") {
		t.Errorf("%d first flags\n%s", len(firstFlags), stdout)
	}
	var each func(c *cobra.Command, path []string)
	each = func(c *cobra.Command, path []string) {
		for _, flag := range []string{"--help", "--help-all"} {
			text, _, code := try(t, append(path, flag)...)
			if code != exitOK {
				t.Fatalf("%q %s: exit code %d", path, flag, code)
			}
			for line := range strings.Lines(text) {
				if len([]rune(line)) > 81 {
					t.Errorf("%q %s: a line of %d characters: %s", path, flag, len([]rune(line))-1, line)
				}
			}
			c.Flags().VisitAll(func(f *pflag.Flag) {
				if flag == "--help-all" && !f.Hidden && f.Name != "help" && f.Name != "version" &&
					!strings.Contains(text, "--"+f.Name) {
					t.Errorf("%q --help-all lacks --%s", path, f.Name)
				}
			})
		}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "completion" {
				each(sub, append(append([]string{}, path...), sub.Name()))
			}
		}
	}
	each(rootCommand(&env{}, subcommands()), nil)
}
