package kubernetes

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/memestimate/memestimate/test/must"
)

const gib = 1 << 30

func dra() *Need {
	return &Need{Bytes: 30 * gib, GPUs: 2, DRA: true, Class: "gpu.nvidia.com", Driver: "gpu.nvidia.com",
		Resource: "nvidia.com/gpu"}
}

func TestClaim(t *testing.T) {
	job, err := Encode(Job("train", "pytorch/pytorch", []string{"python", "train.py"}))
	must.OK(t, err)
	n := dra()
	n.Queue = "gpus"
	got, err := n.Patch(job)
	must.OK(t, err)
	const want = `apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: train-gpu
spec:
  spec:
    devices:
      requests:
        - exactly:
            allocationMode: ExactCount
            count: 2
            deviceClassName: gpu.nvidia.com
            selectors:
              - cel:
                  expression: '''gpu.nvidia.com'' in device.capacity && ''memory'' in device.capacity[''gpu.nvidia.com''] && device.capacity[''gpu.nvidia.com''].memory.compareTo(quantity(''32212254720'')) >= 0'
          name: gpu
---
apiVersion: batch/v1
kind: Job
metadata:
  labels:
    kueue.x-k8s.io/queue-name: gpus
  name: train
spec:
  backoffLimit: 0
  suspend: true
  template:
    spec:
      containers:
        - command:
            - python
            - train.py
          image: pytorch/pytorch
          name: main
          resources:
            claims:
              - name: gpu
      resourceClaims:
        - name: gpu
          resourceClaimTemplateName: train-gpu
      restartPolicy: Never
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	again, err := n.Patch(got[bytes.Index(got, []byte("---"))+4:]) // a second time changes nothing
	if err != nil || string(again) != want {
		t.Errorf("%v, patched twice:\n%s", err, again)
	}
}

func TestDevicePlugin(t *testing.T) {
	n := &Need{Bytes: 30*gib + 1, GPUs: 1, Resource: "nvidia.com/gpu"}
	in := `# kept apart
kind: ConfigMap
apiVersion: v1
metadata: {name: other}
---
kind: CronJob
apiVersion: batch/v1
metadata: {name: nightly}
spec:
  jobTemplate:
    spec:
      template:
        spec:
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms:
                - matchExpressions: [{key: zone, operator: In, values: [a]}]
                - matchExpressions: [{key: nvidia.com/gpu.memory, operator: Gt, values: ["1"]}]
          containers: [{name: a, image: b, resources: {limits: {cpu: 2}}}]
`
	out, err := n.Patch([]byte(in))
	must.OK(t, err)
	text := string(out)
	for _, want := range []string{"kind: ConfigMap", "nvidia.com/gpu: 1", "cpu: 2", "key: zone"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	// Of 30,721 MiB and more a GPU has enough: Gt is strict.
	if strings.Count(text, `- "30720"`) != 2 || strings.Contains(text, `"1"`) {
		t.Errorf("affinity:\n%s", text)
	}
	for in, want := range map[string]string{
		"kind: ConfigMap\n":                                 "no Job, Pod",
		"kind: Pod\nspec: {containers: []}\n":               "no containers",
		"kind: Pod\nspec: 3\n":                              "no spec",
		"kind: Pod\nspec: {containers: [3]}\n":              "no mapping",
		"kind: Pod\nspec: {containers: [{resources: 3}]}\n": "wanted a mapping",
		"kind: [": "",
	} {
		if _, err := n.Patch([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

func FuzzPatch(f *testing.F) {
	f.Add([]byte("kind: Pod\nspec: {containers: [{name: a}], affinity: {nodeAffinity: 3}}\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := dra().Patch(in)
		if err != nil {
			return
		}
		d := yaml.NewDecoder(bytes.NewReader(out))
		for {
			var v any
			if err := d.Decode(&v); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%q gave what is no YAML: %v\n%s", in, err, out)
			}
		}
	})
}
