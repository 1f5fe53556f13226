package spelling

import (
	"slices"
	"strings"
	"unicode"
)

// A Device is a GPU by the name that memestimate has for it, and by the one that nvidia-smi shows.
type Device struct{ ID, Name string }

// noise are the words of a GPU's name that tell none from another. "Quadro" does: a Quadro RTX 6000 has 24 GB.
var noise = []string{"nvidia", "geforce", "tesla", "gpu", "generation", "hbm2", "hbm2e", "hbm3", "hbm3e", "amd",
	"instinct", "radeon", "intel", "graphics", "oam", "data", "center", "tm", "r"}

// series are words that a card's number says by itself.
var series = []string{"rtx", "gtx", "rx"}

// formFactors are words that people use for a GPU whose names do not have them.
var formFactors = map[string][]string{"a100-40gb": {"pcie"}, "a100-80gb": {"pcie"}, "a800-80gb": {"pcie"},
	"v100-16gb": {"pcie"}, "v100-32gb": {"pcie", "sxm3"}, "h100-80gb": {"sxm5", "hgx"}, "h200": {"sxm5", "141gb", "hgx"},
	"p100-16gb": {"sxm2"}, "h800": {"80gb", "sxm5"}, "h20": {"96gb"}, "l20": {"48gb"}, "gh200": {"96gb", "superchip"},
	"b200": {"hgx", "180gb"}, "b300": {"hgx"}, "gb10": {"dgx", "spark"}, "mi300x": {"192gb"}, "mi325x": {"256gb"},
	"rtx-a2000-6gb": {"6gb"}, "rtx-3050-6gb": {"6gb"}, "rtx-3080": {"10gb"}, "rtx-4000-ada": {"sff"},
	"rtx-5060-ti-8gb": {"8gb"}, "rtx-4060-ti-8gb": {"8gb"}, "rtx-4090": {"24gb"},
	"rtx-3090": {"24gb"}, "rtx-5090": {"32gb"}, "t4": {"16gb"}, "l4": {"24gb"}, "a10": {"24gb"}, "a10g": {"24gb"},
	"l40s": {"48gb"}, "l40": {"48gb"}, "a40": {"48gb"}, "rtx-a6000": {"48gb"}, "rtx-6000-ada": {"48gb"},
	"rtx-pro-6000": {"server", "max", "q", "96gb"}}

// GPU returns the index of the device that a name stands for: its ID, the name that nvidia-smi shows, or as many words
// of them as tell it from the others, in any case and order: "4090", "A100 80G". It is -1 for a name that none has,
// and an *Error lists those that a name could mean.
func GPU(typed string, known []Device) (int, error) {
	all := GPUs(typed, known)
	switch len(all) {
	case 0:
		return -1, nil
	case 1:
		return all[0], nil
	}
	ids := make([]string, len(all))
	for k, i := range all {
		ids[k] = known[i].ID
	}
	return -1, &Error{`"` + typed + `" could be ` + strings.Join(ids, ", "), "name one of them"}
}

// GPUs returns the indices of all devices that a name could mean. A size such as "16GB" is none's name.
func GPUs(typed string, known []Device) (all []int) {
	for i, d := range known {
		if strings.EqualFold(typed, d.ID) || strings.EqualFold(typed, d.Name) {
			return []int{i}
		}
	}
	asked := deviceWords(typed)
	if !slices.ContainsFunc(asked, func(w string) bool { return !isSize(w) }) {
		return nil
	}
	for i, d := range known {
		words := slices.Concat(deviceWords(d.ID), deviceWords(d.Name), formFactors[d.ID])
		if !slices.ContainsFunc(asked, func(w string) bool {
			return !slices.ContainsFunc(words,
				func(of string) bool { return stands(w, of) })
		}) {
			all = append(all, i)
		}
	}
	if exact := slices.DeleteFunc(slices.Clone(all), func(i int) bool { return !spellsOut(asked, known[i].ID) }); len(
		exact) == 1 {
		return exact
	}
	return all
}

// spellsOut reports whether a name has all words of an ID, but for a series: "4090" is the rtx-4090, not the laptop's.
func spellsOut(asked []string, id string) bool {
	words := deviceWords(id)
	numbered := slices.ContainsFunc(words, isNumber)
	return !slices.ContainsFunc(words, func(w string) bool {
		return !slices.Contains(asked, w) && !(numbered && slices.Contains(series, w))
	})
}

// isSize reports whether a word is a size such as 80gb, or may be meant as one.
func isSize(w string) bool {
	number, ok := strings.CutSuffix(w, "gb")
	return isNumber(number) && (ok || len(number) < 3)
}

// deviceWords takes a name apart: "RTX4090" is rtx and 4090, "80 GB" is 80gb.
func deviceWords(name string) (words []string) {
	for _, w := range strings.FieldsFunc(strings.ToLower(name),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		for _, s := range series {
			if rest, ok := strings.CutPrefix(w, s); ok && rest != "" {
				words, w = append(words, s), rest
			}
		}
		for _, suffix := range []string{"ti", "super"} { // 2080ti
			if rest, ok := strings.CutSuffix(w, suffix); ok && isNumber(rest) && len(rest) == 4 {
				words, w = append(words, rest), suffix
			}
		}
		if w == "mobile" {
			w = "laptop"
		}
		if number := strings.TrimRight(w, "gib"); number != "" && number != w && isNumber(number) {
			w = number + "gb"
		}
		if w == "gb" || w == "g" || w == "gib" { // of "80 GB"
			if k := len(words) - 1; k >= 0 && isNumber(words[k]) {
				words[k] += "gb"
			}
			continue
		}
		if !slices.Contains(noise, w) {
			words = append(words, w)
		}
	}
	return words
}

func isNumber(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// stands reports whether a word that was typed stands for one of a device's: "sxm" for sxm4, "80" for 80gb, "6000" for
// a6000.
func stands(typed, of string) bool {
	if typed == of {
		return true
	}
	if isNumber(typed) { // a short one may be meant as a size
		return of == typed+"gb" || len(typed) > 2 && strings.TrimLeft(of, "abhlrtv") == typed
	}
	return typed == strings.TrimRight(of, "0123456789") && len(typed) > 2
}
