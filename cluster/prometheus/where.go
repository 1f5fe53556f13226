// Package prometheus tells where in a fleet a job fits now, from the series of NVIDIA's dcgm-exporter that a
// Prometheus server has. What it says is as old as the last scrape: it ranks hosts, and the reservation still happens
// on the host. Sizes are bytes.
package prometheus

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// The series that are asked for. dcgm-exporter gives MiB; the exporter of this program, where it runs, says what is
// held.
const (
	freeSeries = "DCGM_FI_DEV_FB_FREE"
	heldSeries = "memestimate_reservation_outstanding_bytes"
)

// A Question is what to look for.
type Question struct {
	Need     uint64            // on one GPU
	Type     func(string) bool // whether a GPU of that name may be taken; nil: any
	Host     string            // label with the host's name; "": the first of hostLabels that a series has
	MaxAge   time.Duration     // older samples do not count
	Lookback time.Duration     // how far back "since when" is looked for
	Matchers string            // further label matchers of PromQL, such as cluster="a"
}

// hostLabels may have a host's name; a relabelling puts exporters' own labels aside as exported_*.
var hostLabels = []model.LabelName{"Hostname", "exported_Hostname", "hostname", "node", "kubernetes_node", "instance"}

// A Place is a GPU or MIG instance.
type Place struct {
	Host, GPU, UUID, Name, Instance string

	Free    uint64
	Pending uint64        // what reservations on it still have coming
	Held    bool          // by somebody who does not share
	Age     time.Duration // of the last sample
	Since   time.Duration // for how long the job would have fitted without a break, as far as was looked
	All     bool          // ... and longer: in all that was looked at
	Silent  bool          // it had samples, and has none now
}

// Available returns what a job could take.
func (p *Place) Available() uint64 { return p.Free - min(p.Pending, p.Free) }

// An Answer is the places by what they can do for the job.
type Answer struct {
	Fit    []Place // the tightest first
	Short  []Place // the one with most first
	Held   []Place
	Stale  []Place // whose last sample is too old, or that fell silent
	Series int     // how many GPUs the server knows of at all
}

// Where asks the server at an address. An error means that it could not be asked.
func Where(ctx context.Context, address string, q Question) (*Answer, error) {
	client, err := connect(address)
	if err != nil {
		return nil, without(err, address)
	}
	a, err := where(ctx, v1.NewAPI(client), q, time.Now())
	return a, without(err, address)
}

// steps is how many points of the past are looked at.
const steps = 240

