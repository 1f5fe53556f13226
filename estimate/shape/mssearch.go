package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

// The decoder graphs in the attributes of these operators run once a token; their values
// are no part of the graph's.
var msSearchFamily = family{"com.microsoft", []op{
	{"BeamSearch", 1, beamSearch, nil},
	{"WhisperBeamSearch", 1, beamSearch, nil},
	{"GreedySearch", 1, greedySearch, nil},
	{"Sampling", 1, sampling, nil},
	{"Tokenizer", 1, tokenizer, nil},
	{"WordConvEmbedding", 1, wordConvEmbedding, nil},
}}

// beamSearch: prompt [B, S], longest result, shortest, beams, results for each prompt. The
// results are padded to the longest. Scores have a row for every step.
func beamSearch(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	in, ok, err := c.ranked(0, 2, 3)
	if err != nil {
		return err
	}
	if !ok {
		in = c.unknowns(2)
	}
	longest, err := c.size(1, 1)
	if err != nil {
		return err
	}
	beams, err := c.size(3, 1)
	if err != nil {
		return err
	}
	results, err := c.size(4, 1)
	if err != nil {
		return err
	}
	vocabulary, err := vocabularySize(c)
	if err != nil {
		return err
	}
	elem := c.elem(5)
	if elem == onnxload.Undefined {
		elem = onnxload.Float32
	}
	steps := c.unknown() // of an encoder-decoder: the decoder's own prompt counts
	if c.attrInt("model_type", 0) == 0 {
		steps = Max(Sub(longest, in[1]), N(0))
	}
	c.out(0, onnxload.Int32, Of(in[0], results, longest))
	c.out(1, elem, Of(in[0], results))
	c.out(2, elem, Of(steps, in[0], beams, vocabulary))
	c.out(3, onnxload.Float32, Of(in[0], results, c.unknown(), c.unknown(), c.unknown()))
	c.out(4, elem, Of(in[0]))
	return nil
}

func vocabularySize(c *call) (Dim, error) {
	switch n := c.attrInt("vocab_size", -1); {
	case n > 0:
		return N(n), nil
	case n < -1 || n == 0:
		return Dim{}, fmt.Errorf("attribute vocab_size is %d, wanted a positive number", n)
	}
	return c.unknown(), nil
}

// greedySearch: prompt [B, S] and the longest result, to which all are padded.
func greedySearch(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	in, err := c.ofRank(0, 2)
	if err != nil {
		return err
	}
	longest, err := c.size(1, 1)
	if err != nil {
		return err
	}
	c.out(0, onnxload.Int32, Of(in[0], longest))
	return nil
}

// sampling: as greedySearch, and the last logits.
func sampling(c *call) error {
	if err := greedySearch(c); err != nil {
		return err
	}
	vocabulary, err := vocabularySize(c)
	if err != nil {
		return err
	}
	batch := c.unknown()
	if in, ok := c.dims(0); ok {
		batch = in[0]
	}
	c.out(1, onnxload.Float32, Of(batch, vocabulary))
	return nil
}

// tokenizer: [C] or [N, C] gets one more dimension, as long as the string with the most tokens needs.
func tokenizer(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	c.out(0, onnxload.String, Shape{})
	in, ok, err := c.ranked(0, 1, 2)
	if err != nil || !ok {
		return err
	}
	if n, isInt := Product(in...).Int(); isInt && n == 0 {
		c.set(0, c.in(0))
		return nil
	}
	c.note("the last dimension depends on the data")
	c.out(0, onnxload.String, Of(append(append([]Dim(nil), in...), c.unknown())...))
	return nil
}

// wordConvEmbedding: words [..., characters]; each becomes as many numbers as there are
// filters, [filters, 1, window, size].
func wordConvEmbedding(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	size := c.unknown()
	if w, ok, err := c.ranked(1, 1, anyRank); err != nil {
		return err
	} else if ok {
		size = w[0]
	}
	if c.node.Attr("embedding_size") != nil {
		n, err := c.positiveInt("embedding_size", 0)
		if err != nil {
			return err
		}
		size = N(n)
	}
	s, err := lastDim(c, 0, size)
	c.out(0, c.elem(1), s)
	return err
}
