//go:build linux && cgo

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tlsFiles writes a certificate for 127.0.0.1 that signs itself, and its key.
func tlsFiles(t *testing.T, dir string) (cert, keyFile string, certificate []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(t, err)
	private, err := x509.MarshalECPrivateKey(key)
	check(t, err)
	cert, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	check(t, os.WriteFile(cert, certificate, 0o600))
	check(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), 0o600))
	return cert, keyFile, certificate
}

// TestWebhookCommand speaks TLS with the program, as the API server does.
func TestWebhookCommand(t *testing.T) {
	program, err := exec.LookPath("memestimate")
	check(t, err)
	cert, keyFile, certificate := tlsFiles(t, t.TempDir())
	c := exec.Command(program, "webhook", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", keyFile)
	pipe, err := c.StderrPipe()
	check(t, err)
	check(t, c.Start())
	defer c.Process.Kill()
	var b [200]byte
	n, _ := pipe.Read(b[:])
	_, address, ok := strings.Cut(strings.TrimSpace(string(b[:n])), "serving on ")
	if !ok {
		t.Fatalf("it says %q", b[:n])
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	for _, tt := range []struct{ path, annotations, want string }{
		{"mutate", `"memestimate.dev/model":"resnet50","memestimate.dev/batch":"64"`,
			`"allowed":true,"patchType":"JSONPatch"`},
		{"validate", `"memestimate.dev/model":"resnet50","memestimate.dev/batch":"64"`, `"allowed":true}`},
		{"mutate", `"memestimate.dev/need":"30GiB","memestimate.dev/gpus":"2"`, `"allowed":true,"patchType"`},
		{"mutate", `"other":"x"`, `"allowed":true}`},
		{"validate", `"memestimate.dev/model":"../../etc/passwd"`, `is no built-in model`},
		{"validate", `"memestimate.dev/model":"resnet50","memestimate.dev/batch":"many"`, `"allowed":false`},
		{"validate", `"memestimate.dev/need":"lots"`, `is not a size such as 30GiB`},
		{"validate", `"memestimate.dev/need":"1GiB","memestimate.dev/gpus":"0"`, `is not a number of GPUs`},
		{"validate", `"memestimate.dev/need":"1GiB","memestimate.dev/model":"resnet50"`, `both say what is needed`},
	} {
		body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":{"metadata":{"annotations":{` + tt.annotations + `}},"spec":{"containers":[{"name":"a"}]}}}}`
		r, err := client.Post("https://"+address+"/"+tt.path, "application/json", strings.NewReader(body))
		check(t, err)
		answer, err := io.ReadAll(r.Body)
		check(t, err)
		r.Body.Close()
		if !strings.Contains(string(answer), tt.want) {
			t.Errorf("%s of %s: %s, want %s", tt.path, tt.annotations, answer, tt.want)
		}
	}
	if r, err := http.Get("http://" + address + "/healthz"); err == nil && r.StatusCode == http.StatusOK {
		t.Error("it answers without TLS")
	}
	c.Process.Signal(os.Interrupt)
	if err := c.Wait(); err != nil {
		t.Errorf("after a signal: %v", err)
	}
}
