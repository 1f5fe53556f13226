package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/memestimate/memestimate/estimate"
)

// An assumeValue gathers the values of --assume: guesses by name, and whether they are made.
type assumeValue map[string]bool

func (v *assumeValue) Type() string   { return "NAME=yes|no" }
func (v *assumeValue) String() string { return "" }
func (v *assumeValue) Set(s string) error {
	name, word, err := assignment(s, "no")
	if err != nil {
		return err
	}
	if known := estimate.GuessNames(); !slices.Contains(known, name) {
		return unknownName(name, known)
	}
	yes := word == "yes"
	if !yes && word != "no" {
		return fmt.Errorf("%q: want yes or no", word)
	}
	if old, ok := (*v)[name]; ok && old != yes {
		return fmt.Errorf("%s is assumed both ways", name)
	}
	if *v == nil {
		*v = assumeValue{}
	}
	(*v)[name] = yes
	return nil
}

// names are the guesses that are made, or not, by what was assumed.
func (v assumeValue) names(made bool) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if v[name] == made {
			list = append(list, name)
		}
	}
	return list
}
