package report

import (
	"strconv"
	"strings"
	"testing"
)

func TestShow(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit int
		want  string
	}{
		{"layer1.0.conv1", 0, "layer1.0.conv1"},
		{"/m/onnx::MatMul_45", 60, "/m/onnx::MatMul_45"},
		{"", 0, `""`},
		{"=cmd()", 0, `"=cmd()"`},
		{"-1+2", 0, `"-1+2"`},
		{"a b", 0, `"a b"`},
		{"a|b`c", 0, `"a\x7cb\x60c"`},
		{"##[error]", 0, `"\x23\x23[error]"`},
		{"\x1b[2J\n", 0, `"\x1b[2J\n"`},
		{"a\u202eb", 0, `"a\u202eb"`},
		{"\xff\xfe", 0, `"\xff\xfe"`},
		{strings.Repeat("x", 100), 10, "xxxxxxx..."},
		{strings.Repeat("é", 100), 12, `"\u00e9"...`},
		{"\U0001f600", 5, `""...`},
	} {
		if got := Show(tt.name, tt.limit); got != tt.want {
			t.Errorf("Show(%q, %d) = %s, want %s", tt.name, tt.limit, got, tt.want)
		}
	}
}

func FuzzShow(f *testing.F) {
	for _, s := range []string{"", "a", "conv1.weight", "a|b", "`", "##[", "#", "##", "\x00", "\xff", "\u202e", `"`, `\`, `\x7c`, "\\|", "::set-output"} {
		f.Add(s, 10)
	}
	f.Fuzz(func(t *testing.T, name string, limit int) {
		shown := Show(name, 0)
		for i := range len(shown) {
			if c := shown[i]; c < ' ' || c > '~' || c == '|' || c == '`' {
				t.Fatalf("Show(%q) = %q has byte %#x", name, shown, c)
			}
		}
		if strings.Contains(shown, "##[") {
			t.Fatalf("Show(%q) = %q is a command to a CI runner", name, shown)
		}
		back := shown
		if strings.HasPrefix(shown, `"`) {
			var err error
			if back, err = strconv.Unquote(shown); err != nil {
				t.Fatalf("Show(%q) = %q: %v", name, shown, err)
			}
		}
		if back != name {
			t.Fatalf("Show(%q) = %q, which stands for %q", name, shown, back)
		}
		limit = 8 + (limit&0xff+0xff)%0xff
		if cut := Show(name, limit); len(cut) > limit || cut != shown && !strings.HasSuffix(cut, "...") {
			t.Fatalf("Show(%q, %d) = %q", name, limit, cut)
		}
	})
}
