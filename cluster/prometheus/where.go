// Package prometheus finds where in a fleet a job fits now, from the series of NVIDIA's dcgm-exporter that a
// Prometheus server has. Its answer is as old as the last scrape: it ranks hosts, and the reservation still happens on
// the host. Sizes are bytes.
package prometheus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// freeSeries is dcgm-exporter's series of free memory, in MiB.
const freeSeries = "DCGM_FI_DEV_FB_FREE"

// A Question is what to look for.
type Question struct {
	Need     uint64            // on one GPU
	Type     func(string) bool // whether a GPU of that name may be taken; nil: any
	Host     string            // label with the host's name; "": the first of hostLabels that a series has
	MaxAge   time.Duration     // older samples do not count
	Lookback time.Duration     // how far back "since when" is looked for
	Matchers string            // further label matchers of PromQL, such as cluster="a"
}

// hostLabels may have a host's name. Relabelling renames the labels of the exporter to exported_*.
var hostLabels = []string{"Hostname", "exported_Hostname", "hostname", "node", "kubernetes_node", "instance"}

// A Place is a GPU or MIG instance.
type Place struct {
	Host     string        `json:"host"`
	GPU      string        `json:"gpu"`
	UUID     string        `json:"uuid"`
	Name     string        `json:"name"`
	Instance string        `json:"mig_instance,omitempty"`
	Free     uint64        `json:"free_bytes"`
	Age      time.Duration `json:"age_seconds,format:sec"`      // of the last sample
	Since    time.Duration `json:"fits_for_seconds,format:sec"` // without a break, up to the lookback
	All      bool          `json:"fits_for_longer"`             // it would have fitted during the whole lookback
	Silent   bool          `json:"silent,omitempty"`            // it had samples, and has none now
}

// An Answer is the places by what they can do for the job.
type Answer struct {
	Fit    []Place // the tightest first
	Short  []Place // the one with most first
	Stale  []Place // whose last sample is too old, or that fell silent
	Series int     // how many GPUs the server knows of at all
}

// Where asks the server at an address. An error means that it could not be asked.
func Where(ctx context.Context, address string, q Question) (a *Answer, err error) {
	server, err := url.Parse(address)
	if err == nil && (server.Host == "" || server.Scheme != "http" && server.Scheme != "https") {
		err = errors.New("wanted an address such as http://prometheus:9090")
	}
	if err == nil {
		a, err = where(ctx, server, q, time.Now())
	}
	if e, ok := errors.AsType[*url.Error](err); ok { // without what Shown leaves out
		err = fmt.Errorf("%s %s: %w", e.Op, Shown(address), e.Err)
	}
	return a, err
}

// steps is how many points of the past are looked at.
const steps = 240

func where(ctx context.Context, server *url.URL, q Question, now time.Time) (*Answer, error) {
	if strings.ContainsAny(q.Matchers, "{}") {
		return nil, fmt.Errorf("matchers %q: wanted what stands between the braces", q.Matchers)
	}
	free := freeSeries + "{" + q.Matchers + "}"
	step := max(q.Lookback/steps, time.Second)
	past, err := askServer(ctx, server, "query_range", "matrix", url.Values{"query": {free},
		"start": {unix(now.Add(-q.Lookback))},
		"end":   {unix(now)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)}})
	if err != nil {
		return nil, err
	}
	times, err := askServer(ctx, server, "query", "vector", url.Values{"query": {"timestamp(" + free + ")"},
		"time": {unix(now)}})
	if err != nil {
		return nil, err
	}
	values, err := askServer(ctx, server, "query", "vector", url.Values{"query": {free}, "time": {unix(now)}})
	if err != nil {
		return nil, err
	}
	sampled := map[string]time.Time{}
	for _, s := range times {
		if at := s.Value.value * 1000; at > 0 && at < 1<<53 {
			sampled[s.key()] = time.UnixMilli(int64(at))
		}
	}
	current := map[string]float64{}
	split := map[string]bool{} // GPUs with MIG instances: not to be had as a whole
	for _, s := range values {
		if s.Value == (sample{}) {
			continue
		}
		current[s.key()] = s.Value.value
		if s.Metric["GPU_I_ID"] != "" {
			split[s.Metric["UUID"]] = true
		}
	}
	a := &Answer{Fit: []Place{}, Short: []Place{}, Stale: []Place{}}
	for _, s := range past {
		p := place(s.Metric, q.Host)
		if len(s.Values) == 0 || p.Instance == "" && split[p.UUID] || q.Type != nil && !q.Type(p.Name) {
			continue
		}
		a.Series++
		id := s.key()
		mib, there := current[id]
		at := sampled[id]
		if !there {
			last := s.Values[len(s.Values)-1]
			p.Silent, at, mib = true, last.at, last.value
		}
		p.Free = bytesOf(mib)
		p.Age = max(now.Sub(at), 0)
		p.since(s.Values, q.Need, now, step)
		switch {
		case p.Silent || p.Age > q.MaxAge:
			a.Stale = append(a.Stale, p)
		case p.Free >= q.Need:
			a.Fit = append(a.Fit, p)
		default:
			a.Short = append(a.Short, p)
		}
	}
	byFree := func(x, y Place) int {
		return cmp.Or(cmp.Compare(x.Free, y.Free), cmp.Compare(y.Since, x.Since), cmp.Compare(x.Host, y.Host),
			cmp.Compare(x.GPU, y.GPU), cmp.Compare(x.Instance, y.Instance))
	}
	slices.SortFunc(a.Fit, byFree)
	slices.SortFunc(a.Short, func(x, y Place) int { return byFree(y, x) })
	slices.SortFunc(a.Stale, func(x, y Place) int { return cmp.Or(cmp.Compare(x.Age, y.Age), byFree(x, y)) })
	return a, nil
}

// since sets for how long the need would have fitted. A gap in the samples ends it.
func (p *Place) since(values []sample, need uint64, now time.Time, step time.Duration) {
	from, later := now, now
	for _, v := range slices.Backward(values) {
		if later.Sub(v.at) > 2*step || v.value < float64(need)/(1<<20) {
			p.Since = now.Sub(from)
			return
		}
		from, later = v.at, v.at
	}
	p.Since, p.All = now.Sub(from), true
}

// place reads the labels of a series.
func place(m map[string]string, host string) Place {
	p := Place{GPU: m["gpu"], UUID: m["UUID"], Name: m["modelName"]}
	if m["GPU_I_ID"] != "" {
		p.Instance = strings.TrimSpace(m["GPU_I_PROFILE"] + " " + m["GPU_I_ID"])
	}
	labels := hostLabels
	if host != "" {
		labels = []string{host}
	}
	for _, l := range labels {
		if m[l] != "" {
			p.Host = m[l]
			return p
		}
	}
	return p
}
