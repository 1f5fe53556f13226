package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// A server is a Prometheus server that is asked by HTTP. Prometheus's own client, which would do the same, is not
// linked: to initialise it and what it imports is a twentieth of what every start of this program takes.
type server struct {
	address *url.URL
	client  *http.Client
}

// connect returns the server at an address.
func connect(address string) (*server, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	return &server{u, &http.Client{}}, nil
}

// A series is a time series with its samples, oldest first.
type series struct {
	Metric map[string]string `json:"metric"`
	Values []sample          `json:"values"` // of a range query
	Value  *sample           `json:"value"`  // of any other
}

// A sample is one value of a series. Prometheus writes it as [seconds, "value"].
type sample struct {
	at    time.Time
	value float64
}

// UnmarshalJSON reads a sample.
func (s *sample) UnmarshalJSON(b []byte) error {
	var seconds float64
	var value string
	if err := json.Unmarshal(b, &[2]any{&seconds, &value}); err != nil {
		return err
	}
	if !(math.Abs(seconds) < 1<<43) {
		return fmt.Errorf("a sample of second %g", seconds)
	}
	f, err := strconv.ParseFloat(value, 64)
	s.at, s.value = time.UnixMilli(int64(math.Round(seconds*1000))), f
	return err
}

// identity says which series this is whatever it is called: timestamp() takes the name off.
func (s *series) identity() string {
	var b strings.Builder
	for _, label := range slices.Sorted(maps.Keys(s.Metric)) {
		if label != "__name__" {
			fmt.Fprintf(&b, "%q=%q,", label, s.Metric[label])
		}
	}
	return b.String()
}

// queryRange asks what a query gave from one time to another. Series that have no numbers, as histograms, are left out.
func (s *server) queryRange(ctx context.Context, query string, from, to time.Time, step time.Duration) ([]series,
	error) {
	list, err := s.ask(ctx, "query_range", "matrix", url.Values{"query": {query}, "start": {seconds(from)},
		"end": {seconds(to)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)}})
	return slices.DeleteFunc(list, func(s series) bool { return len(s.Values) == 0 }), err
}

// query asks what a query gives at a time.
func (s *server) query(ctx context.Context, query string, at time.Time) ([]series, error) {
	list, err := s.ask(ctx, "query", "vector", url.Values{"query": {query}, "time": {seconds(at)}})
	return slices.DeleteFunc(list, func(s series) bool { return s.Value == nil }), err
}

// seconds writes a time as queries have it.
func seconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
}

// ask sends a query and reads the answer, which must be of a kind. A server that takes no POST is asked by GET.
func (s *server) ask(ctx context.Context, endpoint, kind string, values url.Values) ([]series, error) {
	u := s.address.JoinPath("api/v1", endpoint)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(values.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	code, body, err := s.send(r)
	if err == nil && (code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented) {
		u.RawQuery = values.Encode()
		if r, err = http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil); err != nil {
			return nil, err
		}
		code, body, err = s.send(r)
	}
	if err != nil {
		return nil, err
	}
	if code/100 != 2 && code != http.StatusBadRequest && code != http.StatusUnprocessableEntity {
		return nil, fmt.Errorf("the server answered %d %s", code, http.StatusText(code))
	}
	var answer struct {
		Status, ErrorType, Error string
		Data                     struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("the server's answer is not Prometheus's: %w", err)
	}
	switch {
	case answer.Status == "error":
		return nil, fmt.Errorf("%s: %s", answer.ErrorType, answer.Error)
	case answer.Status != "success" || code/100 != 2:
		return nil, errors.New("the server's answer is not Prometheus's")
	case answer.Data.ResultType != kind:
		return nil, fmt.Errorf("the server answered with a %q, wanted a %s", answer.Data.ResultType, kind)
	}
	var list []series
	if err := json.Unmarshal(answer.Data.Result, &list); err != nil {
		return nil, fmt.Errorf("the server's answer is not Prometheus's: %w", err)
	}
	return list, nil
}

// send sends a request and reads the answer, which must end.
func (s *server) send(r *http.Request) (code int, body []byte, err error) {
	answer, err := s.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer has more than %d MiB", maxAnswer>>20)
	}
	return answer.StatusCode, body, err
}

// Shown is an address as it may be printed: without what may be a secret, its user and its query.
func Shown(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "its address"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// without returns an error that does not tell the secrets of an address.
func without(err error, address string) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s %s: %w", e.Op, Shown(address), e.Err)
	}
	return err
}

// bytesOf are the bytes of so many MiB, as a sample has them: 0 for what is no size.
func bytesOf(mib float64) uint64 {
	if !(mib > 0) || mib > 1<<30 {
		return 0
	}
	return uint64(math.Round(mib)) << 20
}
