// Package kubernetes writes a job's need for GPU memory into Kubernetes objects: a ResourceClaimTemplate of dynamic
// resource allocation (resource.k8s.io/v1), or a device plugin's resource with node affinity on the labels of GPU
// feature discovery. It talks to no cluster. Sizes are bytes.
package kubernetes

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Need is what a job's pod takes.
type Need struct {
	Bytes uint64 // on each GPU, of what the GPU has in all
	GPUs  int

	DRA      bool   // dynamic resource allocation; otherwise the device plugin
	Class    string // DRA's device class: "gpu.nvidia.com"
	Driver   string // whose capacity is asked for: "gpu.nvidia.com"
	Resource string // the device plugin's: "nvidia.com/gpu"
	Queue    string // of Kueue; "" for none
}

// expression selects devices by their memory. A device that does not say how much it has does not match; CEL would
// otherwise end the whole allocation with an error.
func (n *Need) expression() string {
	return fmt.Sprintf("'%[1]s' in device.capacity && 'memory' in device.capacity['%[1]s'] && "+
		"device.capacity['%[1]s'].memory.compareTo(quantity('%[2]d')) >= 0", n.Driver, n.Bytes)
}

// claimTemplate returns a ResourceClaimTemplate of that name.
func (n *Need) claimTemplate(name string) map[string]any {
	return map[string]any{
		"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"spec": map[string]any{"devices": map[string]any{"requests": []any{map[string]any{
			"name": claimName,
			"exactly": map[string]any{
				"deviceClassName": n.Class, "allocationMode": "ExactCount", "count": n.GPUs,
				"selectors": []any{map[string]any{"cel": map[string]any{"expression": n.expression()}}},
			},
		}}}}},
	}
}

// claimName is what a pod calls its claim.
const claimName = "gpu"

// memoryLabel is GPU feature discovery's: the memory of a node's GPUs in MiB.
const memoryLabel = "nvidia.com/gpu.memory"

// applyTo writes the need into a pod's spec, for its first container. template names the ResourceClaimTemplate, for
// DRA.
func (n *Need) applyTo(spec map[string]any, template string) error {
	containers, _ := spec["containers"].([]any)
	if len(containers) == 0 {
		return errors.New("the pod has no containers")
	}
	first, ok := containers[0].(map[string]any)
	if !ok {
		return errors.New("the pod's first container is no mapping")
	}
	if n.DRA {
		resources, err := child(first, "resources")
		if err == nil {
			err = setNamed(spec, "resourceClaims", map[string]any{"name": claimName, "resourceClaimTemplateName": template})
		}
		if err == nil {
			err = setNamed(resources, "claims", map[string]any{"name": claimName})
		}
		return err
	}
	limits, err := child(first, "resources", "limits")
	if err != nil {
		return err
	}
	limits[n.Resource] = n.GPUs
	required, err := child(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	if err != nil {
		return err
	}
	terms, err := list(required, "nodeSelectorTerms")
	if len(terms) == 0 { // the terms are alternatives: the need goes into each
		terms = []any{map[string]any{}}
	}
	above := strconv.FormatUint((n.Bytes+1<<20-1)>>20-1, 10) // the least number of MiB that a label must exceed
	for i := range terms {
		term, ok := terms[i].(map[string]any)
		if !ok {
			return errors.New("affinity: a nodeSelectorTerm is no mapping")
		}
		all, wrong := list(term, "matchExpressions")
		all = slices.DeleteFunc(all, func(e any) bool {
			m, _ := e.(map[string]any)
			return m["key"] == memoryLabel && m["operator"] == "Gt"
		})
		term["matchExpressions"] = append(all, map[string]any{"key": memoryLabel, "operator": "Gt", "values": []any{above}})
		err = cmp.Or(err, wrong)
	}
	required["nodeSelectorTerms"] = terms
	return err
}

// child returns the mapping below these keys, made where there is none.
func child(m map[string]any, keys ...string) (map[string]any, error) {
	for _, key := range keys {
		if m[key] == nil {
			m[key] = map[string]any{}
		}
		c, ok := m[key].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: wanted a mapping", key)
		}
		m = c
	}
	return m, nil
}

