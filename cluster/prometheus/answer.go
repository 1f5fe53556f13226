package prometheus

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"

	"github.com/prometheus/client_golang/api"
)

// maxAnswer is the longest answer that is read, unpacked: 240 samples of each of 10,000 GPUs take as much.
const maxAnswer = 64 << 20

// bounded refuses answers that do not end.
type bounded struct{ http.RoundTripper }

// RoundTrip sends a request.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = &boundedBody{answer.Body, maxAnswer}
	}
	return answer, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

// Read reads the next part of an answer.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d MiB", maxAnswer>>20)
	}
	return n, err
}

// connect returns a client of the server at an address.
func connect(address string) (api.Client, error) {
	return api.NewClient(api.Config{Address: address, RoundTripper: bounded{api.DefaultRoundTripper}})
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
