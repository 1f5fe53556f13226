package prometheus

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/race"
)

// answerOf is an answer to range queries and to others, of one GPU.
func answerOf(of, sample string) string {
	return fmt.Sprintf(`{"status":"success","data":{"resultType":%q,"result":[{"metric":{"gpu":"0","UUID":"u",`+
		`"Hostname":"h"},%s}]}}`, of, sample)
}

// ask asks a server that answers range queries with one text, and others with another.
func ask(t *testing.T, ranges, others string) (*Answer, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := others
		if strings.HasSuffix(r.URL.Path, "query_range") {
			text = ranges
		}
		io.WriteString(w, text)
	}))
	defer server.Close()
	return Where(context.Background(), server.URL, Question{Need: 1 << 30, MaxAge: time.Hour, Lookback: time.Hour})
}

// A server that lies makes no panic, and no memory that is not there.
func TestServerThatLies(t *testing.T) {
	past := answerOf("matrix", `"values":[[1,"80000"]]`)
	for _, c := range []struct{ ranges, others string }{
		{answerOf("matrix", `"values":[]`), answerOf("vector", `"value":[1,"80000"]`)},
		{answerOf("matrix", `"histograms":[[1,{"count":"1","sum":"1","buckets":[]}]]`),
			answerOf("vector", `"value":[1,"80000"]`)},
		{past, answerOf("vector", `"value":[1,"NaN"]`)}, {past, answerOf("vector", `"value":[1,"+Inf"]`)},
		{past, answerOf("vector", `"value":[1,"-1"]`)}, {past, answerOf("vector", `"value":[1,"1e300"]`)},
		{past, answerOf("vector", `"histogram":[1,{"count":"1","sum":"1","buckets":[]}]`)},
		{past, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`},
		{past, `{"status":"success","data":{"resultType":"vector","result":[null]}}`},
		{`{"status":"success","data":{"resultType":"matrix","result":[null]}}`, answerOf("vector", `"value":[1,"1"]`)},
		{`{"status":"success"}`, `{"status":"success"}`}, {"null", "null"}, {"{}", "{}"}, {"", ""}, {"[[[", "[[["},
		{`{"status":"error","errorType":"x","error":"\u001b[31m"}`, ""},
	} {
		a, err := ask(t, c.ranges, c.others)
		if err == nil && len(a.Fit) > 0 {
			t.Errorf("%s and %s: fits on %+v", c.ranges, c.others, a.Fit)
		}
	}
}

// A server, or a proxy before it, that takes no POST is asked by GET; one that says no is quoted.
func TestServersThatTakeNoPost(t *testing.T) {
	answer := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost || r.FormValue("query") == "" ||
			!strings.HasPrefix(r.URL.Path, "/below/api/v1/query") {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if answer != "" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			io.WriteString(w, answer)
			return
		}
		value := "80000"
		if strings.HasPrefix(r.FormValue("query"), "timestamp(") {
			value = fmt.Sprint(time.Now().Unix())
		}
		text := answerOf("vector", fmt.Sprintf(`"value":[%d,%q]`, time.Now().Unix(), value))
		if strings.HasSuffix(r.URL.Path, "query_range") {
			text = answerOf("matrix", fmt.Sprintf(`"values":[[%d.5,"80000"]]`, time.Now().Unix()))
		}
		io.WriteString(w, text)
	}))
	defer server.Close()
	q := Question{Need: 1 << 30, MaxAge: time.Hour, Lookback: time.Hour}
	a, err := Where(context.Background(), server.URL+"/below/", q)
	if err != nil || len(a.Fit) != 1 || a.Fit[0].Free != 80000<<20 || a.Fit[0].Host != "h" {
		t.Errorf("%+v, %v", a, err)
	}
	answer = `{"status":"error","errorType":"bad_data","error":"no such label"}`
	_, err = Where(context.Background(), server.URL+"/below", q)
	if err == nil || err.Error() != "bad_data: no such label" {
		t.Errorf("%v", err)
	}
}

// An answer without an end is refused, packed or not.
func TestAnswerWithoutEnd(t *testing.T) {
	packed := false
	line := []byte(strings.Repeat(`{"metric":{},"values":[[1,"1"]]},`, 1<<12))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := io.Writer(w)
		if packed {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			out = z
		}
		io.WriteString(out, `{"status":"success","data":{"resultType":"matrix","result":[`)
		for {
			if _, err := out.Write(line); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	for _, packed = range []bool{false, true} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Where(context.Background(), server.URL, Question{Lookback: time.Hour})
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
			t.Errorf("packed %v: %v", packed, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 8*maxAnswer && !race.Enabled {
			t.Errorf("%d bytes allocated", n)
		}
	}
}

// An answer that trickles ends with the time that the server may take.
func TestAnswerThatTrickles(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			w.Write(bytes.Repeat([]byte(" "), 64))
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := Where(ctx, server.URL, Question{Lookback: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, wanted the end of the time", err)
	}
}

// A secret in the address is in no message.
func TestSecretStays(t *testing.T) {
	for _, address := range []string{"http://user:s3cret@127.0.0.1:1/x?token=s3cret", "http://user:s3cret@127.0.0.1:bad",
		"http://s3cret@[::1", "s3cret://\x7f", "http://127.0.0.1:1/%zz?s3cret"} {
		_, err := Where(context.Background(), address, Question{Lookback: time.Hour})
		if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(Shown(address), "s3cret@") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// An answer of many series takes time that is linear in its size, within the time that the server may take.
func TestManySeries(t *testing.T) {
	var ranges, others strings.Builder
	now := time.Now().Unix()
	for i := range 20_000 {
		labels := fmt.Sprintf(`{"metric":{"gpu":"%d","UUID":"u%d","Hostname":"h"},`, i, i)
		fmt.Fprintf(&ranges, `,%s"values":[[%d,"80000"],[%d,"80000"]]}`, labels, now-15, now)
		fmt.Fprintf(&others, `,%s"value":[%d,"%d"]}`, labels, now, now)
	}
	list := func(kind, of string) string {
		return fmt.Sprintf(`{"status":"success","data":{"resultType":%q,"result":[%s]}}`, kind, of[1:])
	}
	start := time.Now()
	a, err := ask(t, list("matrix", ranges.String()), list("vector", others.String()))
	if err != nil || a.Series != 20_000 {
		t.Fatalf("%v, %v", a, err)
	}
	if took := time.Since(start); took > 10*time.Second && !race.Enabled {
		t.Errorf("it took %v", took)
	}
}
