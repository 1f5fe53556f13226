package spelling

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Pattern returns a regular expression, of the kind that Go and ECMAScript share, of the words that Value turns into
// one of these names of a setting; "" for a setting that has no words. Of an optimizer's arguments it only knows that
// they are in parentheses.
func Pattern(key string, names []string) string {
	known := func(words map[string]string) []string {
		all := slices.Clone(names)
		for _, w := range slices.Sorted(maps.Keys(words)) {
			if slices.Contains(names, words[w]) {
				all = append(all, w)
			}
		}
		return all
	}
	switch key {
	case "precision":
		return "^ *([tT][oO][rR][cC][hH][.])?(" + alternatives(known(precisions), "") + ") *$"
	case "mode":
		return "^ *(" + alternatives(known(modes), "") + ") *$"
	case "zero-grad":
		return "^ *(" + alternatives(known(zeroGrads), "") + ") *$"
	case "grad-scaler":
		return "^ *(" + alternatives(known(switches), "") + ") *$"
	case "loss":
		module := "((torch[.])?nn[.](functional[.])?|f[.])?"
		return "^ *" + caseless(module, "") + "(" + alternatives(known(losses), "[-_ ]*") + ")([-_ ]*" +
			caseless("loss", "[-_ ]*") + `)?([(][)])? *$`
	case "optimizer":
		bases := map[string][]string{}
		for _, n := range names {
			base, setting, has := strings.Cut(n, "-")
			if has {
				bases[base] = append(bases[base], setting)
			} else if bases[base] == nil {
				bases[base] = []string{}
			}
		}
		var all []string
		for _, base := range slices.Sorted(maps.Keys(bases)) {
			one := caseless(base, "")
			if s := bases[base]; len(s) > 0 {
				one += "([-_ ](" + alternatives(s, "") + "))*"
			}
			all = append(all, one)
		}
		for _, w := range slices.Sorted(maps.Keys(optimizers)) {
			if slices.Contains(names, optimizers[w]) {
				all = append(all, caseless(regexp.QuoteMeta(w), ""))
			}
		}
		return "^ *" + caseless("((torch[.])?optim[.]|transformers[.])?", "") + "(" + strings.Join(all, "|") +
			`)([(].*[)])? *$`
	}
	return ""
}

// alternatives is a pattern of some words in their plain form, as plain takes them; what may stand between letters is
// added.
func alternatives(words []string, between string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = caseless(regexp.QuoteMeta(w), between)
	}
	return strings.Join(out, "|")
}

// caseless is a pattern in letters of both cases, with any separator for a hyphen.
func caseless(pattern, between string) string {
	var b strings.Builder
	class := false
	for _, c := range pattern {
		class = c == '[' || class && c != ']'
		switch {
		case !class && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9'):
			if b.Len() > 0 && between != "" {
				b.WriteString(between)
			}
			if c >= 'a' {
				b.WriteString("[" + strings.ToUpper(string(c)) + string(c) + "]")
			} else {
				b.WriteRune(c)
			}
		case !class && c == '-' && between == "":
			b.WriteString("[-_ ]")
		case !class && c == '-':
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// KeyPattern is Pattern for the names of a setting itself, as Key takes them.
func KeyPattern(key string) string {
	all := []string{key}
	for _, other := range slices.Sorted(maps.Keys(keys)) {
		if keys[other] == key {
			all = append(all, other)
		}
	}
	out := make([]string, len(all))
	for i, k := range all {
		out[i] = strings.ReplaceAll(caseless(k, ""), "[-_ ]", "[-_]")
	}
	return "^(" + strings.Join(out, "|") + ")$"
}