// list returns the list of that key, which may be missing.
func list(m map[string]any, key string) ([]any, error) {
	l, ok := m[key].([]any)
	if !ok && m[key] != nil {
		return nil, fmt.Errorf("%s: wanted a list", key)
	}
	return l, nil
}

// setNamed puts an entry into a list, in the place of the one that has its name.
func setNamed(m map[string]any, key string, entry map[string]any) error {
	l, err := list(m, key)
	l = slices.DeleteFunc(slices.Clone(l), func(e any) bool {
		old, _ := e.(map[string]any)
		return old["name"] == entry["name"]
	})
	m[key] = append(l, entry)
	return err
}

// podPaths are where kinds keep the spec of their pods.
var podPaths = map[string][]string{
	"Pod":         {"spec"},
	"Job":         {"spec", "template", "spec"},
	"Deployment":  {"spec", "template", "spec"},
	"StatefulSet": {"spec", "template", "spec"},
	"ReplicaSet":  {"spec", "template", "spec"},
	"DaemonSet":   {"spec", "template", "spec"},
	"CronJob":     {"spec", "jobTemplate", "spec", "template", "spec"},
}

// Patch reads YAML documents, writes the need into every one that makes pods, and returns them all, with the claim
// template that they need.
func (n *Need) Patch(in []byte) ([]byte, error) {
	var docs, templates []any
	d := yaml.NewDecoder(bytes.NewReader(in))
	patched := false
	for {
		var doc map[string]any
		err := d.Decode(&doc)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		kind, _ := doc["kind"].(string)
		if path, ok := podPaths[kind]; ok {
			template, err := n.patch(kind, doc, path)
			if err != nil {
				return nil, err
			}
			if n.DRA {
				templates = append(templates, template)
			}
			patched = true
		}
		if doc != nil {
			docs = append(docs, doc)
		}
	}
	if !patched {
		return nil, errors.New("no Job, Pod or other kind that makes pods")
	}
	return Encode(append(templates, docs...)...)
}

// patch writes the need into an object, and returns the claim template for it.
func (n *Need) patch(kind string, doc map[string]any, path []string) (map[string]any, error) {
	spec := doc
	for _, key := range path {
		next, ok := spec[key].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: no %s", kind, strings.Join(path, "."))
		}
		spec = next
	}
	meta, err := child(doc, "metadata")
	if err != nil {
		return nil, err
	}
	name, _ := meta["name"].(string)
	prefix, _ := meta["generateName"].(string)
	name = cmp.Or(name, strings.TrimSuffix(prefix, "-"))
	if err := n.applyTo(spec, name+"-gpu"); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.TrimSpace(kind+" "+name), err)
	}
	if name == "" {
		return nil, fmt.Errorf("%s: no metadata.name", kind)
	}
	template := n.claimTemplate(name + "-gpu")
	if meta["namespace"] != nil {
		template["metadata"].(map[string]any)["namespace"] = meta["namespace"]
	}
	if n.Queue != "" { // Kueue starts the job when there is room
		labels, err := child(meta, "labels")
		if err != nil {
			return nil, err
		}
		labels["kueue.x-k8s.io/queue-name"] = n.Queue
		if kind == "Job" {
			doc["spec"].(map[string]any)["suspend"] = true
		}
	}
	return template, nil
}

// Job returns a Job that runs a command in an image.
func Job(name, image string, command []string) map[string]any {
	words := make([]any, len(command))
	for i, w := range command {
		words[i] = w
	}
	container := map[string]any{"name": "main", "image": image}
	if len(words) > 0 {
		container["command"] = words
	}
	return map[string]any{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"backoffLimit": 0,
			"template": map[string]any{"spec": map[string]any{"restartPolicy": "Never", "containers": []any{container}}}},
	}
}

// Encode writes objects as YAML documents.
func Encode(objects ...any) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	for _, o := range objects {
		if err := e.Encode(o); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), e.Close()
}
