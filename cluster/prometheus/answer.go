package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxAnswer is the longest answer that is read, unpacked: 240 samples of each of 10,000 GPUs take as much.
const maxAnswer = 64 << 20

// A series is one element of an answer: Value of a vector, Values of a matrix. Histograms have neither.
type series struct {
	Metric map[string]string
	Value  sample
	Values []sample
}

// key identifies a series by its labels. The name is left out: timestamp() removes it.
func (s *series) key() string {
	var b strings.Builder
	for _, label := range slices.Sorted(maps.Keys(s.Metric)) {
		if label != "__name__" {
			fmt.Fprintf(&b, "%q=%q,", label, s.Metric[label])
		}
	}
	return b.String()
}

// A sample is written as [seconds since 1970, "value"].
type sample struct {
	at    time.Time
	value float64
}

// UnmarshalJSON reads a sample.
func (s *sample) UnmarshalJSON(b []byte) error {
	var seconds float64
	var value string
	pair := []any{&seconds, &value}
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	if len(pair) != 2 || !(math.Abs(seconds) < 1<<40) {
		return fmt.Errorf("%.40q is no sample", b)
	}
	v, err := strconv.ParseFloat(value, 64)
	*s = sample{time.UnixMilli(int64(seconds * 1000)), v}
	return err
}

// askServer sends one query to the HTTP API of a Prometheus server
// (https://prometheus.io/docs/prometheus/latest/querying/api) and returns its result, which must be of that type.
func askServer(ctx context.Context, server *url.URL, path, kind string, query url.Values) ([]series, error) {
	u := server.JoinPath("api/v1", path)
	body := query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultClient.Do(request)
	if err == nil && (answer.StatusCode == http.StatusMethodNotAllowed || answer.StatusCode == http.StatusNotImplemented) {
		answer.Body.Close()
		u.RawQuery = body
		if request, err = http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil); err == nil {
			answer, err = http.DefaultClient.Do(request)
		}
	}
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var out struct {
		Status, ErrorType, Error string
		Data                     struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, answer.Body, maxAnswer)).Decode(&out); err != nil {
		if answer.StatusCode/100 != 2 {
			return nil, fmt.Errorf("the server answered %s", answer.Status)
		}
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return nil, fmt.Errorf("the answer has more than %d MiB", maxAnswer>>20)
		}
		return nil, err
	}
	switch {
	case out.Status == "error":
		return nil, fmt.Errorf("%s: %s", out.ErrorType, out.Error)
	case answer.StatusCode/100 != 2:
		return nil, fmt.Errorf("the server answered %s", answer.Status)
	case out.Data.ResultType != kind:
		return nil, fmt.Errorf("the server answered with a %.20q, wanted a %s", out.Data.ResultType, kind)
	}
	var all []series
	if err := json.Unmarshal(out.Data.Result, &all); err != nil {
		return nil, err
	}
	return all, ctx.Err()
}

// Shown is an address as it may be printed: without its user and its query, which may be secret.
func Shown(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "its address"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// unix writes a time as Prometheus reads it.
func unix(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

// bytesOf returns the bytes of so many MiB, 0 for what is no size.
func bytesOf(mib float64) uint64 {
	if !(mib > 0) || mib > 1<<30 {
		return 0
	}
	return uint64(math.Round(mib)) << 20
}
