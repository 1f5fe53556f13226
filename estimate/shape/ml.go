package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

var mlFamily = family{"ai.onnx.ml", []op{
	{"ArrayFeatureExtractor", 1, arrayFeatures, nil},
	{"Binarizer", 1, likeInput, nil},
	{"CastMap", 1, castMap, nil},
	{"CategoryMapper", 1, categoryMapper, nil},
	{"DictVectorizer", 1, dictVectorizer, nil},
	{"FeatureVectorizer", 1, featureVectorizer, nil},
	{"Imputer", 1, likeInput, nil},
	{"LabelEncoder", 1, categoryMapper, nil},
	{"LabelEncoder", 2, labelEncoder, nil}, // tensors as keys and values are there since 4
	{"LinearClassifier", 1, linearClassifier, nil},
	{"LinearRegressor", 1, targets, nil},
	{"Normalizer", 1, toFloats, nil},
	{"OneHotEncoder", 1, oneHotEncoder, nil},
	{"Scaler", 1, toFloats, nil},
	{"SVMClassifier", 1, svmClassifier, nil},
	{"SVMRegressor", 1, svmRegressor, nil},
	{"TreeEnsemble", 5, treeEnsemble, nil},
	{"TreeEnsembleClassifier", 1, treeClassifier, nil},
	{"TreeEnsembleRegressor", 1, targets, nil},
	{"ZipMap", 1, zipMap, nil},
}}

// rows returns how many samples input 0 has: [N, features], or one sample [features].
func rows(c *call) (Dim, error) {
	in, ok, err := c.ranked(0, 1, 2)
	switch {
	case err != nil || !ok:
		return c.unknown(), err
	case len(in) == 1:
		return N(1), nil
	}
	return in[0], nil
}

// arrayFeatures: the second input selects along the last axis. Of a vector ONNX
// Runtime makes one row.
func arrayFeatures(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	in, ok, err := c.likeInput(1)
	if err != nil || !ok {
		return err
	}
	count := c.unknown()
	if which, ok := c.dims(1); ok {
		count = Product(which...)
	}
	out := append([]Dim(nil), in[:len(in)-1]...)
	if len(in) == 1 {
		out = []Dim{N(1)}
	}
	c.out(0, c.elem(0), Of(append(out, count)...))
	return nil
}

// castMap: one row; attribute map_form SPARSE says how long, DENSE makes it the
// number of entries.
func castMap(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	elem := onnxload.Float32
	switch to := c.attrStr("cast_to", "TO_FLOAT"); to {
	case "TO_FLOAT":
	case "TO_INT64":
		elem = onnxload.Int64
	case "TO_STRING":
		elem = onnxload.String
	default:
		return fmt.Errorf("attribute cast_to is %q, wanted TO_FLOAT, TO_INT64 or TO_STRING", to)
	}
	length := c.unknown()
	if c.attrStr("map_form", "DENSE") == "SPARSE" {
		n, err := c.positiveInt("max_map", 1)
		if err != nil {
			return err
		}
		length = N(n)
	}
	c.out(0, elem, Of(N(1), length))
	return nil
}

// categoryMapper turns strings into integers and integers into strings.
func categoryMapper(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	elem := onnxload.Undefined
	switch c.elem(0) {
	case onnxload.String:
		elem = onnxload.Int64
	case onnxload.Int64:
		elem = onnxload.String
	}
	c.out(0, elem, c.shape(0))
	return nil
}

// dictVectorizer: the vocabulary is the row, the map's values are its elements.
func dictVectorizer(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	elem := onnxload.Undefined
	if t := c.in(0); t.Kind == onnxload.MapType && t.Of != nil {
		elem = t.Of.Elem
	}
	n := max(c.attrLen("string_vocabulary"), c.attrLen("int64_vocabulary"))
	if n == 0 {
		return fmt.Errorf("attribute string_vocabulary or int64_vocabulary is missing")
	}
	c.out(0, elem, Of(N(1), N(int64(n))))
	return nil
}

// featureVectorizer joins the features of its inputs.
func featureVectorizer(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	count, batch := N(0), c.unknown()
	if widths, ok := c.attrInts("inputdimensions"); ok {
		for _, w := range widths {
			if w < 0 {
				return fmt.Errorf("attribute inputdimensions has %d, wanted at least 0", w)
			}
			count = Add(count, N(w))
		}
	} else {
		for i := range c.node.In {
			in, ok := c.dims(i)
			if !ok || len(in) == 0 {
				count = c.unknown()
				break
			}
			count = Add(count, Product(in[1:]...))
		}
	}
	if in, ok := c.dims(0); ok && len(in) == 1 {
		batch = N(1)
	} else if ok && len(in) > 1 {
		batch = in[0]
	}
	c.out(0, onnxload.Float32, Of(batch, count))
	return nil
}

