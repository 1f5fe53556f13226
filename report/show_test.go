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

func TestSpans(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines int
		want  string
	}{
		{"features.0", 2, "`features.0`"},
		{"encoder.layer.6.attention.dense", 2, "`encoder.layer.6.`<br>`attention.dense`"},
		{"abcdefghijklmnopqrstuvwxyz", 2, "`abcdefghijklmnop`<br>`qrstuvwxyz`"},
		{"a.cdefghijklmnopqrstuvwxyz", 2, "`a.cdefghijklmnop`<br>`qrstuvwxyz`"}, // not a short first line
		{"features.0.aaaaaaaaaaa.bbbbb.cc", 2, "`features.0.aaaaa`<br>`aaaaaa.bbbbb.cc`"},
		{"features.0.aaaaaaaaaaa.bbbbb.cc", 3, "`features.0.`<br>`aaaaaaaaaaa.`<br>`bbbbb.cc`"},
		{strings.Repeat("0123456789", 9), 2, "`012345678...0123`<br>`4567890123456789`"},
		{"a|b` <x>", 2, "`\"a\\x7cb\\x60 <x>\"`"},
		{"", 1, "`\"\"`"},
	} {
		got := Spans(tt.name, 16, tt.lines)
		if got != tt.want {
			t.Errorf("Spans(%q, 16, %d) = %s, want %s", tt.name, tt.lines, got, tt.want)
		}
		for part := range strings.SplitSeq(got, "<br>") {
			if len(part) > 16+2 {
				t.Errorf("Spans(%q, 16, %d) has the line %s", tt.name, tt.lines, part)
			}
		}
	}
}

func FuzzShow(f *testing.F) {
	for _, s := range []string{"", "a", "conv1.weight", "a|b", "`", "##[", "#", "##", "\x00", "\xff", "\u202e", `"`, `\`,
		`\x7c`, "\\|", "::set-output"} {
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
		spans := strings.Split(Spans(name, limit, 3), "<br>")
		for _, s := range spans {
			if inner := s[1 : len(s)-1]; len(spans) > 3 || s[0] != '`' || s[len(s)-1] != '`' || inner == "" ||
				len(inner) > limit || strings.Contains(inner, "`") {
				t.Fatalf("Spans(%q, %d, 3) = %q", name, limit, spans)
			}
		}
	})
}
