package estimate

import (
	"encoding/csv"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/test/must"
)

// open reads a built-in model.
func open(t testing.TB, name string) *onnxload.Model {
	t.Helper()
	data, err := models.Open(name)
	must.OK(t, err)
	m := readModel(t, data, "")
	return m
}

// measured returns what PyTorch counted for each model.
func measured(t *testing.T) map[string][4]int64 {
	t.Helper()
	f, err := os.Open("testdata/parameters.csv")
	must.OK(t, err)
	defer f.Close()
	r := csv.NewReader(f)
	r.Comment = '#'
	records, err := r.ReadAll()
	must.OK(t, err)
	out := map[string][4]int64{}
	for _, rec := range records[1:] {
		var v [4]int64
		for i := range v {
			if v[i], err = strconv.ParseInt(rec[i+1], 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		out[rec[0]] = v
	}
	return out
}

// unread are bytes of buffers that modules have but that their forward pass does not read,
// so that no export has them.
var unread = map[string]int64{
	"llama_160m": 128, // rotary_emb.original_inv_freq, a spare copy of inv_freq
	"qwen2_0_5b": 128,
}

// The parameters and buffers of every training export are those that PyTorch counted.
func TestParametersMatchPyTorch(t *testing.T) {
	for name, want := range measured(t) {
		info, err := models.Info(name)
		must.OK(t, err)
		for _, form := range info.Forms {
			if !strings.HasSuffix(form, "-train") {
				continue
			}
			t.Run(name+":"+form, func(t *testing.T) {
				r, err := Run(open(t, name+":"+form), Options{Batch: 8})
				must.OK(t, err)
				got := [4]int64{r.Parameters.Bytes, r.Parameters.Count, r.Parameters.Tensors, r.Buffers.Bytes + unread[name]}
				if got != want {
					t.Errorf("parameters and buffers: %v, PyTorch: %v", got, want)
				}
			})
		}
	}
}