// labelEncoder: the type of the values is the output's.
func labelEncoder(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	elem := onnxload.Undefined
	for _, a := range c.node.Attrs {
		switch a.Name {
		case "values_strings":
			elem = onnxload.String
		case "values_int64s":
			elem = onnxload.Int64
		case "values_floats":
			elem = onnxload.Float32
		case "values_tensor":
			if len(a.Tensors) == 1 {
				elem = a.Tensors[0].DType
			}
		}
	}
	if elem == onnxload.Undefined {
		return fmt.Errorf("attribute values_strings, values_int64s, values_floats or values_tensor is missing")
	}
	c.out(0, elem, c.shape(0))
	return nil
}

// labels sets output 0 to a label for each sample, and returns the number of classes.
func labels(c *call, strings, ints string) (batch Dim, classes int64, err error) {
	elem := onnxload.Int64
	n := c.attrLen(ints)
	if s := c.attrLen(strings); s > 0 {
		elem, n = onnxload.String, s
	}
	batch, err = rows(c)
	c.out(0, elem, Of(batch))
	return batch, int64(n), err
}

// linearClassifier: one score for each intercept, two for a single one that tells two
// classes apart.
func linearClassifier(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	batch, classes, err := labels(c, "classlabels_strings", "classlabels_ints")
	if err != nil {
		return err
	}
	n := int64(c.attrLen("intercepts"))
	if n == 0 || n == 1 && classes == 2 {
		n = classes
	}
	if n == 0 {
		return fmt.Errorf("attribute intercepts is missing")
	}
	c.out(1, onnxload.Float32, Of(batch, N(n)))
	return nil
}

// svmClassifier: libsvm models without probabilities (no attribute prob_a) score
// each pair of classes, two scores for two classes.
func svmClassifier(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	batch, classes, err := labels(c, "classlabels_strings", "classlabels_ints")
	if err != nil {
		return err
	}
	if classes == 0 {
		return fmt.Errorf("attribute classlabels_ints or classlabels_strings is missing")
	}
	n := classes
	vectors := N(0)
	perClass, _ := c.attrInts("vectors_per_class")
	for _, v := range perClass {
		vectors = Add(vectors, N(v))
	}
	if v, ok := vectors.Int(); ok && v > 0 && c.attrLen("prob_a") == 0 {
		if n = 2; classes > 2 {
			n = classes * (classes - 1) / 2
		}
	}
	c.out(1, onnxload.Float32, Of(batch, N(n)))
	return nil
}

func svmRegressor(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	batch, err := rows(c)
	c.out(0, onnxload.Float32, Of(batch, N(1)))
	return err
}

// treeEnsemble: since 5, of the input's type.
func treeEnsemble(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	in, err := c.ofRank(0, 2)
	if err != nil {
		return err
	}
	n, err := c.positiveInt("n_targets", 1)
	if err != nil {
		return err
	}
	c.out(0, c.elem(0), Of(in[0], N(n)))
	return nil
}

func treeClassifier(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	batch, classes, err := labels(c, "classlabels_strings", "classlabels_int64s")
	if err != nil {
		return err
	}
	if classes == 0 {
		return fmt.Errorf("attribute classlabels_int64s or classlabels_strings is missing")
	}
	c.out(1, onnxload.Float32, Of(batch, N(classes)))
	return nil
}

// targets is the rule of regressors: the number of columns is attribute targets or n_targets.
func targets(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	batch, err := rows(c)
	if err != nil {
		return err
	}
	n, err := c.positiveInt("targets", 1)
	if err != nil {
		return err
	}
	if n, err = c.positiveInt("n_targets", n); err != nil {
		return err
	}
	c.out(0, onnxload.Float32, Of(batch, N(n)))
	return nil
}

func toFloats(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	c.out(0, onnxload.Float32, c.shape(0))
	return nil
}

// oneHotEncoder: one more dimension, as long as the list of categories.
func oneHotEncoder(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	n := max(c.attrLen("cats_int64s"), c.attrLen("cats_strings"))
	if n == 0 {
		return fmt.Errorf("attribute cats_int64s or cats_strings is missing")
	}
	s := Shape{}
	if in, ok := c.dims(0); ok {
		s = Of(append(append([]Dim(nil), in...), N(int64(n)))...)
	}
	c.out(0, onnxload.Float32, s)
	return nil
}

// zipMap: a list of maps from class to score, one map a sample.
func zipMap(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	batch, err := rows(c)
	if err != nil {
		return err
	}
	key := onnxload.Int64
	switch {
	case c.attrLen("classlabels_strings") > 0:
		key = onnxload.String
	case c.attrLen("classlabels_int64s") == 0:
		return fmt.Errorf("attribute classlabels_int64s or classlabels_strings is missing")
	}
	score := Tensor(onnxload.Float32, Of())
	t := Sequence(Type{Kind: onnxload.MapType, Elem: key, Of: &score})
	t.List = &List{Len: batch}
	c.set(0, t)
	return nil
}
