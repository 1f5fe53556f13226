package kubernetes

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// The annotations of a pod that the webhook reads.
const (
	ModelAnnotation = "memestimate.dev/model" // a built-in model
	BatchAnnotation = "memestimate.dev/batch" // its batch
	NeedAnnotation  = "memestimate.dev/need"  // instead of a model: a size such as 30GiB
	GPUsAnnotation  = "memestimate.dev/gpus"  // how many; 1 when missing
)

// A review is what the API server sends and gets back: AdmissionReview of admission.k8s.io/v1, as far as it matters
// here.
type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitempty"`
	Response   *response `json:"response,omitempty"`
}

type request struct {
	UID    string         `json:"uid"`
	Object map[string]any `json:"object"`
}

type response struct {
	UID       string  `json:"uid"`
	Allowed   bool    `json:"allowed"`
	Status    *status `json:"status,omitempty"`
	PatchType string  `json:"patchType,omitempty"`
	Patch     []byte  `json:"patch,omitempty"`
}

type status struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// maxReview bounds what is read of a request; an object in etcd has at most 1.5 MiB.
const maxReview = 4 << 20

// Webhook answers admission reviews of pods. ask turns a pod's annotations into its need; nil means that it has none
// of ours. A pod whose annotations make no sense is refused with the reason; with mutate the need is written into the
// others.
func Webhook(mutate bool, ask func(annotations map[string]string) (*Need, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in review
		b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
		if err == nil {
			err = json.Unmarshal(b, &in)
		}
		if err != nil || in.Request == nil || in.Kind != "AdmissionReview" {
			http.Error(w, "wanted an AdmissionReview with a request", http.StatusBadRequest)
			return
		}
		out := response{UID: in.Request.UID, Allowed: true}
		patch, err := admit(in.Request.Object, mutate, ask)
		switch {
		case err != nil:
			out.Allowed, out.Status = false, &status{http.StatusUnprocessableEntity, "memestimate: " + err.Error()}
		case patch != nil:
			out.PatchType, out.Patch = "JSONPatch", patch
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(review{APIVersion: in.APIVersion, Kind: in.Kind, Response: &out})
	})
}

// admit returns the JSON patch for a pod, or nil.
func admit(pod map[string]any, mutate bool, ask func(map[string]string) (*Need, error)) ([]byte, error) {
	meta, _ := pod["metadata"].(map[string]any)
	raw, _ := meta["annotations"].(map[string]any)
	annotations := map[string]string{}
	for k, v := range raw {
		if s, ok := v.(string); ok {
			annotations[k] = s
		}
	}
	need, err := ask(annotations)
	if err != nil || need == nil {
		return nil, err
	}
	spec, ok := pod["spec"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the pod has no spec")
	}
	if err := need.ApplyTo(spec, annotations[NeedAnnotation+"-template"]); err != nil || !mutate {
		return nil, err
	}
	return json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec", "value": spec}})
}