func where(ctx context.Context, server v1.API, q Question, now time.Time) (*Answer, error) {
	if strings.ContainsAny(q.Matchers, "{}") {
		return nil, fmt.Errorf("matchers %q: wanted what stands between the braces", q.Matchers)
	}
	free := freeSeries + "{" + q.Matchers + "}"
	step := max(q.Lookback/steps, time.Second)
	past, err := matrix(server.QueryRange(ctx, free, v1.Range{Start: now.Add(-q.Lookback), End: now, Step: step}))
	if err != nil {
		return nil, err
	}
	times, err := vector(server.Query(ctx, "timestamp("+free+")", now))
	if err != nil {
		return nil, err
	}
	values, err := vector(server.Query(ctx, free, now))
	if err != nil {
		return nil, err
	}
	held, err := vector(server.Query(ctx, heldSeries, now))
	if err != nil {
		return nil, err
	}
	sampled := map[model.Fingerprint]time.Time{}
	for _, s := range times {
		if at := float64(s.Value) * 1000; at > 0 && at < 1<<53 {
			sampled[unnamed(s.Metric)] = time.UnixMilli(int64(at))
		}
	}
	current := map[model.Fingerprint]float64{}
	for _, s := range values {
		current[unnamed(s.Metric)] = float64(s.Value)
	}
	a := &Answer{}
	whole := map[string]bool{} // GPUs that are cut into instances: not to be had as a whole
	for _, s := range values {
		if s.Metric["GPU_I_ID"] != "" {
			whole[string(s.Metric["UUID"])] = true
		}
	}
	for _, s := range past {
		p := place(s.Metric, q.Host)
		if p.Instance == "" && whole[p.UUID] || q.Type != nil && !q.Type(p.Name) {
			continue
		}
		a.Series++
		id := unnamed(s.Metric)
		mib, there := current[id]
		at := sampled[id]
		if !there {
			p.Silent = true
			at = s.Values[len(s.Values)-1].Timestamp.Time()
			mib = float64(s.Values[len(s.Values)-1].Value)
		}
		p.Free = bytesOf(mib)
		p.Age = max(now.Sub(at), 0)
		for _, h := range held {
			if h.Metric["uuid"] != s.Metric["UUID"] || p.Instance != "" && h.Metric["instance_id"] != s.Metric["GPU_I_ID"] {
				continue
			}
			p.Pending += min(bytesOf(float64(h.Value)/(1<<20)), 1<<50)
			p.Held = p.Held || h.Metric["share"] != "true"
		}
		p.since(s.Values, q.Need, now, step)
		switch {
		case p.Silent || p.Age > q.MaxAge:
			a.Stale = append(a.Stale, p)
		case p.Held:
			a.Held = append(a.Held, p)
		case p.Available() >= q.Need:
			a.Fit = append(a.Fit, p)
		default:
			a.Short = append(a.Short, p)
		}
	}
	byRoom := func(x, y Place) int {
		return cmp.Or(cmp.Compare(x.Available(), y.Available()), cmp.Compare(y.Since, x.Since), cmp.Compare(x.Host, y.Host),
			cmp.Compare(x.GPU, y.GPU), cmp.Compare(x.Instance, y.Instance))
	}
	slices.SortFunc(a.Fit, byRoom)
	slices.SortFunc(a.Held, byRoom)
	slices.SortFunc(a.Short, func(x, y Place) int { return byRoom(y, x) })
	slices.SortFunc(a.Stale, func(x, y Place) int { return cmp.Or(cmp.Compare(x.Age, y.Age), byRoom(x, y)) })
	return a, nil
}

// since finds out for how long the need would have fitted. A gap in the samples ends it.
func (p *Place) since(values []model.SamplePair, need uint64, now time.Time, step time.Duration) {
	from, later := now, now
	for _, v := range slices.Backward(values) {
		at := v.Timestamp.Time()
		if later.Sub(at) > 2*step || float64(v.Value) < float64(need)/(1<<20) {
			p.Since = now.Sub(from)
			return
		}
		from, later = at, at
	}
	p.Since, p.All = now.Sub(from), true
}

// place reads a series' labels.
func place(m model.Metric, host string) Place {
	p := Place{GPU: string(m["gpu"]), UUID: string(m["UUID"]), Name: string(m["modelName"])}
	if m["GPU_I_ID"] != "" {
		p.Instance = strings.TrimSpace(string(m["GPU_I_PROFILE"]) + " " + string(m["GPU_I_ID"]))
	}
	labels := hostLabels
	if host != "" {
		labels = []model.LabelName{model.LabelName(host)}
	}
	for _, l := range labels {
		if m[l] != "" {
			p.Host = string(m[l])
			return p
		}
	}
	return p
}

// unnamed identifies a series whatever it is called: timestamp() takes the name off.
func unnamed(m model.Metric) model.Fingerprint {
	m = m.Clone()
	delete(m, model.MetricNameLabel)
	return m.Fingerprint()
}

func vector(v model.Value, _ v1.Warnings, err error) (model.Vector, error) {
	if err != nil {
		return nil, err
	}
	out, ok := v.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("the server answered with a %T, wanted a vector", v)
	}
	return slices.DeleteFunc(out, func(s *model.Sample) bool { return s == nil }), nil
}

func matrix(v model.Value, _ v1.Warnings, err error) (model.Matrix, error) {
	if err != nil {
		return nil, err
	}
	out, ok := v.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("the server answered with a %T, wanted a matrix", v)
	}
	return slices.DeleteFunc(out, func(s *model.SampleStream) bool {
		return s == nil || len(s.Values) == 0 // of histograms
	}), nil
}
