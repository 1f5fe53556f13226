package spelling

import (
	"slices"
	"strings"
	"unicode"
)

// A Device is a GPU by the name that memestimate has for it, and by the one that nvidia-smi shows.
type Device struct{ ID, Name string }

// noise are the words of a GPU's name that tell none from another. "Quadro" does: a Quadro RTX 6000 has 24 GB.
var noise = []string{"nvidia", "geforce", "tesla", "gpu", "generation", "hbm2", "hbm2e", "hbm3", "hbm3e"}

// formFactors are words that people use for a GPU whose names do not have them.
var formFactors = map[string][]string{"a100-40gb": {"pcie"}, "a100-80gb": {"pcie"}, "v100-16gb": {"pcie"},
	"v100-32gb": {"pcie"}, "h100-80gb": {"sxm5", "hgx"}, "h200": {"sxm5", "141gb", "hgx"},
	"b200": {"hgx", "180gb"}}

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
	return all
}

// isSize reports whether a word is a size such as 80gb.
func isSize(w string) bool {
	number, ok := strings.CutSuffix(w, "gb")
	return ok && isNumber(number)
}

// deviceWords takes a name apart: "RTX4090" is rtx and 4090, "80 GB" is 80gb.
func deviceWords(name string) (words []string) {
	for _, w := range strings.FieldsFunc(strings.ToLower(name),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		for _, series := range []string{"rtx", "gtx"} {
			if rest, ok := strings.CutPrefix(w, series); ok && rest != "" {
				words, w = append(words, series), rest
			}
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
	if isNumber(typed) {
		return of == typed+"gb" || strings.TrimLeft(of, "abhlrtv") == typed
	}
	return typed == strings.TrimRight(of, "0123456789") && len(typed) > 2
}
