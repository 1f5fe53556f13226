package recording

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/memestimate/memestimate/test/must"
)

// The schema takes every word that Read takes, and none of the lines that are wrong in themselves.
func TestSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../docs/schema/recording.schema.json")
	must.OK(t, err)
	valid := func(line string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		if err != nil {
			return err
		}
		return schema.Validate(v)
	}
	for _, line := range append([]string{header, `["end",23]`}, every...) {
		if err := valid(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range []string{
		`{"format":"memestimate-recording/2","producer":"","torch":"","gpu":{"name":"","multiprocessors":1,"memory":1}}`,
		`["alocc",0,1]`, `["alloc",0]`, `["alloc",0,-1]`, `["alloc",0,1.5]`, `["step",1]`, `["phase","lunch"]`,
		`["is",0,"gift","x"]`,
		`["call",0,[{}],[],-1,-1]`, `["call",0,[""],[],-1,-1]`, `["call",0,["a:b"],[],-1,-1]`, `["call",0,[[[1]]],[],-1,-1]`,
		`["meta","float32",[1],[-1],0]`,
	} {
		if valid(line) == nil {
			t.Errorf("%s is valid", line)
		}
		if _, err := Read(bytes.NewReader(whole(every[0], every[1], line))); err == nil {
			t.Errorf("%s is read", line)
		}
	}
}
