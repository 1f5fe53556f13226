package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

var textFamily = family{"", []op{
	{"StringNormalizer", 10, stringNormalizer, nil},
	{"StringConcat", 20, stringConcat, nil},
	{"StringSplit", 20, stringSplit, nil},
	{"RegexFullMatch", 20, regexFullMatch, nil},
	{"TfIdfVectorizer", 9, tfIdf, nil},
}}

// stringNormalizer: [C] or [1, C]; attribute stopwords takes some of the strings away,
// and where nothing is left one empty string remains.
func stringNormalizer(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	c.out(0, onnxload.String, c.shape(0))
	in, ok, err := c.ranked(0, 1, 2)
	if err != nil || !ok {
		return err
	}
	if len(in) == 2 {
		if _, err := agree("the first dimension", in[0], N(1)); err != nil {
			return err
		}
	}
	if c.attrLen("stopwords") == 0 {
		return nil
	}
	out := append([]Dim(nil), in...)
	if limit := Max(in[len(in)-1], N(1)); !limit.Equal(N(1)) {
		out[len(out)-1] = c.bounded(limit)
	} else {
		out[len(out)-1] = limit // the one string, or the empty one in its place
	}
	c.out(0, onnxload.String, Of(out...))
	return nil
}

func stringConcat(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	s, err := broadcast(c.shape(0), c.shape(1))
	c.out(0, onnxload.String, s)
	return err
}

// stringSplit: one more dimension, as long as the most pieces that any string gives.
// Attribute maxsplit bounds it: n splits make n+1 pieces, and below 0 it does not. A string that does not contain the
// delimiter is one piece; without a delimiter white space is one, and an empty string has no piece.
func stringSplit(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	c.out(0, onnxload.String, Shape{})
	c.out(1, onnxload.Int64, c.shape(0))
	in, ok := c.dims(0)
	if !ok {
		return nil
	}
	pieces := c.unknown()
	if n, isInt := Product(in...).Int(); isInt && n == 0 {
		pieces = N(0)
	} else if n := c.attrInt("maxsplit", -1); n == 0 && c.attrStr("delimiter", "") != "" {
		pieces = N(1)
	} else if n >= 0 {
		pieces = c.bounded(Add(N(n), N(1)))
	} else {
		c.note("the last dimension depends on the data")
	}
	c.out(0, onnxload.String, Of(append(append([]Dim(nil), in...), pieces)...))
	return nil
}

func regexFullMatch(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	c.out(0, onnxload.Bool, c.shape(0))
	return nil
}

// tfIdf: [C] or [N, C]; the last dimension becomes as long as the largest of
// attribute ngram_indexes needs.
func tfIdf(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	c.out(0, onnxload.Float32, Shape{})
	places, _ := c.attrInts("ngram_indexes")
	if len(places) == 0 {
		return fmt.Errorf("attribute ngram_indexes is missing")
	}
	longest := N(0)
	for _, p := range places {
		if p < 0 {
			return fmt.Errorf("attribute ngram_indexes has %d, wanted at least 0", p)
		}
		longest = Max(longest, N(p))
	}
	in, ok, err := c.ranked(0, 1, 2)
	if err != nil || !ok {
		return err
	}
	c.out(0, onnxload.Float32, Of(append(append([]Dim(nil), in[:len(in)-1]...), Add(longest, N(1)))...))
	return nil
}
